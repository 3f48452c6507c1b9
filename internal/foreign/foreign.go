// Package foreign reads from others: every HTTP client of the program is made here, and so is every reader of a reply
// as a whole. What they return is bounded in time and bytes, whatever the other side sends. Files that a configuration
// names are read here too: a pipe, an endless device or a file server that hangs blocks nothing for long. Its errors
// distinguish a shortage of this machine from a failure of the other side.
package foreign

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// Limits bound an exchange: a request and its reply.
type Limits struct {
	// Time is how long it may take, up to the end of the reply's body. 0 is no limit.
	Time time.Duration
	// Bytes is the longest body of a reply; what is received beside it has a limit too. 0 is no limit.
	Bytes int64
}

// NewTransport returns a transport that opens a connection for each exchange and ends both when a limit is exceeded:
// also where a reply switches to another protocol, or whoever reads it heeds no context. It speaks HTTP/1.1, asks for
// no compression, uses the proxy of the environment and, under an http.Client, follows no redirect.
func NewTransport(l Limits) *http.Transport {
	http1 := new(http.Protocols) // no HTTP/2, which keeps its connections
	http1.SetHTTP1(true)
	return &http.Transport{
		DialContext:            l.Dial,
		Proxy:                  direct,
		Protocols:              http1,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: MaxHead,
	}
}

// NewClient returns a client with such a transport. It returns a redirect as the reply
// that it is, and what switches to another protocol as a reply without a body.
func NewClient(l Limits) *http.Client { return NewClientOver(NewTransport(l), l) }

// NewClientOver returns such a client over a transport of NewTransport with settings of its own.
func NewClientOver(t *http.Transport, l Limits) *http.Client {
	return &http.Client{Transport: noUpgrade{before{t}}, Timeout: l.Time, CheckRedirect: noRedirect}
}

// noRedirect is for CheckRedirect: a redirect would carry what the request has to another host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// direct returns the proxy of the environment, and an error for a request that follows a redirect.
func direct(req *http.Request) (*url.URL, error) {
	if req.Response != nil {
		return nil, errors.New("the reply is a redirect, and redirects are not followed")
	}
	return http.ProxyFromEnvironment(req)
}

// Dial opens a connection for one exchange, which ends where it exceeds the limits.
func (l Limits) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var end time.Time
	if l.Time > 0 {
		end = time.Now().Add(l.Time)
	}
	c, err := Dial(ctx, net.Dialer{Deadline: end}, network, address)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(end); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("limit the connection: %w", err)
	}
	b := &conn{Conn: c, limit: l.Bytes}
	b.left.Store(2*l.Bytes + overhead)
	b.head, _ = ctx.Value(headKey{}).(*HeadLimit)
	return b, nil
}

// overhead is for what is no body: the head and, with TLS, the certificates. What TLS and
// chunks add to each part of a body may be as long as the body.
const overhead = MaxHead + 256<<10

type conn struct {
	net.Conn
	head  *HeadLimit // nil where it is not counted
	limit int64      // of a body; 0 is none
	left  atomic.Int64
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.head != nil {
		if tooLong := c.head.Read(n); tooLong != nil {
			return 0, tooLong
		}
	}
	if c.limit > 0 && c.left.Add(-int64(n)) < 0 {
		return 0, tooLarge(c.limit)
	}
	return n, err
}

// ErrTooLarge is a reply of more bytes than are read.
var ErrTooLarge = errors.New("reply too large")

func tooLarge(limit int64) error { return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit) }

// ReadAll returns what r has, and an error, ErrTooLarge, where that is more than limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, tooLarge(limit)
	}
	return text, err
}

// Start returns the beginning of r: at most limit bytes.
func Start(r io.Reader, limit int64) ([]byte, error) { return io.ReadAll(io.LimitReader(r, limit)) }

// Gunzip returns what decompresses at most limit bytes of r: what it returns is for its caller to limit.
func Gunzip(r io.Reader, limit int64) (io.Reader, error) { return gzip.NewReader(Bounded(r, limit)) }

// Bounded returns r with an error, ErrTooLarge, after limit bytes.
func Bounded(r io.Reader, limit int64) io.Reader { return &limited{r, limit, limit} }

type limited struct {
	r           io.Reader
	left, limit int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left < 0 {
		return 0, tooLarge(l.limit)
	}
	n, err := l.r.Read(b[:min(int64(len(b)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n - 1, tooLarge(l.limit)
	}
	return n, err
}
