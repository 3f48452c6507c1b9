// Package prober asks an inference endpoint what its users ask, as they do, and
// tells how it went and how long each part took.
package prober

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Prober probes one endpoint with one module. It makes one run at a time.
type Prober struct {
	endpoint  *Endpoint
	module    *config.Module
	asker     asker
	transport http.RoundTripper // that keeps its connection; nil without connection: reuse
	kept      *conn             // that connection
}

// New returns the prober of an endpoint and a module, whose lengths are no
// ladder: those of its rungs are. It must be closed. An error means that the
// module or the HTTP settings cannot be used.
func (e *Endpoint) New(m *config.Module) (*Prober, error) {
	ask, err := newAsker(m)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", e.cfg.Name, err)
	}
	p := &Prober{endpoint: e, module: m, asker: ask}
	if m.Connection == config.ConnectionReuse {
		if p.transport, err = e.newTransport(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Close drops a kept connection.
func (p *Prober) Close() {
	if c, ok := p.transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
	if p.kept != nil {
		_ = p.kept.Close()
	}
}

// Run asks all that one run of the module asks, and returns what came of each
// request: one; two, one after the other, of a pair, or only the first where
// that failed; or the bursts, small ones first, up to the first that failed.
// Where it measures nothing though nothing failed, there is no result and the
// Skip says why; it is nil everywhere else.
//
// Each request ends at the latest when the limits of the module say so, or when
// ctx does: Canceled where it was canceled, TimeoutTotal where its time was up.
// due is when the run was scheduled, the zero time when
// nobody did; it counts for the first request.
func (p *Prober) Run(ctx context.Context, due time.Time) ([]*result.Result, *result.Skip) {
	ctx = within(ctx)
	r := &run{prober: p, first: p.newResult(due)}
	err := guard(func() error { return r.all(ctx) })
	why, skipped := errors.AsType[*result.Skip](err)
	if err != nil && !skipped {
		r.fail(err)
	}
	if lack := lacking(r.results); lack != nil {
		why = lack
	}
	if why != nil {
		return nil, presentableSkip(why, p.endpoint.secrets)
	}
	return r.results, nil
}

// guard makes an error of a panic.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// PanicError is a panic in a probe, which is one failed probe and no more.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in the probe: %.200v", e.Value) }

func (p *Prober) newResult(due time.Time) *result.Result {
	r := &result.Result{
		Scheduled: due, StartLag: result.Absent, Start: time.Now(),
		Prefix:     string(p.module.Prefix),
		Clock:      result.ClockProcess,
		Tokens:     result.Tokens{Prompt: api.Unknown, Cached: api.Unknown, Output: api.Unknown, Reasoning: api.Unknown},
		Server:     api.ServerTimes{Queue: result.Absent, Prefill: result.Absent, Decode: result.Absent},
		RateLimit:  api.RateLimit{Requests: api.Unknown, Tokens: api.Unknown},
		RetryAfter: result.Absent,
	}
	if p.module.Prefix == config.PrefixPaired { // until the second one says otherwise
		r.Prefix = string(config.PrefixCold)
	}
	if len(p.module.Concurrency) > 0 { // until a later level says otherwise
		r.Concurrency = p.module.Concurrency[0]
	}
	if !due.IsZero() {
		r.StartLag = r.Start.Sub(due)
	}
	line := newTimeline()
	r.Timing = line.result(r.Tokens).timing
	_, _ = rand.Read(r.TraceID[:]) // never fails
	return r
}

// newRand returns a generator for what one prober draws.
func newRand() *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64()))
}
