package prober

import (
	"context"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// bursts starts as many requests together as each level says. They have new
// connections, whatever the module says of reuse. A level with a failure is the
// last one: more load would say nothing new, and hurt.
func (r *run) bursts(ctx context.Context) *result.Skip {
	for _, n := range r.prober.module.Concurrency {
		requests, why := r.burst(n)
		if why != nil {
			return why
		}
		r.start(ctx, requests)
		healthy := true
		for _, req := range requests {
			r.results = append(r.results, req.result)
			if s := req.learn(); s != nil {
				why = s
			}
			healthy = healthy && didItsPart(req.result.Outcome)
		}
		if why != nil || !healthy {
			return why
		}
	}
	return nil
}

// burst prepares n requests, or returns why not to ask.
func (r *run) burst(n int) ([]*request, *result.Skip) {
	questions := make([]question, n)
	for i := range questions {
		var why *result.Skip
		if questions[i], why = r.next(); why != nil {
			return nil, why
		}
	}
	requests := make([]*request, n)
	for i, q := range questions {
		requests[i] = r.request(q)
		requests[i].result.Concurrency = n
		requests[i].transport, requests[i].kept = nil, nil
	}
	return requests, nil
}

// start sends the requests together and waits for their ends.
func (r *run) start(ctx context.Context, requests []*request) {
	g := newGate(len(requests), time.Duration(r.prober.module.Timeouts.Connect))
	defer g.release()
	// The transport does not let go of a request before its write returns.
	defer context.AfterFunc(ctx, g.release)()
	var all sync.WaitGroup
	for _, req := range requests {
		req.turn = g.turn()
		all.Go(func() { req.send(ctx) })
	}
	all.Wait()
}

// didItsPart returns whether the server did its part, whatever the answer.
func didItsPart(o result.Outcome) bool { return o == result.Success || o == result.CheckFailed }
