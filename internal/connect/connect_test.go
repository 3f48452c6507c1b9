package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
