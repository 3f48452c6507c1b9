package foreign

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// maxAbandoned is how much may hang after its context ended, before other requests fail at once.
	maxAbandoned = 16
	// abandonAgain is how long after the latest of them another one may be sent: the
	// other side may be well again, while those that hang may never end.
	abandonAgain = time.Hour
	// maxWaitedRead bounds a read of a body, since it needs memory of its own.
	maxWaitedRead = 16 << 10
)

// Abandoned counts what hangs although nobody waits for it any more. The zero value is ready.
type Abandoned struct {
	hang   atomic.Int32
	latest atomic.Int64 // when the latest was abandoned, in Unix nanoseconds
}

var errAbandoned = errors.New("earlier requests still hang after their limits")

// Err returns an error where so much hangs that nothing more is to be begun for now.
func (a *Abandoned) Err() error {
	if a.hang.Load() >= maxAbandoned && time.Since(time.Unix(0, a.latest.Load())) < abandonAgain {
		return errAbandoned
	}
	return nil
}

// Await calls f, and returns with the cause of its end when ctx ends before f is done: what
// f returns late without an error goes to late, where that is not nil.
func Await[T any](ctx context.Context, a *Abandoned, f func() (T, error), late func(T)) (v T, err error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result)
	go func() {
		v, err := f()
		select {
		case done <- result{v, err}:
		case <-ctx.Done():
			if err == nil && late != nil {
				late(v)
			}
			a.hang.Add(-1)
		}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		a.latest.Store(time.Now().UnixNano())
		a.hang.Add(1)
		return v, context.Cause(ctx)
	}
}

// waiter sends requests through what may ignore their contexts: the wait for an OAuth2 token, and HTTP/2, where one
// frame of a server (a WINDOW_UPDATE that overflows the window of a stream) makes net/http of Go 1.26 deadlock.
type waiter struct {
	before
	abandoned Abandoned
}

// RoundTrip returns when the context of the request ends, and so does the reading of the body.
func (w *waiter) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := w.abandoned.Err(); err != nil {
		return nil, err
	}
	ctx := req.Context()
	resp, err := Await(ctx, &w.abandoned, func() (*http.Response, error) { return w.next.RoundTrip(req) },
		func(resp *http.Response) { _ = resp.Body.Close() })
	if err == nil {
		resp.Body = &waitedBody{body: resp.Body, ctx: ctx, abandoned: &w.abandoned}
	}
	return resp, err
}

// waitedBody is the body of a reply whose reads end with the context of the request.
type waitedBody struct {
	body      io.ReadCloser
	ctx       context.Context //nolint:containedctx // lives as long as the reply
	abandoned *Abandoned
	buf       []byte // read into by what may be left behind
	hangs     bool
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
	n, err := Await(b.ctx, b.abandoned, func() (int, error) { return b.body.Read(b.buf[:len(p)]) }, nil)
	b.hangs = err != nil && b.ctx.Err() != nil
	return copy(p, b.buf[:n]), err
}

// Close closes the body. One that hangs is left to itself.
func (b *waitedBody) Close() error {
	if b.hangs {
		go b.body.Close()
		return nil
	}
	_, err := Await(b.ctx, b.abandoned, func() (struct{}, error) { return struct{}{}, b.body.Close() }, nil)
	return err
}
