package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/prober/cloudauth"
)

// Dialer opens the connections of probes: each stamps what it receives, by the kernel where it can. One serves
// all endpoints, whose replies share one capacity; it must be closed.
type Dialer struct {
	net      net.Dialer
	keeper   io.Closer
	capacity *capacity
	clouds   cloudauth.Pool // of credentials, shared by all endpoints
	shared   shared
}

// NewDialer returns a Dialer. It holds one idle socket open, because Linux leaves the first packets after a
// first socket asked for receive timestamps without one.
func NewDialer() *Dialer {
	return &Dialer{
		// HTTP keep-alive is ours to decide; TCP probes would only disturb.
		net:      net.Dialer{KeepAlive: -1, Control: enableStamps},
		keeper:   keepStampsOn(),
		capacity: newCapacity(),
	}
}

// Close releases the idle socket. Connections in use stay open.
func (d *Dialer) Close() error {
	if d.keeper == nil {
		return nil
	}
	return d.keeper.Close()
}

// DialContext connects to addr like net.Dialer, with stamps.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := foreign.Dial(ctx, d.net, network, addr)
	if err != nil {
		return nil, err
	}
	sc := &conn{Conn: c, receive: newReceiver(c)}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.connect(sc)
	}
	return sc, nil
}

// arrival is when something was received, by both clocks.
type arrival struct {
	kernel  int64     // nanoseconds of wall time; 0 is no stamp
	process time.Time // after the read returned
}

// receiver reads once from a socket. It returns the kernel's receive stamp, in nanoseconds of wall time, of the last
// segment that it consumed, and a moment at which nothing that it returns had been received: the zero time is unknown.
type receiver interface {
	receive(b []byte) (n int, stamp int64, empty time.Time, err error)
	// progress returns what the socket has received so far; ok is false where that is not known.
	progress() (p progress, ok bool)
	// glance returns what the kernel shows of the connection now, held where received data takes memory, and the bytes
	// received in order. keepAlive has the kernel send a keepalive each second, or none. Neither waits.
	glance() (g glance, received uint64, ok bool)
	keepAlive(on bool)
}

// progress is what a socket has received since it was connected, whether it was read or not.
type progress struct {
	segments uint32 // with data
	bytes    uint64 // in order; the end of the stream may count as one
	full     int    // payload of a full segment in bytes
	resent   uint32 // segments of ours
}

// origin is what is known of how the data of one or more reads arrived, beside
// the stamp, which is that of the last segment.
type origin struct {
	empty    time.Time // nothing had been received yet; the zero time is unknown
	segments int       // that the data came in, at most
	bytes    int
	full     int // payload of a full segment
}

// together reports whether all of it came at once: in one segment, or in several
// of which all but the last were full, as the network cuts one long write.
func (o *origin) together() bool {
	return o.segments <= 1 || o.bytes >= (o.segments-1)*o.full*7/8
}

// conn is a connection that remembers when it last read and wrote. Reads and writes may come from different goroutines.
type conn struct {
	net.Conn
	receive receiver          // nil where the kernel gives no stamps
	head    foreign.HeadLimit // of a reply by HTTP/1.1

	mu sync.Mutex
	history
	tracing  bool // until the first token: keep the origin of what is read
	origin   origin
	read     uint64 // bytes, since it was connected
	segments uint32 // before those of origin
	resent   uint32 // segments of ours before the request
	drained  uint32 // segments at the latest read, if it left nothing; else as segments
	used     bool
	http2    bool
	hold     func(send func()) // sends when it is time; nil is at once
}

// history is what a connection read and wrote.
type history struct {
	last                  arrival // of what was read
	reads                 int
	firstWrite, lastWrite time.Time // since the request began
	cut                   bool      // the peer ended or reset the connection
	early                 bool      // the peer sent before the first write
}

// past returns the history so far; that without a connection is empty.
func (c *conn) past() history {
	if c == nil {
		return history{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history
}

// address returns the IP address of the peer; the zero value where it has none.
func (c *conn) address() netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// Read stamps the arrival of what it returns.
func (c *conn) Read(b []byte) (n int, err error) {
	var (
		stamp int64
		empty time.Time
	)
	if c.receive != nil {
		n, stamp, empty, err = c.receive.receive(b)
	} else {
		n, err = c.Conn.Read(b)
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.read += uint64(n)
		c.last = arrival{kernel: stamp, process: now}
		c.reads++
		c.early = c.early || c.firstWrite.IsZero()
		c.trace(n, empty)
	}
	if tooLong := c.head.Read(n); tooLong != nil {
		return 0, tooLong
	}
	// A deadline or our own close is no act of the peer.
	if err != nil && !errors.Is(err, net.ErrClosed) && !isTimeout(err) {
		c.cut = true
	}
	return n, err
}

// trace adds a read to the origin of what was read since it was taken. The kernel is asked after the read, and what
// came in between counts as well. It will be read later, so its segments count again then: where the read left
// something, the next origin begins with the segments of this one.
func (c *conn) trace(n int, empty time.Time) {
	if !c.tracing {
		return
	}
	p, ok := c.receive.progress()
	if !ok || p.bytes < c.read { // a sandbox that knows the call and not the counts
		c.tracing, c.origin = false, origin{}
		return
	}
	if c.origin.bytes == 0 {
		c.origin.empty = empty
	}
	c.origin.bytes += n
	c.origin.segments = int(p.segments - c.segments)
	c.origin.full = p.full
	c.drained = c.segments
	if p.bytes == c.read {
		c.drained = p.segments
	}
}

// takeOrigin returns the origin of what was read since the last call, or since
// the request began; not ok after the first token, and where it is not known.
func (c *conn) takeOrigin() (o origin, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, c.origin = c.origin, origin{}
	c.segments = c.drained
	return o, c.tracing && !o.empty.IsZero()
}

// glance returns what the kernel shows of the connection now; not ok where it shows nothing, as without a connection.
func (c *conn) glance() (g glance, ok bool) {
	if c == nil || c.receive == nil {
		return glance{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g, received, ok := c.receive.glance()
	g.reads = c.reads
	g.queued = received > c.read+1 // the end of the stream may count as one
	g.held = g.held && !g.queued
	return g, ok
}

func (c *conn) keepAlive(on bool) {
	if c != nil && c.receive != nil {
		c.receive.keepAlive(on)
	}
}

// stopTracing spares later reads the cost of their origin.
func (c *conn) stopTracing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracing = false
}

// errGivenUp is what a write comes to whose request ended before its turn.
var errGivenUp = errors.New("send request: given up")

// Write sends, when it is time where the connection is held back.
func (c *conn) Write(b []byte) (n int, err error) {
	c.mu.Lock()
	hold := c.hold
	c.hold = nil
	c.mu.Unlock()
	if hold == nil {
		return c.send(b)
	}
	err = errGivenUp
	hold(func() { n, err = c.send(b) })
	return n, err
}

// holdBack hands the next write to hold, which calls it when it is time.
func (c *conn) holdBack(hold func(send func())) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = hold
}

// send stamps the instants around the write. What the peer no longer takes counts as sent: it may have answered
// before it closed the connection, which only the reads that follow find out.
func (c *conn) send(b []byte) (int, error) {
	before := time.Now()
	c.mu.Lock()
	if c.firstWrite.IsZero() { // now, as the reply may be here before Write returns
		c.firstWrite = before
	}
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	after := time.Now()
	c.mu.Lock()
	c.lastWrite = after
	c.mu.Unlock()
	switch {
	case isCut(err):
		return len(b), nil
	case err != nil:
		return n, fmt.Errorf("send request: %w", err)
	}
	return n, nil
}

// begin forgets the writes so far (a TLS handshake, an earlier probe). It keeps that the connection speaks HTTP/2,
// which only the first probe learns, and returns it with whether an earlier probe used the connection.
func (c *conn) begin(http2 bool) (reused, isHTTP2 bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reused, c.used = c.used, true
	if c.http2 = c.http2 || http2; !c.http2 { // whose frames of several kinds are read ahead
		c.head.Begin()
	}
	c.firstWrite, c.lastWrite = time.Time{}, time.Time{}
	c.origin, c.tracing = origin{}, false
	if c.receive != nil {
		var p progress
		p, c.tracing = c.receive.progress()
		c.segments, c.drained, c.resent = p.segments, p.segments, p.resent // none of them is of the reply
	}
	return reused, c.http2
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
