package prober

import (
	"context"
	"sync"
	"time"
)

// bursts starts as many requests together as each level says. They have new
// connections, whatever the module says of reuse. A level with a failure is the
// last one: more load would say nothing new, and hurt.
func (r *run) bursts(ctx context.Context) {
	for _, n := range r.prober.module.Concurrency {
		requests, ok := r.burst(n)
		if !ok {
			return
		}
		r.start(ctx, requests)
		healthy := true
		for _, req := range requests {
			r.results = append(r.results, req.result)
			req.learn()
			healthy = healthy && req.result.Outcome.answered()
		}
		if !healthy {
			return
		}
	}
}

// burst prepares n requests; false means that the model has no room for one.
func (r *run) burst(n int) ([]*request, bool) {
	questions := make([]question, n)
	for i := range questions {
		if questions[i] = r.next(); !r.served.hasRoom(&questions[i]) {
			return nil, false
		}
	}
	requests := make([]*request, n)
	for i, q := range questions {
		requests[i] = r.request(q)
		requests[i].result.Concurrency = n
		requests[i].transport, requests[i].kept = nil, nil
	}
	return requests, true
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

// answered tells whether the server did its part, whatever the answer.
func (o Outcome) answered() bool { return o == Success || o == CheckFailed }
