package prober

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
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

// arrivals returns at which time from the first each of n requests is to start; nil
// is all at once.
func arrivals(a *config.Arrivals, n int, most time.Duration, rng *rand.Rand) []time.Duration {
	if a == nil {
		return nil
	}
	if a.Process == config.ArrivalRecorded {
		return recorded(a.Profile, n, most, rng)
	}
	return poisson(n, a.Rate, most, rng)
}

// recorded returns n arrivals that follow each other in the profile, from the first of
// them. Which is drawn from all such stretches that do not take longer than most; nil
// where there is none.
func recorded(profile config.Profile, n int, most time.Duration, rng *rand.Rand) []time.Duration {
	var firsts []int
	for i, span := range profile.Spans(n) {
		if span <= most {
			firsts = append(firsts, i)
		}
	}
	if len(firsts) == 0 {
		return nil
	}
	first := firsts[rng.IntN(len(firsts))]
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = profile[first+i] - profile[first]
	}
	return all
}

// poisson draws n arrivals of a Poisson process, the first of them at 0: the times
// between two are exponentially distributed with the mean 1/rate, in seconds. One
// that would be later than most is at most.
func poisson(n int, rate float64, most time.Duration, rng *rand.Rand) []time.Duration {
	all := make([]time.Duration, n)
	at := 0.0
	for i := 1; i < n; i++ {
		at = min(at+rng.ExpFloat64()/rate, most.Seconds())
		all[i] = time.Duration(at * float64(time.Second))
	}
	return all
}

// related is how the requests of a run follow each other whose prompts begin alike.
type related struct {
	requests int
	sticky   string                           // of all of them; "" is none
	affinity result.Affinity                  // of a conversation; "" for a pair
	next     func(*request) workload.Question // what to ask after a request that succeeded
}

// pair is a cold prompt and the same prompt again. A balancer that is configured to
// keeps the two together.
func pair() related {
	return related{requests: 2, sticky: newSession(), next: func(before *request) workload.Question {
		q := before.question
		q.Learn = nil // some servers do not count what they have cached
		return q
	}}
}

// conversation is a cold prompt, and then turns that each repeat all before them.
// Where a balancer can be told to keep turns together, it is in every second one.
func (p *Prober) conversation() related {
	c := related{requests: p.module.Turns, affinity: result.AffinityNone, next: nextTurn}
	if p.endpoint.cfg.Request.StickyHeader != "" {
		p.conversations++
		if p.conversations%2 == 1 {
			c.sticky, c.affinity = newSession(), result.AffinitySession
		}
	}
	return c
}

// newSession returns a value of the header by which a balancer keeps requests
// together.
func newSession() string {
	var id [16]byte
	_, _ = cryptorand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// related sends a cold prompt and, as long as they succeed, the requests that follow
// from it.
func (r *run) related(ctx context.Context, how related) *result.Skip {
	q, why := r.next()
	if why != nil {
		return why
	}
	for turn := 1; ; turn++ {
		req := r.request(q)
		req.sticky = how.sticky
		if turn > 1 {
			req.result.Prefix = string(config.PrefixWarm)
		}
		if how.affinity != "" {
			req.result.Turn = &result.Turn{Number: turn, Affinity: how.affinity}
		}
		why := r.send(ctx, req)
		if why != nil || req.result.Outcome != result.Success || turn == how.requests {
			return why
		}
		q = how.next(req)
	}
}

// goOn is what the user says in each turn after the first, which makes the model
// write on until it is cut.
const goOn = "Go on counting from there in words, without any remark and without an end."

// nextTurn returns the turn after one that was answered. An answer without text, such
// as one that was cut while the model still reasoned, is left out, as clients do.
func nextTurn(before *request) workload.Question {
	q := before.question
	var said []api.Message
	if len(q.Messages) == 0 {
		said = append(said, api.Message{Role: "user", Content: q.Texts[0]})
	}
	if text := string(before.answer.text); text != "" {
		said = append(said, api.Message{Role: "assistant", Content: text})
	}
	said = append(said, api.Message{Role: "user", Content: goOn})
	q.Messages = append(q.Messages[:len(q.Messages):len(q.Messages)], said...)
	q.Texts, q.Length, q.Learn = nil, 0, nil
	return q
}

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
