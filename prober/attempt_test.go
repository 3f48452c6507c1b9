package prober

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// rawServer hands each connection to serve, in a goroutine of its own, and
// closes it after that.
func rawServer(t *testing.T, serve func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return "http://" + l.Addr().String()
}

// A server that answers before it has read the request, and closes then, resets
// the connection while the request is still being sent. Its answer counts.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	url := rawServer(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 200)); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large")
	})
	for _, tokens := range []int{64, 4000, 40_000} {
		m := newModule()
		m.InputTokens = config.Tokens(tokens)
		p := newProber(t, newEndpoint(t, url), m)
		for range 20 {
			r := p.one(t.Context(), time.Time{})
			if r.Outcome != result.HTTPError || r.Status != http.StatusRequestEntityTooLarge || !strings.Contains(r.Err.Error(), "too large") {
				t.Fatalf("outcome %s, status %d: %v", r.Outcome, r.Status, r.Err)
			}
		}
	}
}

// What the peer no longer takes is no error of the write: the reads tell.
func TestWriteToAClosedConnection(t *testing.T) {
	for _, err := range []error{syscall.ECONNRESET, syscall.EPIPE} {
		c := &conn{Conn: failingConn{err: &net.OpError{Op: "write", Err: os.NewSyscallError("write", err)}}}
		if n, err := c.Write(make([]byte, 7)); n != 7 || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	}
	c := &conn{Conn: failingConn{err: os.ErrDeadlineExceeded}}
	if _, err := c.Write(make([]byte, 7)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// failingConn fails to write.
type failingConn struct {
	net.Conn
	err error
}

func (c failingConn) Write([]byte) (int, error) { return 0, c.err }

// Under TLS 1.3 a server refuses a client without a certificate after the
// handshake, as far as the client is concerned.
func TestNoClientCertificate(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: version, MaxVersion: version}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		cfg := newEndpoint(t, s.URL)
		cfg.HTTP.TLSConfig.InsecureSkipVerify = true
		p := newProber(t, cfg, newModule())
		for range 10 {
			if r := p.one(t.Context(), time.Time{}); r.Outcome != result.TLSError || !strings.HasPrefix(r.Err.Error(), "tls: ") {
				t.Errorf("%s: outcome %s: %v", tls.VersionName(version), r.Outcome, r.Err)
			}
		}
		s.Close()
	}
}

// A server that speaks first does not speak HTTP, whatever it says. Where the
// transport notices before it sends the request, it closes the connection.
func TestServerThatSpeaksFirst(t *testing.T) {
	for _, greeting := range []string{"220 mail.example ESMTP\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "\x00"} {
		noticed := make(chan struct{}, 1)
		url := rawServer(t, func(c net.Conn) {
			_, _ = io.WriteString(c, greeting)
			_, _ = io.Copy(io.Discard, c)
			noticed <- struct{}{}
		})
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-noticed }})
		r := newProber(t, newEndpoint(t, url), newModule()).one(ctx, time.Time{})
		if r.Outcome != result.ProtocolError || r.Err.Error() != "the server sent data before the request" {
			t.Errorf("%q: outcome %s: %v", greeting, r.Outcome, r.Err)
		}
	}
}
