package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A tee passes connections on to a server and keeps what goes through, with
// the time at which each piece arrived: the raw capture, and the clock that
// owes nothing to the exporter.
type tee struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	conns []*recording
}

// recording is one connection.
type recording struct {
	mu      sync.Mutex
	request []piece
	reply   []piece
	client  net.Conn
	server  net.Conn
}

// piece is what one read returned.
type piece struct {
	at   time.Time
	data []byte
}

// newTee listens on loopback and passes on to address until ctx is done.
func newTee(ctx context.Context, address string) (*tee, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tee{listener: l, to: address}
	context.AfterFunc(ctx, func() { l.Close() })
	go t.accept()
	return t, nil
}

func (t *tee) url() string { return "http://" + t.listener.Addr().String() }

func (t *tee) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", t.to)
		if err != nil {
			reset(client)
			continue
		}
		r := &recording{client: client, server: server}
		t.mu.Lock()
		t.conns = append(t.conns, r)
		t.mu.Unlock()
		go r.pass(server, client, &r.request)
		go r.pass(client, server, &r.reply)
	}
}

// pass copies one direction. The way in which it ends is passed on as well: a
// reset is a reset on the other side, too.
func (r *recording) pass(to, from net.Conn, pieces *[]piece) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		at := time.Now()
		if n > 0 {
			r.mu.Lock()
			*pieces = append(*pieces, piece{at, bytes.Clone(buffer[:n])})
			r.mu.Unlock()
			if _, err := to.Write(buffer[:n]); err != nil {
				reset(from)
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			to.(*net.TCPConn).CloseWrite()
			return
		default:
			reset(to)
			return
		}
	}
}

// reset closes a connection with a reset.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// forget drops the recordings so far.
func (t *tee) forget() {
	t.mu.Lock()
	t.conns = nil
	t.mu.Unlock()
}

// recordings returns copies of the connections so far.
func (t *tee) recordings() []*recording {
	t.mu.Lock()
	defer t.mu.Unlock()
	var copies []*recording
	for _, r := range t.conns {
		r.mu.Lock()
		copies = append(copies, &recording{request: r.request, reply: r.reply})
		r.mu.Unlock()
	}
	return copies
}

// replay reads pieces one at a time: at is when the latest of them arrived.
type replay struct {
	pieces []piece
	at     time.Time
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.pieces) == 0 {
		return 0, io.EOF
	}
	first := &r.pieces[0]
	r.at = first.at
	n := copy(p, first.data)
	if n == len(first.data) {
		r.pieces = r.pieces[1:]
	} else {
		r.pieces = append([]piece{{first.at, first.data[n:]}}, r.pieces[1:]...)
	}
	return n, nil
}
