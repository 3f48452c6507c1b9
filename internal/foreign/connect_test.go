package foreign

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
)

func TestIsShortage(t *testing.T) {
	f := func(err error, want bool) {
		t.Helper()
		if got := IsShortage(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
		f(e, true)
		f(fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", e)}), true)
		f(&os.PathError{Op: "open", Path: "ca.pem", Err: e}, true)
	}
	for _, e := range []error{nil, io.EOF, syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.ECONNRESET, &net.DNSError{Err: "no such host"}} {
		f(e, false)
	}
}

// A lack that shows on the way to an address is not lost, neither that of the
// connection nor that of the resolver, which net.DNSError hides.
func TestDial(t *testing.T) {
	short := func(string, string, syscall.RawConn) error { return syscall.EMFILE }
	_, err := Dial(t.Context(), net.Dialer{Control: short}, "tcp", "127.0.0.1:1")
	if !IsShortage(err) {
		t.Errorf("by address: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	c, err := Dial(t.Context(), net.Dialer{}, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	l.Close()
	if _, err := Dial(t.Context(), net.Dialer{}, "tcp", addr); err == nil || IsShortage(err) {
		t.Errorf("refused: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, net.Dialer{}, "tcp", addr); !errors.Is(err, context.Canceled) && err == nil {
		t.Errorf("canceled: %v", err)
	}
}

// A server of TLS 1.3 that wants a certificate refuses a client without one after the
// client's part of the handshake. The client has read that when it writes.
func TestCause(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	c, err := tls.Dial("tcp", s.Listener.Addr().String(), s.Client().Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	_, refused := c.Read(make([]byte, 1))
	c.Close()
	_, err = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	if !errors.Is(err, net.ErrClosed) {
		t.Fatalf("the write returned %v", err)
	}
	if got := Cause(c, err); got != refused || got.Error() != "remote error: tls: certificate required" {
		t.Errorf("got %v", got)
	}
	for _, other := range []error{io.EOF, syscall.EPIPE} {
		if got := Cause(c, other); got != other {
			t.Errorf("%v: got %v", other, got)
		}
	}
	if got := Cause(nil, err); got != err {
		t.Errorf("without a connection: got %v", got)
	}
}

func TestHeadLimit(t *testing.T) {
	var l HeadLimit
	if err := l.Read(2 * MaxHead); err != nil {
		t.Errorf("nothing is counted yet: %v", err)
	}
	l.Begin()
	if err := l.Read(MaxHead - 1); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	for range 3 {
		if err := l.Read(1); !errors.Is(err, ErrHeadTooLong) {
			t.Errorf("past the limit: %v", err)
		}
	}
	l.Begin()
	l.End()
	if err := l.Read(2 * MaxHead); err != nil {
		t.Errorf("the body is not counted: %v", err)
	}
}
