package config

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// tokenTimeout limits a connection to an OAuth2 token server.
const tokenTimeout = 30 * time.Second

// RoundTripper returns a RoundTripper with these settings, over connections that
// dial opens. Every request ends with its context, the reading of its reply
// included: a server cannot switch to another protocol, and neither a token server
// that hangs nor net/http's HTTP/2 blocks the caller. Errors are those of the settings.
func (h *HTTPClient) RoundTripper(name string, dial promconfig.DialContextFunc, opts ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	if h.OAuth2 != nil {
		dial = limitTokenConnections(dial)
	}
	anonymous := h.HTTPClientConfig
	anonymous.Authorization, anonymous.BasicAuth, anonymous.HTTPHeaders = nil, nil, nil
	rt, err := promconfig.NewRoundTripperFromConfig(anonymous, name, append(opts, promconfig.WithDialContextFunc(dial))...)
	if err != nil {
		return nil, err
	}
	if t, ok := rt.(*http.Transport); ok {
		t.DialContext = dial // without the log of events that Prometheus keeps of each connection
	}
	rt = h.authenticated(rt)
	if h.OAuth2 != nil || h.EnableHTTP2 {
		rt = &waiter{next: rt}
	}
	return noUpgrade{rt}, nil
}

// authenticated returns rt with the credentials and headers of the settings.
func (h *HTTPClient) authenticated(rt http.RoundTripper) http.RoundTripper {
	if a := h.Authorization; a != nil {
		rt = promconfig.NewAuthorizationCredentialsRoundTripper(a.Type, secretReader(a.Credentials, a.CredentialsFile), rt)
	}
	if b := h.BasicAuth; b != nil {
		rt = promconfig.NewBasicAuthRoundTripper(secretReader(promconfig.Secret(b.Username), b.UsernameFile), secretReader(b.Password, b.PasswordFile), rt)
	}
	if h.HTTPHeaders != nil {
		rt = promconfig.NewHeadersRoundTripper(h.HTTPHeaders, rt)
	}
	return rt
}

// secretReader returns what reads a secret; nil where there is none.
func secretReader(text promconfig.Secret, file string) promconfig.SecretReader {
	switch {
	case text != "":
		return promconfig.NewInlineSecret(string(text))
	case file != "":
		return promconfig.NewFileSecret(file)
	}
	return nil
}

// noUpgrade drops the connection of a reply that switches protocols: net/http
// hands it out as a body that heeds neither the context nor a limit.
type noUpgrade struct{ next http.RoundTripper }

// RoundTrip returns a reply with status 101 without a body.
func (t noUpgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}

// CloseIdleConnections closes the connections that no request uses.
func (t noUpgrade) CloseIdleConnections() { closeIdle(t.next) }

func closeIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// requestKey marks the context of a request to the endpoint, which that of a
// request for a token is not derived from.
type requestKey struct{}

// limitTokenConnections returns a dial function whose connections end after a
// while where they are for a token, since nothing else limits such a request.
func limitTokenConnections(dial promconfig.DialContextFunc) promconfig.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(requestKey{}) != nil {
			return dial(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
		defer cancel()
		c, err := dial(ctx, network, address)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(tokenTimeout))
		}
		return c, err
	}
}

const (
	// maxAbandoned is how many requests may hang after their contexts ended, before
	// others fail at once.
	maxAbandoned = 16
	// abandonAgain is how long after the latest of them another one may be sent: the
	// other side may be well again, while those that hang may never end.
	abandonAgain = time.Hour
	// maxWaitedRead bounds a read of a body, since it needs memory of its own.
	maxWaitedRead = 16 << 10
)

// waiter sends requests through what may ignore their contexts: the wait for an
// OAuth2 token, and HTTP/2, where one frame of a server (a WINDOW_UPDATE that
// overflows the window of a stream) makes net/http of Go 1.26 deadlock. A bounded
// number of hanging requests is abandoned.
type waiter struct {
	next      http.RoundTripper
	abandoned atomic.Int32 // what hangs although its context ended
	latest    atomic.Int64 // when the latest was abandoned, in Unix nanoseconds
}

var errAbandoned = errors.New("earlier requests still hang after their limits, for the token server or in HTTP/2")

// RoundTrip returns when the context of the request ends, and so does the reading
// of the reply's body.
func (w *waiter) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.abandoned.Load() >= maxAbandoned && time.Since(time.Unix(0, w.latest.Load())) < abandonAgain {
		return nil, errAbandoned
	}
	type reply struct {
		resp *http.Response
		err  error
	}
	ctx := req.Context()
	r, err := await(ctx, w, func() reply {
		resp, err := w.next.RoundTrip(req.WithContext(context.WithValue(ctx, requestKey{}, true)))
		return reply{resp, err}
	}, func(r reply) {
		if r.err == nil {
			_ = r.resp.Body.Close()
		}
	})
	if err != nil {
		return nil, err
	}
	if r.err == nil {
		r.resp.Body = &waitedBody{body: r.resp.Body, ctx: ctx, waiter: w}
	}
	return r.resp, r.err
}

// CloseIdleConnections closes the connections that no request uses.
func (w *waiter) CloseIdleConnections() { closeIdle(w.next) }

// await calls f, and returns with an error when ctx ends before it is done: what f
// returns late goes to late.
func await[T any](ctx context.Context, w *waiter, f func() T, late func(T)) (v T, err error) {
	done := make(chan T)
	go func() {
		got := f()
		select {
		case done <- got:
		case <-ctx.Done():
			late(got)
			w.abandoned.Add(-1)
		}
	}()
	select {
	case got := <-done:
		return got, nil
	case <-ctx.Done():
		w.latest.Store(time.Now().UnixNano())
		w.abandoned.Add(1)
		return v, context.Cause(ctx)
	}
}

// waitedBody is the body of a reply whose reads end with the context of the request.
type waitedBody struct {
	body   io.ReadCloser
	ctx    context.Context //nolint:containedctx // lives as long as the reply
	waiter *waiter
	buf    []byte // read into by what may be left behind
	hangs  bool
}

// Read reads nothing ahead, so that when it returns is when the bytes came.
func (b *waitedBody) Read(p []byte) (int, error) {
	if b.hangs {
		return 0, context.Cause(b.ctx)
	}
	if b.buf == nil {
		b.buf = make([]byte, maxWaitedRead)
	}
	p = p[:min(len(p), len(b.buf))]
	type result struct {
		n   int
		err error
	}
	r, err := await(b.ctx, b.waiter, func() result {
		n, err := b.body.Read(b.buf[:len(p)])
		return result{n, err}
	}, func(result) {})
	if err != nil {
		b.hangs = true
		return 0, err
	}
	return copy(p, b.buf[:r.n]), r.err
}

// Close closes the body. One that hangs is left to itself.
func (b *waitedBody) Close() error {
	if b.hangs {
		go b.body.Close()
		return nil
	}
	closed, err := await(b.ctx, b.waiter, b.body.Close, func(error) {})
	if err != nil {
		return err
	}
	return closed
}
