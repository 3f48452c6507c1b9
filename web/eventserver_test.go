package web

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// eventServer serves the events over connections without a network, so that
// time can be simulated, and by an http.Server with tight limits.
type eventServer struct {
	*site
	t      *testing.T
	http   *http.Server
	conns  chan net.Conn
	served chan error
}

func newEventServer(t *testing.T, s Status) *eventServer {
	t.Helper()
	e := &eventServer{site: newStatusSite(t, s), t: t, conns: make(chan net.Conn), served: make(chan error, 1)}
	e.http = &http.Server{Handler: e.Handler(), ReadTimeout: time.Second, WriteTimeout: time.Second}
	e.http.RegisterOnShutdown(e.Close)
	go func() { e.served <- e.http.Serve(&pipeListener{conns: e.conns}) }()
	return e
}

// stop ends the server and returns how long that took.
func (e *eventServer) stop() time.Duration {
	e.t.Helper()
	start := time.Now()
	if err := e.http.Shutdown(e.t.Context()); err != nil {
		e.t.Error(err)
	}
	<-e.served
	return time.Since(start)
}

// page is the client's end of a stream.
type page struct {
	t    *testing.T
	conn net.Conn
	resp *http.Response
	in   *bufio.Reader
}

// open asks for events with a query. Headers come in pairs.
func (e *eventServer) open(query string, header ...string) *page {
	e.t.Helper()
	client, server := net.Pipe()
	e.conns <- server
	lines := ""
	for pair := range slices.Chunk(header, 2) {
		lines += pair[0] + ": " + pair[1] + "\r\n"
	}
	if _, err := fmt.Fprintf(client, "GET /api/v1/events%s HTTP/1.1\r\nHost: h\r\n%s\r\n", query, lines); err != nil {
		e.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	return &page{t: e.t, conn: client, resp: resp, in: bufio.NewReader(resp.Body)}
}

// next returns the next block of the stream; "" is its end.
func (p *page) next() string {
	p.t.Helper()
	var block strings.Builder
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return ""
		}
		if line == "\n" {
			return block.String()
		}
		block.WriteString(line)
	}
}

// expect reads blocks of the stream.
func (p *page) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if got := p.next(); got != w {
			p.t.Fatalf("got the event %q, want %q", got, w)
		}
	}
}

func (p *page) close() {
	_ = p.conn.Close()
	_ = p.resp.Body.Close()
}

const (
	begins = "retry: 3000\n"
	alive  = "event: ping\ndata: {}\n"
)

// rowsEvent is an event with endpoints of the given versions.
func rowsEvent(version, endpoints int, more string, rows ...any) string {
	list := ""
	for row := range slices.Chunk(rows, 2) {
		list += fmt.Sprintf(`,{"name":%q,"url":"","state":"up","since":%d}`, row...)
	}
	if list != "" {
		list = `,"endpoints":[` + list[1:] + `]`
	}
	return fmt.Sprintf("id: %[1]d\nevent: update\ndata: {\"version\":%[1]d,\"at\":1000,\"states\":{\"up\":%d}%s%s}\n", version, endpoints, list, more)
}

func newsEvent(version int) string {
	return fmt.Sprintf("id: %[1]d\nevent: endpoint\ndata: {\"version\":%[1]d}\n", version)
}
