// Package shortage tells errors apart that come from what this machine or process
// lacks: descriptors, memory, ports. They say nothing of who was to be asked.
package shortage

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// Is returns whether err comes from a lack of descriptors, memory, buffers or
// local addresses and ports of this machine.
func Is(err error) bool {
	for _, lack := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}

// Dial connects as d does. Unlike those of a net.Dialer, its errors show a shortage
// that kept the name from being resolved: net.DNSError has only its text. d must
// have no Resolver.
func Dial(ctx context.Context, d net.Dialer, network, addr string) (net.Conn, error) {
	var short atomic.Pointer[error] // several servers are asked at once
	d.Resolver = &net.Resolver{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if Is(err) {
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
