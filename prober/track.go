package prober

import (
	"context"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// topLogprobs is how many of the likeliest first tokens are asked for; the hosted
// services that give fewest allow five.
const topLogprobs = 5

// mayRefuse reports whether a failure may be that of a server that gives no
// log-probabilities: llama-cpp-python ends the reply before it has begun, others answer
// with an error.
func mayRefuse(o result.Outcome) bool {
	switch o {
	case result.HTTPError, result.StreamError, result.ProtocolError, result.Empty, result.Truncated:
		return true
	}
	return false
}

// track asks for one first token: with its log-probabilities, unless the server refuses
// requests for them. Until it has answered one, a failure is tried again without.
func (r *run) track(ctx context.Context, q workload.Question) *result.Skip {
	p := r.prober
	asked := r.request(q)
	if !p.noLogprobs {
		asked.topLogprobs = topLogprobs
	}
	why := r.send(ctx, asked)
	p.logprobs = p.logprobs || asked.topLogprobs > 0 && asked.result.Outcome == result.Success
	if p.logprobs || p.noLogprobs || !mayRefuse(asked.result.Outcome) {
		return why
	}
	without := r.request(q)
	why = r.send(ctx, without)
	if p.noLogprobs = without.result.Outcome == result.Success; p.noLogprobs {
		r.results = r.results[1:] // the refusal is no failure of the endpoint
	} else {
		r.results = r.results[:1]
	}
	return why
}
