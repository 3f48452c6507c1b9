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
		req.slot = g.slot()
		all.Go(func() { req.send(ctx) })
	}
	all.Wait()
}

// didItsPart reports whether the server did its part, whatever the answer.
func didItsPart(o result.Outcome) bool { return o == result.Success || o == result.CheckFailed }

// gate holds the requests of a burst, each written up to its first byte on a
// ready connection, until all of them are. Then they are sent one right after
// the other by one goroutine: waking one for each would take longer than the
// requests may be apart. A request that fails before is not waited for, and
// none is for longer than the patience after the first.
type gate struct {
	patience time.Duration

	mu      sync.Mutex
	missing int      // requests that are neither ready nor failed
	ready   []func() // what sends those that are
	open    bool
	timer   *time.Timer // runs from the first that came
}

func newGate(requests int, patience time.Duration) *gate {
	return &gate{missing: requests, patience: patience}
}

// slot is the right of one request to pass the gate, once.
type slot struct {
	gate *gate
	once sync.Once
}

func (g *gate) slot() *slot { return &slot{gate: g} }

// pass means that the request is ready, and returns when it is sent.
func (s *slot) pass(send func()) {
	sent := make(chan struct{})
	s.gate.add(func() {
		defer close(sent)
		send()
	})
	s.leave()
	<-sent
}

// leave takes the request out of those that the others wait for.
func (s *slot) leave() { s.once.Do(s.gate.came) }

// add keeps a request until the gate opens, or sends it when it has.
func (g *gate) add(send func()) {
	g.mu.Lock()
	open := g.open
	if !open {
		g.ready = append(g.ready, send)
	}
	g.mu.Unlock()
	if open {
		send()
	}
}

// came counts a request, ready or failed. The last one opens the gate.
func (g *gate) came() {
	g.mu.Lock()
	g.missing--
	last := g.missing == 0
	if g.timer == nil {
		g.timer = time.AfterFunc(g.patience, g.release)
	}
	g.mu.Unlock()
	if last {
		g.release()
	}
}

// release opens the gate, for good, and sends what waits.
func (g *gate) release() {
	g.mu.Lock()
	waiting := g.ready
	g.ready, g.open = nil, true
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	for _, send := range waiting {
		send()
	}
}
