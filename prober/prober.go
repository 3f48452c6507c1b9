// Package prober asks an inference endpoint for one streamed answer, as a
// user would, and tells how it went and how long each part took.
package prober

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// Prober probes one endpoint with one module. It runs one probe at a time.
type Prober struct {
	endpoint  *Endpoint
	module    *config.Module
	transport http.RoundTripper
	prompts   *prompt.Builder
	limits    stream.Limits
	kept      *conn // connection of the last probe, with connection: reuse
}

// New returns the prober of an endpoint and a module. It must be closed.
func (e *Endpoint) New(m *config.Module) (*Prober, error) {
	p := &Prober{
		endpoint:  e,
		module:    m,
		transport: e.transport,
		prompts:   prompt.NewBuilder(m.InputTokens.Max(), prompt.Prefix(m.Prefix), newRand()),
		limits:    replyLimits(m.OutputTokens.Max()),
	}
	if m.Connection == config.ConnectionReuse {
		var err error
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

// replyLimits bounds a reply by what the module asks for: a server that goes
// on for ever costs money. Four events a token leave room for servers that
// stream less than a token an event.
func replyLimits(outputTokens int) stream.Limits {
	l := stream.DefaultLimits()
	l.Events = 4*outputTokens + 256
	return l
}

// Probe asks once and returns what happened. It ends at the latest when the
// limits of the module say so, or when ctx does (Canceled). due is when the
// probe was scheduled; the zero time when nobody did.
func (p *Prober) Probe(ctx context.Context, due time.Time) (r *Result) {
	r = p.newResult(due)
	defer func() {
		if v := recover(); v != nil {
			r.Outcome, r.Err = ProtocolError, &PanicError{Value: v, Stack: debug.Stack()}
		}
		p.endpoint.learn(r)
	}()
	r.finish(p.probe(ctx, r))
	return r
}

// PanicError is a panic in a probe, which is one failed probe and no more.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in the probe: %.200v", e.Value) }

func (p *Prober) newResult(due time.Time) *Result {
	r := &Result{
		Scheduled: due, StartLag: Absent, Start: time.Now(),
		Prefix:     string(p.module.Prefix),
		Clock:      ClockProcess,
		Tokens:     Tokens{Prompt: api.Unknown, Cached: api.Unknown, Output: api.Unknown, Reasoning: api.Unknown},
		Server:     api.ServerTimes{Queue: Absent, Prefill: Absent, Decode: Absent},
		RateLimit:  api.RateLimit{Requests: api.Unknown, Tokens: api.Unknown},
		RetryAfter: Absent,
	}
	if !due.IsZero() {
		r.StartLag = r.Start.Sub(due)
	}
	line := newTimeline()
	_, r.Timing, _ = line.result(api.Unknown)
	_, _ = rand.Read(r.TraceID[:]) // never fails
	return r
}

// finish sets the outcome by what the probe came to.
func (r *Result) finish(err error) {
	r.Outcome, r.Err = outcomeOf(err), presentable(err, nil)
}

// probe fills r and returns the failure, nil for a success.
func (p *Prober) probe(ctx context.Context, r *Result) error {
	end := r.Start.Add(time.Duration(p.module.Timeout))
	served, err := p.endpoint.identify(ctx, time.Duration(p.module.Timeout))
	r.API, r.Kind = served.protocol.Name, served.protocol.Kind
	r.Engine, r.Model = served.engine, served.model
	if err != nil {
		return err
	}
	params, words := p.ask(&served)
	body, err := served.body(params)
	if err != nil {
		return err
	}
	err = p.exchange(ctx, r, &served, body, end)
	if r.Tokens.Prompt > 0 {
		p.prompts.Learn(words, r.Tokens.Prompt/max(1, len(params.Inputs)))
	}
	return err
}

// rerankQuery is what texts are ranked against.
const rerankQuery = "Which of these texts counts upwards?"

// ask makes the question, of texts with the given number of words each.
func (p *Prober) ask(served *target) (params api.Params, words int) {
	text := p.prompts.Next()
	params = api.Params{
		Model: served.model, Prompt: text.Text, OutputTokens: p.module.OutputTokens.Max(),
		ExactLength: served.exactLength(), ContinuousUsage: served.continuousUsage(),
	}
	if served.protocol.Kind == api.Generation {
		return params, text.Words
	}
	params.Prompt, params.Inputs = rerankQuery, []string{text.Text}
	params.Path = served.url(p.endpoint.cfg).Path
	for len(params.Inputs) < p.module.BatchSize {
		params.Inputs = append(params.Inputs, p.prompts.Next().Text)
	}
	return params, text.Words
}

// exchange sends the request and reads the reply, under the limits. end is
// when the probe must be over.
func (p *Prober) exchange(ctx context.Context, r *Result, served *target, body []byte, end time.Time) error {
	limits := p.module.Timeouts
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	noConnection := &limitError{TimeoutConnect, fmt.Sprintf("no connection within %s", limits.Connect)}
	wd := newWatchdog(cancel, end, &limitError{TimeoutTotal, fmt.Sprintf("not finished within %s", p.module.Timeout)},
		time.Now().Add(time.Duration(limits.Connect)), noConnection)
	defer wd.stop()

	a := newAttempt(p.kept, p.endpoint.secrets)
	a.onIssue = func() { wd.expect(time.Now().Add(time.Duration(limits.Connect)), noConnection) }
	a.onReady = func() {
		wd.expect(time.Now().Add(time.Duration(limits.Headers)),
			&limitError{TimeoutFirstToken, fmt.Sprintf("no response headers within %s", limits.Headers)})
	}
	req, err := p.request(a.context(ctx), r, served, body)
	if err != nil {
		return err
	}
	line := newTimeline()
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		line.end = a.now()
		err = roundTripFailure(ctx, a, err)
	} else {
		defer resp.Body.Close()
		rp := &reply{prober: p, served: served, ctx: ctx, attempt: a, watchdog: wd, line: &line, result: r, resp: resp}
		err = rp.read()
	}
	p.settle(a, &line, r)
	return a.censor(err)
}

// settle turns the stamps into the result's durations.
func (p *Prober) settle(a *attempt, line *timeline, r *Result) {
	a.fill(line)
	r.Start = a.start
	end := time.Now()
	line.stepped = isStep(end.Round(0).Sub(a.start.Round(0)), end.Sub(a.start))
	r.Clock, r.Timing, r.Buffered = line.result(r.Tokens.Output)
	r.Events = line.published(r.Clock)
	r.Imprecise = r.Imprecise || line.imprecise()
	var used *conn
	used, r.Reused, r.CertNotAfter = a.used()
	if p.module.Connection == config.ConnectionReuse {
		p.kept = used
	}
}

// request builds the one request of the probe.
func (p *Prober) request(ctx context.Context, r *Result, served *target, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, served.url(p.endpoint.cfg).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	// Without GetBody the transport cannot send the request a second time.
	req.GetBody = nil
	req.Header = served.protocol.Header.Clone()
	p.endpoint.ownHeader(req.Header)
	req.Header.Set("Traceparent", traceparent(r.TraceID))
	return req, nil
}

// traceparent renders the W3C trace context of a probe. The probe is its
// trace's root span, named by the first half of the trace id.
func traceparent(id [16]byte) string {
	s := hex.EncodeToString(id[:])
	return "00-" + s + "-" + s[:16] + "-01"
}

// newRand returns a generator for the nonces of one prober.
func newRand() *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64()))
}
