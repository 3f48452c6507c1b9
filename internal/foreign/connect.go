package foreign

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
)

// IsShortage reports whether err comes from a lack of descriptors, memory, buffers or local addresses and ports of this
// machine, which says nothing about the other side.
func IsShortage(err error) bool {
	lacks := []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL}
	return slices.ContainsFunc(lacks, func(lack syscall.Errno) bool { return errors.Is(err, lack) })
}

type dialKey struct{}

// Through returns a context under which Dial, and so all that this program connects to, is reached by dial instead of the
// machine's network: one in memory.
func Through(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error)) context.Context {
	return context.WithValue(ctx, dialKey{}, dial)
}

// Dial connects as d.DialContext does. Unlike those of a net.Dialer, its errors show a shortage that kept the name from
// being resolved: net.DNSError has only its text. d must have no Resolver.
func Dial(ctx context.Context, d net.Dialer, network, addr string) (net.Conn, error) {
	if dial, ok := ctx.Value(dialKey{}).(func(context.Context, string, string) (net.Conn, error)); ok {
		return dial(ctx, network, addr)
	}
	var short atomic.Pointer[error] // several servers are asked at once
	d.Resolver = &net.Resolver{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if IsShortage(err) {
			short.Store(&err)
		}
		return c, err
	}}
	c, err := d.DialContext(ctx, network, addr)
	if why := short.Load(); err != nil && why != nil {
		return nil, errors.Join(err, *why)
	}
	return c, err
}

// Cause returns why an exchange on a connection of an http.Transport failed with err. A server that ends TLS with an
// alert, as one of TLS 1.3 does when it refuses a client's certificate, may do so before the request is written. The
// transport then returns the error of the write to the connection that its reader has closed, and the alert is left in
// the connection alone. c may be nil.
func Cause(c net.Conn, err error) error {
	t, ok := c.(*tls.Conn)
	if !ok || !errors.Is(err, net.ErrClosed) {
		return err
	}
	if _, ended := t.Read(make([]byte, 1)); ended != nil { // at once, as t is closed
		return ended
	}
	return err
}

// MaxHead is the longest head of an HTTP reply (status line, headers, and what precedes them), in bytes. Servers and
// proxies in use send 16 to 32 KiB at most; net/http reads up to 10 MiB, and needs 14 times that for hostile headers.
const MaxHead = 64 << 10

// ErrHeadTooLong is a head of more than MaxHead bytes, an ErrTooLarge.
var ErrHeadTooLong = fmt.Errorf("%w: headers", ErrTooLarge)

// HeadLimit counts what a connection reads of a reply's head: the zero value nothing. Safe for concurrent use.
type HeadLimit struct{ left atomic.Int64 } // 0: nothing is counted

// Begin starts counting: a request is about to be sent.
func (l *HeadLimit) Begin() { l.left.Store(MaxHead) }

// End stops counting: the head was read.
func (l *HeadLimit) End() { l.left.Store(0) }

// Read counts n bytes that were read. An error ends the connection.
func (l *HeadLimit) Read(n int) error {
	if l.left.Load() == 0 || n <= 0 || l.left.Add(-int64(n)) > 0 {
		return nil
	}
	l.left.Store(1) // so that every later byte is too much as well
	return fmt.Errorf("%w over %d bytes", ErrHeadTooLong, MaxHead)
}
