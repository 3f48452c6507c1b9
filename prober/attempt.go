package prober

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// attemptKey carries the attempt to the Dialer through the request's context: the transport wraps our connections.
type attemptKey struct{}

// attempt collects what the request of a probe goes through until its reply begins. The transport calls the
// hooks from its own goroutines, also after the request has failed.
type attempt struct {
	onIssue   func()       // called when the request is handed to the transport
	onConnect func(*conn)  // called when a connection begins, with nil, and when there is one
	onReady   func()       // called when the connection is ready, and not held back
	onHold    func()       // called when it is ready and held back until its turn
	slot      *slot        // nil where the request need not wait for others
	ended     func() error // why the request's context ended, nil while it runs
	sent      *safetext.SentHeaders

	mu sync.Mutex
	progressed
}

// progressed is how far an attempt came.
type progressed struct {
	start        time.Time // t1: the request is handed to the transport
	open         []*conn   // connections that the request may get
	conn         *conn     // the one it got
	got          net.Conn  // the same, as the transport has it
	reused       bool
	dnsDone      time.Time
	tlsStart     time.Time
	gotConn      time.Time // the connection was ready
	planned      time.Time // when it was to be sent, by its arrival, after any set-up; zero for others
	requestStart time.Time
	requestEnd   time.Time
	firstByte    arrival
	failed       result.Outcome // the step of the set-up that failed
	notAfter     time.Time      // expiry of the server's certificate
	http2        bool
	issued       bool
	connecting   bool
}

// far returns how far the attempt came. A handshake that was given up may still be under way.
func (a *attempt) far() progressed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.progressed
}

// newAttempt begins an attempt now. kept is the connection of an earlier probe, or nil.
func (e *Endpoint) newAttempt(kept *conn) *attempt {
	a := &attempt{
		sent:    safetext.NewSentHeaders(e.secrets, e.cfg.IsPublicHeader),
		onIssue: func() {}, onConnect: func(*conn) {}, onReady: func() {}, onHold: func() {}, ended: func() error { return nil },
		progressed: progressed{start: time.Now()},
	}
	if kept != nil {
		a.open = append(a.open, kept)
	}
	return a
}

func (a *attempt) context(ctx context.Context) context.Context {
	a.ended = ctx.Err
	ctx = context.WithValue(ctx, attemptKey{}, a)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:           func(string) { a.issue() },
		DNSDone:           func(i httptrace.DNSDoneInfo) { a.step(&a.dnsDone, i.Err, result.DNSError) },
		ConnectStart:      func(string, string) { a.connect(nil) },
		TLSHandshakeStart: func() { a.step(&a.tlsStart, nil, "") },
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			a.step(nil, err, result.TLSError)
			a.negotiated(s)
		},
		GotConn:              func(i httptrace.GotConnInfo) { a.ready(i.Conn) },
		WroteHeaderField:     a.sent.Add,
		GotFirstResponseByte: a.answered,
	})
}

// issue marks the start of the request itself: what comes before it, such as
// fetching an OAuth2 token from another server, is not the endpoint's time.
func (a *attempt) issue() {
	a.mu.Lock()
	if !a.issued {
		a.issued, a.start = true, time.Now()
	}
	a.mu.Unlock()
	a.onIssue()
}

func (a *attempt) step(at *time.Time, err error, o result.Outcome) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if at != nil {
		*at = now
	}
	if err != nil {
		a.failed = o
	}
}

// connect marks that a connection begins, without one, or that it is there. The first to begin, and to come, counts.
func (a *attempt) connect(c *conn) {
	a.mu.Lock()
	again := a.connecting && c == nil || len(a.open) > 0
	a.connecting = true
	if c != nil {
		a.open = append(a.open, c)
	}
	a.mu.Unlock()
	if !again {
		a.onConnect(c)
	}
}

// negotiated keeps the version of HTTP that was agreed on, and the earliest expiry of the chain that the server showed.
func (a *attempt) negotiated(s tls.ConnectionState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.http2 = s.NegotiatedProtocol == "h2"
	for _, c := range s.PeerCertificates {
		if a.notAfter.IsZero() || c.NotAfter.Before(a.notAfter) {
			a.notAfter = c.NotAfter
		}
	}
}

// ready marks the end of the set-up. The connection is found by its local address, as the transport hands out wrappers.
func (a *attempt) ready(got net.Conn) {
	now := time.Now()
	a.mu.Lock()
	a.gotConn, a.got = now, got
	if a.slot == nil && !a.planned.IsZero() {
		a.move(a.planned.Sub(a.start))
		a.planned = a.gotConn
	}
	for _, c := range a.open {
		if c.LocalAddr() == got.LocalAddr() {
			a.conn = c
		}
	}
	if a.conn != nil {
		a.reused, a.http2 = a.conn.begin(a.http2)
	}
	c := a.conn
	a.mu.Unlock()
	switch {
	case a.slot == nil:
		a.onReady()
	case c == nil:
		a.slot.leave()
		a.onReady()
	default:
		a.onHold()
		c.holdBack(a.wait)
	}
}

// wait sends the request when it is its turn, unless it was given up by then.
func (a *attempt) wait(send func()) {
	arrived := time.Now()
	a.slot.pass(func() {
		if a.ended() != nil {
			return
		}
		a.postpone(arrived)
		a.onReady()
		send()
	})
}

// postpone moves the set-up to later, as if it had ended with the wait that followed it from then on: the
// wait is in no duration. A request that had a plan counts as sent when that was.
func (a *attempt) postpone(arrived time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := time.Since(arrived)
	if a.planned = a.slot.planned; !a.planned.IsZero() {
		wait = a.planned.Sub(arrived)
	}
	a.move(wait)
}

// move moves the set-up, by a wait that is in no duration, or to when it was planned: then how late this process sent
// the request is in its durations, as users would wait. Every stamp that is still to come is where it was.
func (p *progressed) move(by time.Duration) {
	for _, at := range []*time.Time{&p.start, &p.dnsDone, &p.tlsStart, &p.gotConn} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
}

// roundTrip sends the request and returns the reply, once its head was read, or the failure.
func (a *attempt) roundTrip(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := rt.RoundTrip(req)
	if c := a.far().conn; c != nil {
		c.head.End()
	}
	if err != nil {
		return nil, roundTripFailure(req.Context(), a, err)
	}
	return resp, nil
}

// known returns the secrets of the configuration and those sent so far.
func (a *attempt) known() *safetext.Secrets { return a.sent.Secrets() }

// censor returns err as it can be shown, without the secrets.
func (a *attempt) censor(err error) error { return presentable(err, a.known()) }

// answered stamps the first byte of the reply by the read that brought it, and takes over when the request began and
// ended to leave: stamps around the system calls, without the wake-up of this goroutine and what is written later.
func (a *attempt) answered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		past := a.conn.past()
		a.requestStart, a.requestEnd, a.firstByte = past.firstWrite, past.lastWrite, past.last
		if !a.planned.IsZero() {
			a.requestStart = a.planned
		}
	}
}

func (p *progressed) fill(t *timeline) {
	t.dnsDone = since(p.start, p.dnsDone)
	t.tlsStart = since(p.start, p.tlsStart)
	t.requestStart = since(p.start, p.requestStart)
	if t.requestStart < 0 {
		t.requestStart = since(p.start, p.gotConn)
	}
	// With HTTP/2 the last write may be of any frame, not of the request.
	t.firstByte = p.firstByte.since(p.start)
	if !p.http2 {
		t.requestEnd = since(p.start, p.sentEnd())
	}
	if p.reused { // the set-up that was traced belongs to a lost race
		t.dnsDone, t.tlsStart = result.Absent, result.Absent
	}
}

// sentEnd returns when the last part of the request had left: before the reply
// came at the latest, even where the write that sent it returned later.
func (p *progressed) sentEnd() time.Time {
	end := p.requestEnd
	if end.IsZero() && p.conn != nil && !p.requestStart.IsZero() {
		if end = p.conn.past().lastWrite; end.IsZero() || end.After(p.firstByte.process) {
			end = p.firstByte.process
		}
	}
	return end
}

// sentAt returns when the request began to leave; the zero time when it did not.
func (p *progressed) sentAt() time.Time {
	if p.requestStart.IsZero() { // no reply began
		return p.conn.past().firstWrite
	}
	return p.requestStart
}

func since(start, t time.Time) time.Duration {
	if t.IsZero() {
		return result.Absent
	}
	return t.Sub(start)
}

// since counts an arrival from a start by both clocks. A kernel stamp after the
// read that it belongs to cannot be true and is dropped.
func (r arrival) since(start time.Time) instant {
	i := instant{kernel: result.Absent, process: since(start, r.process)}
	if r.kernel != 0 {
		k := time.Duration(r.kernel - start.UnixNano())
		if k >= 0 && k <= i.process {
			i.kernel = k
		}
	}
	return i
}

// now is a moment of our own, counted from t1, which a wait for others moves: the same by both clocks.
func (a *attempt) now() instant {
	d := time.Since(a.far().start)
	return instant{d, d}
}

// spokenFirst reports whether the server sent something before the request. Under TLS, what arrives before the first
// write is its part of the handshake, unless nothing was written after it.
func (p *progressed) spokenFirst() bool {
	past := p.conn.past()
	return past.early && (p.tlsStart.IsZero() || past.firstWrite.IsZero())
}

// cutBy reports whether err is the peer's end of the exchange. With HTTP/2 that
// is every error of the transport: a reset stream, a connection going away.
func (p *progressed) cutBy(err error) bool {
	return p.http2 || isCut(err) || p.conn.past().cut
}
