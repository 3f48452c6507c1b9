package simulator

import (
	"net"
	"time"
)

// stampedListener hands out connections that tell when they write.
type stampedListener struct{ net.Listener }

// Accept waits for the next connection.
func (l stampedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err // net/http looks at the type
	}
	return &stampedConn{Conn: c}, nil
}

// stampedConn calls before with the time just before each write. Only the
// goroutine that serves the connection writes, and sets before.
type stampedConn struct {
	net.Conn
	before func(time.Time)
}

type connKey struct{}

// Write writes b.
func (c *stampedConn) Write(b []byte) (int, error) {
	if c.before != nil {
		c.before(time.Now())
	}
	return c.Conn.Write(b)
}

// reset closes the connection with a RST where it is TCP.
func (c *stampedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a closed connection is as good
	}
	_ = c.Close() // nothing is left to lose
}
