// Package prober sends an inference endpoint the requests that its users send, and
// reports the outcome and how long each part took.
package prober

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Prober probes one endpoint with one module. It makes one run at a time.
type Prober struct {
	endpoint  *Endpoint
	module    *config.Module
	kind      *workload.Kind // of the module
	questions workload.Source
	rounds    []workload.Round
	transport http.RoundTripper // that keeps its connection; nil without connection: reuse
	kept      *conn             // that connection
}

// NewProber returns the Prober of an endpoint and a module, whose lengths are no ladder. It must be closed. An
// error means that the module or the HTTP settings cannot be used.
func (e *Endpoint) NewProber(m *config.Module) (*Prober, error) {
	kind := KindOf(m)
	questions, err := kind.New(e.cfg, m)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", e.cfg.Name, err)
	}
	p := &Prober{endpoint: e, module: m, kind: kind, questions: questions, rounds: roundsOf(m)}
	if m.Connection == config.ConnectionReuse {
		if p.transport, err = e.newTransport(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Source returns what makes the questions of the module.
func (p *Prober) Source() workload.Source { return p.questions }

// Close drops a kept connection.
func (p *Prober) Close() {
	foreign.CloseIdle(p.transport)
	if p.kept != nil {
		_ = p.kept.Close()
	}
}

// Run asks all that one run of the module asks, and returns what came of each request, in the order of the
// rounds, up to the first with a failure; with nothing measured and no failure a Skip says why. A request ends
// by the limits of the module or with ctx: Canceled where that was canceled, TimeoutTotal where its time was
// up. due is when the run was scheduled, for the first request; the zero time is not scheduled.
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
		return nil, p.shown(why)
	}
	return r.results, nil
}

// shown returns a Skip whose text can be shown to anyone.
func (p *Prober) shown(why *result.Skip) *result.Skip {
	return &result.Skip{Reason: why.Reason, Spent: why.Spent, Text: p.endpoint.secrets.Line(why.Text, maxReason)}
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
		Prefix: string(p.module.Prefix.First()),
		// Until the question says otherwise.
		Concurrency: p.rounds[0].Size,
		Tokens:      result.Tokens{Prompt: api.Unknown, Cached: api.Unknown, Output: api.Unknown, Reasoning: api.Unknown},
		Server:      api.ServerTimes{Queue: result.Absent, Prefill: result.Absent, Decode: result.Absent},
		RateLimit:   api.RateLimit{Requests: api.Unknown, Tokens: api.Unknown},
		RetryAfter:  result.Absent,
	}
	if !due.IsZero() {
		r.StartLag = r.Start.Sub(due)
	}
	line := newTimeline()
	line.measure(r)
	_, _ = rand.Read(r.TraceID[:]) // never fails
	return r
}

type run struct {
	prober  *Prober
	served  target
	first   *result.Result // of the first request; nil once that is made
	results []*result.Result
}

// all makes the requests of the run. An error means that there was none, by a
// Skip or a failure, or that there is a fault of ours.
func (r *run) all(ctx context.Context) error {
	if err := r.identify(ctx); err != nil {
		return err
	}
	p := r.prober
	var why *result.Skip
	for _, round := range p.rounds {
		var more bool
		if why, more = r.round(ctx, round); !more {
			break
		}
	}
	switch {
	case why == nil:
		return nil
	case why.Reason == result.SkipTruncated, p.module.Interference > 0 && len(r.results) > 0:
		why.Spent = r.results
	case len(r.results) > 0:
		return nil // earlier rounds had room
	default:
		p.endpoint.outgrown()
	}
	return why
}

// identify finds out what to ask. It is apart from all, whose frame is on the stack for as long as a reply takes.
func (r *run) identify(ctx context.Context) error {
	p := r.prober
	var err error
	if r.served, err = p.endpoint.identify(ctx, p.module); err != nil {
		return p.endpoint.explain(ctx, err)
	}
	r.served, err = r.served.forModule(p.module, p.kind)
	return err
}

// next draws a question, or returns why not to ask it.
func (r *run) next() (workload.Question, *result.Skip) {
	texts := 1
	if r.served.protocol.Kind == api.Embedding || r.served.protocol.Kind == api.Rerank {
		texts = max(1, r.prober.module.BatchSize)
	}
	return r.ask(r.prober.questions.Next(texts, r.served.context))
}

// nextOf draws a question of given lengths in tokens where the source makes such, or returns why not to ask it.
func (r *run) nextOf(input, output int) (workload.Question, *result.Skip) {
	source, ok := r.prober.questions.(sized)
	if !ok {
		return r.next()
	}
	return r.ask(source.NextOf(input, output, r.served.context))
}

// ask returns a question, or why not to ask it.
func (r *run) ask(q workload.Question) (workload.Question, *result.Skip) {
	if !r.served.hasRoom(&q) {
		return q, skip(result.SkipContext, "the model has room for %d tokens, prompt and answer together, fewer than the module asks for", r.served.context)
	}
	return q, q.Skip
}

// request prepares a request over a new connection.
func (r *run) request(q workload.Question) *request {
	p := r.prober
	req := &request{prober: p, served: &r.served, question: q, result: r.newResult()}
	req.end = time.Now().Add(time.Duration(p.module.Timeout))
	res := req.result
	res.Length, res.PromptBytes, res.Answer.Prompt, res.Turn = q.Length, textBytes(&q), q.ID, q.Turn
	res.Prefix = cmp.Or(string(q.Prefix), res.Prefix)
	return req
}

func (r *run) newResult() *result.Result {
	res := r.first
	r.first = nil
	if res == nil {
		res = r.prober.newResult(time.Time{})
	}
	r.served.describe(res, r.prober.endpoint.names)
	return res
}

// round asks the questions of a round, or returns why not. There is more to ask if all were answered.
func (r *run) round(ctx context.Context, how workload.Round) (why *result.Skip, more bool) {
	questions := make([]workload.Question, max(1, how.Size))
	for i := range questions {
		next := r.next
		if i == 0 && how.Beside > 0 {
			next = func() (workload.Question, *result.Skip) { return r.nextOf(how.Beside, 1) }
		}
		if questions[i], why = next(); why != nil {
			return why, false
		}
	}
	if how.Size == 0 {
		return r.inTurn(ctx, &questions[0]), false
	}
	requests := make([]*request, how.Size)
	for i, q := range questions {
		requests[i] = r.request(q)
		requests[i].result.Concurrency = how.Size
	}
	r.start(ctx, requests, how.Offsets())
	more = true
	for i, req := range requests {
		if how.Beside > 0 && i == 0 {
			requests[1].result.Beside = []*result.Result{req.result}
		} else {
			r.results = append(r.results, req.result)
		}
		if s := req.learn(); s != nil {
			why = s
		}
		more = more && (req.result.Outcome == result.Success || req.result.Outcome == result.CheckFailed)
	}
	return why, more && why == nil
}

// start sends the requests together, or each at its offset from then where there are offsets, and waits for their ends.
func (r *run) start(ctx context.Context, requests []*request, offsets []time.Duration) {
	g := &gate{missing: len(requests), patience: time.Duration(r.prober.module.Timeouts.Connect)}
	defer g.release()
	// The transport does not let go of a request before its write returns.
	defer context.AfterFunc(ctx, g.release)()
	var all sync.WaitGroup
	for i, req := range requests {
		req.slot = &slot{gate: g}
		if offsets != nil {
			req.slot.offset, req.slot.ended = offsets[i], ctx.Done()
		}
		all.Go(func() { req.send(ctx) })
	}
	all.Wait()
}

// inTurn asks a question and those that follow from it, on the connection that the prober keeps, where the
// module says so. It returns why a success is not one of the question that was meant.
func (r *run) inTurn(ctx context.Context, q *workload.Question) *result.Skip {
	p := r.prober
	for q != nil {
		req := r.request(*q)
		req.transport, req.kept = p.transport, p.kept
		req.send(ctx)
		if p.transport != nil {
			p.kept = req.used
		}
		r.results = append(r.results, req.result)
		if q.Instead {
			dropped := len(r.results) - 1
			if req.result.Outcome == result.Success {
				dropped--
			}
			r.results = slices.Delete(r.results, dropped, dropped+1)
		}
		if why := req.learn(); why != nil || q.Next == nil {
			return why
		}
		q = q.Next(workload.Asked{Result: req.result, Text: req.answer.shownText()})
	}
	return nil
}

// fail adds a result for a run that failed without one: before its first request, or by a fault of ours.
func (r *run) fail(err error) {
	res := r.newResult()
	if refused, ok := errors.AsType[*statusError](err); ok {
		res.Status = refused.status
	}
	finish(res, err, r.prober.endpoint.secrets)
	r.prober.endpoint.learn(res, "")
	r.results = append(r.results, res)
}

func finish(r *result.Result, err error, secrets *safetext.Secrets) {
	r.Outcome, r.Err = OutcomeOf(err), presentable(err, secrets)
}

func skip(reason result.SkipReason, format string, args ...any) *result.Skip {
	return &result.Skip{Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// lacking returns a Skip where a request could not be made for a lack on this
// machine, which says nothing of the server; else nil.
func lacking(results []*result.Result) *result.Skip {
	for _, r := range results {
		var why *result.Skip
		switch {
		case foreign.IsShortage(r.Err):
			why = skip(result.SkipResources, "this machine or process is out of descriptors, memory or ports: %v", r.Err)
		case isOwn(r.Err):
			why = skip(result.SkipSecret, "a required file or credential is missing or unusable: %v", r.Err)
		default:
			continue
		}
		why.Spent = results
		return why
	}
	return nil
}
