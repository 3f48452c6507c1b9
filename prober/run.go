package prober

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// run is one run of a module.
type run struct {
	prober  *Prober
	served  target
	first   *result.Result // of the first request; nil once that is made
	results []*result.Result
}

// all makes the requests of the run. An error means that there was none, by a
// Skip or a failure, or that there is a fault of ours.
func (r *run) all(ctx context.Context) error {
	p := r.prober
	var err error
	if r.served, err = p.endpoint.identify(ctx, p.module); err != nil {
		return p.endpoint.explain(ctx, err)
	}
	if r.served, err = r.served.askedFor(p.module); err != nil {
		return err
	}
	var why *result.Skip
	switch {
	case len(p.module.Concurrency) > 0:
		why = r.bursts(ctx)
	case p.module.Prefix == config.PrefixPaired:
		why = r.pair(ctx)
	default:
		why = r.single(ctx)
	}
	switch {
	case why == nil:
		return nil
	case why.Reason == result.SkipTruncated:
		why.Spent = r.results
	case len(r.results) > 0:
		return nil // smaller bursts had room
	default:
		p.endpoint.outgrown()
	}
	return why
}

// next draws a question, or returns why not to ask it.
func (r *run) next() (question, *result.Skip) {
	texts := 1
	if r.served.protocol.Kind == api.Embedding || r.served.protocol.Kind == api.Rerank {
		texts = max(1, r.prober.module.BatchSize)
	}
	q := r.prober.asker.next(texts, r.served.context)
	if !r.served.hasRoom(&q) {
		return q, skip(result.SkipContext, "the model has room for %d tokens, prompt and answer together, fewer than the module asks for", r.served.context)
	}
	return q, q.skip
}

// request prepares a request on the prober's own transport.
func (r *run) request(q question) *request {
	p := r.prober
	req := &request{
		prober: p, served: &r.served, question: q, result: r.newResult(),
		transport: p.transport, kept: p.kept,
	}
	req.end = time.Now().Add(time.Duration(p.module.Timeout))
	req.result.Length, req.result.PromptBytes = q.length, q.textBytes()
	req.result.Answer.Prompt = q.id
	return req
}

// newResult returns the result of the next request.
func (r *run) newResult() *result.Result {
	res := r.first
	r.first = nil
	if res == nil {
		res = r.prober.newResult(time.Time{})
	}
	r.served.describe(res, r.prober.endpoint.names)
	return res
}

// ask sends one request and keeps the connection for the next, where the
// module says so. It returns why its answer is none to what was to be asked.
func (r *run) ask(ctx context.Context, req *request) *result.Skip {
	req.send(ctx)
	r.results = append(r.results, req.result)
	if p := r.prober; p.module.Connection == config.ConnectionReuse {
		p.kept = req.used
	}
	return req.learn()
}

// single asks one question.
func (r *run) single(ctx context.Context) *result.Skip {
	q, why := r.next()
	if why != nil {
		return why
	}
	return r.ask(ctx, r.request(q))
}

// pair asks a cold prompt and, where that went well, the very same again. A
// balancer that is told to keeps the two together.
func (r *run) pair(ctx context.Context) *result.Skip {
	q, why := r.next()
	if why != nil {
		return why
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	cold := r.request(q)
	cold.sticky = hex.EncodeToString(id[:])
	if why := r.ask(ctx, cold); why != nil || cold.result.Outcome != result.Success {
		return why
	}
	q.learn = nil // some servers do not count what they have cached
	warm := r.request(q)
	warm.sticky = cold.sticky
	warm.result.Prefix = string(config.PrefixWarm)
	return r.ask(ctx, warm)
}

// fail adds a result for a run that failed without one: before its first
// request, or by a fault of ours.
func (r *run) fail(err error) {
	res := r.newResult()
	finish(res, err, r.prober.endpoint.secrets)
	r.prober.endpoint.learn(res, "")
	r.results = append(r.results, res)
}

// finish sets the outcome of r and its error.
func finish(r *result.Result, err error, secrets *safetext.Secrets) {
	r.Outcome, r.Err = outcomeOf(err), presentable(err, secrets)
}
