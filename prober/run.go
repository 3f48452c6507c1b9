package prober

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// run is one run of a module.
type run struct {
	prober  *Prober
	served  target
	first   *Result // of the first request; nil once that is made
	results []*Result
}

// all makes the requests of the run. An error means that there was none, by a
// Skip or a failure, or that there is a fault of ours.
func (r *run) all(ctx context.Context) error {
	p := r.prober
	var err error
	if r.served, err = p.endpoint.identify(ctx, time.Duration(p.module.Timeout), p.longest()); err != nil {
		return err
	}
	if r.served, err = r.served.askedFor(p.module); err != nil {
		return err
	}
	switch {
	case len(p.module.Concurrency) > 0:
		r.bursts(ctx)
	case p.module.Prefix == config.PrefixPaired:
		r.pair(ctx)
	default:
		if q := r.next(); r.served.hasRoom(&q) {
			r.ask(ctx, r.request(q))
		}
	}
	if len(r.results) > 0 {
		return nil
	}
	p.endpoint.outgrown()
	return skip(SkipContext, "the model has room for %d tokens, prompt and answer together, fewer than the module asks for", r.served.context)
}

// next draws a question.
func (r *run) next() question {
	texts := 1
	if r.served.protocol.Kind == api.Embedding || r.served.protocol.Kind == api.Rerank {
		texts = max(1, r.prober.module.BatchSize)
	}
	return r.prober.asker.next(texts, r.served.context)
}

// request prepares a request on the prober's own transport.
func (r *run) request(q question) *request {
	p := r.prober
	req := &request{
		prober: p, served: &r.served, question: q, result: r.newResult(),
		transport: p.transport, kept: p.kept,
	}
	req.end = req.result.Start.Add(time.Duration(p.module.Timeout))
	req.result.Length = q.length
	req.result.Answer.Prompt = q.id
	return req
}

// newResult returns the result of the next request. What was asked about the
// server before the first one is within that one's limit.
func (r *run) newResult() *Result {
	res := r.first
	r.first = nil
	if res == nil {
		res = r.prober.newResult(time.Time{})
	}
	r.served.describe(res, r.prober.endpoint.names)
	return res
}

// ask sends one request and keeps the connection for the next, where the
// module says so.
func (r *run) ask(ctx context.Context, req *request) *Result {
	req.send(ctx)
	r.results = append(r.results, req.result)
	req.learn()
	if p := r.prober; p.module.Connection == config.ConnectionReuse {
		p.kept = req.used
	}
	return req.result
}

// pair asks a cold prompt and, where that went well, the very same again. A
// balancer that is told to keeps the two together.
func (r *run) pair(ctx context.Context) {
	q := r.next()
	if !r.served.hasRoom(&q) {
		return
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	cold := r.request(q)
	cold.sticky = hex.EncodeToString(id[:])
	if r.ask(ctx, cold).Outcome != Success {
		return
	}
	warm := r.request(q)
	warm.sticky = cold.sticky
	warm.result.Prefix = string(config.PrefixWarm)
	r.ask(ctx, warm)
}

// fail adds a result for a run that failed without one: before its first
// request, or by a fault of ours.
func (r *run) fail(err error) {
	res := r.newResult()
	res.finish(err, r.prober.endpoint.secrets)
	r.prober.endpoint.learn(res)
	r.results = append(r.results, res)
}

// finish sets the outcome by what the probe came to.
func (r *Result) finish(err error, secrets *safetext.Secrets) {
	r.Outcome, r.Err = outcomeOf(err), presentable(err, secrets)
}

// longest is how many tokens a request of the prober may need at most.
func (p *Prober) longest() int {
	if !p.module.AsksToLength() {
		return 0
	}
	return p.module.InputTokens.Max() + p.module.OutputTokens.Max()
}
