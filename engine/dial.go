package engine

import (
	"context"
	"net"

	"github.com/inference-exporter/inference_exporter/internal/headlimit"
	"github.com/inference-exporter/inference_exporter/internal/shortage"
)

// attemptKey carries the attempt to the dialer through the context of its
// request.
type attemptKey struct{}

// conn is a connection that ends where the head of a reply is too long.
type conn struct {
	net.Conn
	head *headlimit.Limit
}

// Read reads as net.Conn does.
func (c conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if tooLong := c.head.Read(n); tooLong != nil {
		return 0, tooLong
	}
	return n, err
}

// dial connects for the attempt in the context.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := shortage.Dial(ctx, net.Dialer{}, network, address)
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok && err == nil {
		return conn{c, &a.head}, nil
	}
	return c, err
}
