package prober

import (
	"context"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
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
		m := r.prober.module
		r.start(ctx, requests, arrivals(m.Arrivals, n, time.Duration(m.Timeout), workload.NewRand()))
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
	questions := make([]workload.Question, n)
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

// start sends the requests together, or each at its offset from then where there
// are offsets, and waits for their ends.
func (r *run) start(ctx context.Context, requests []*request, offsets []time.Duration) {
	g := newGate(len(requests), time.Duration(r.prober.module.Timeouts.Connect))
	defer g.release()
	// The transport does not let go of a request before its write returns.
	defer context.AfterFunc(ctx, g.release)()
	var all sync.WaitGroup
	for i, req := range requests {
		req.slot = g.slot()
		if offsets != nil {
			req.slot.arrival = &arrivalSlot{offset: offsets[i], ended: ctx.Done()}
		}
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
	opened  time.Time
}

func newGate(requests int, patience time.Duration) *gate {
	return &gate{missing: requests, patience: patience}
}

// slot is the right of one request to pass the gate, once.
type slot struct {
	gate    *gate
	once    sync.Once
	arrival *arrivalSlot // nil where it is sent when the gate opens
}

// arrivalSlot is a request that is sent some time after the gate opens.
type arrivalSlot struct {
	offset  time.Duration
	ended   <-chan struct{} // nothing is waited for any more
	planned time.Time       // when it was to be sent, once the gate is open
}

// wait waits until it is time, in the goroutine of the request, so that it delays
// no other. A request whose connection came later than planned is planned for then.
func (a *arrivalSlot) wait(opened, came time.Time) {
	a.planned = opened.Add(a.offset)
	if a.planned.Before(came) {
		a.planned = came
	}
	t := time.NewTimer(time.Until(a.planned))
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.ended:
	}
}

func (g *gate) slot() *slot { return &slot{gate: g} }

// pass means that the request is ready, and returns when it is sent.
func (s *slot) pass(send func()) {
	sent, came := make(chan struct{}), time.Now()
	s.gate.add(func() {
		defer close(sent)
		if s.arrival == nil {
			send()
		}
	})
	s.leave()
	<-sent
	if s.arrival != nil {
		s.arrival.wait(s.gate.opened, came)
		send()
	}
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
	if !g.open {
		g.opened = time.Now()
	}
	g.ready, g.open = nil, true
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	for _, send := range waiting {
		send()
	}
}
