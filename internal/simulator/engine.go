package simulator

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// finish says how a sequence ended, in the words of vLLM's finished_reason; empty while it runs.
type finish string

const (
	finishStop   finish = "stop"
	finishLength finish = "length"
	finishCall   finish = "tool_calls" // finishStop as the protocols report it after a call
	finishAbort  finish = "abort"
)

// sequence is one request inside a replica.
type sequence struct {
	// What is asked; constant.
	prompt int     // prompt tokens
	output int     // tokens to generate, at least 1
	reason finish  // how it ends after them
	quiet  bool    // wake the reader at the end only
	scored bool    // the log-probabilities of the prompt are wanted
	stream bool    // the reply is token by token
	pace   float64 // how much longer than usual the prompt and the first token take; 1 is as usual

	// The replica's, guarded by its mu.
	tokens   []token   // prompt and what was generated
	hashes   []uint64  // of the full blocks of tokens
	blocks   []*block  // owned, in order
	computed int       // tokens whose KV entries are in blocks
	last     time.Time // of the latest token
	now      progress

	replica *replica      // that it was submitted to
	ready   chan struct{} // holds a value when progress moved since it was last taken
}

// progress is what a reader learns of a sequence.
type progress struct {
	tokens    int // generated
	finish    finish
	cached    int // prompt tokens found in the prefix cache
	arrival   time.Time
	scheduled time.Time // first time in a batch; zero before
	first     time.Time // first token; zero before
}

func newSequence(prompt []token, output int, reason finish) *sequence {
	return &sequence{
		prompt: len(prompt), output: output, reason: reason, pace: 1, tokens: prompt, ready: make(chan struct{}, 1),
		now: progress{arrival: time.Now()},
	}
}

func (q *sequence) progress() progress {
	q.replica.mu.Lock()
	defer q.replica.mu.Unlock()
	return q.now
}

// wake puts a value into a channel that has room for one.
func wake(ready chan struct{}) {
	select {
	case ready <- struct{}{}:
	default:
	}
}

// generated is how many tokens there are beyond the prompt.
func (q *sequence) generated() int { return len(q.tokens) - q.prompt }

// replica is one engine: a queue, a batch, a KV cache, and a loop of steps that runs while there is work.
type replica struct {
	o       *Options
	index   int
	phase   time.Duration // delay of the first step after idleness
	gate    *gate
	metrics *livePage // nil is none

	mu      sync.Mutex
	waiting []*sequence // first come, first served; preempted ones in front
	running []*sequence // in the order of admission
	pool    *blockPool
	count   State // what it has done; the rest of it is set by state
	looping bool
	step    step // the one in progress, its memory reused
	// emptied holds a value when the last sequence left by an abort, so that the loop ends at once.
	emptied chan struct{}
}

func newReplica(o *Options, index int, m *livePage, g *gate) *replica {
	return &replica{
		o: o, index: index, gate: g, metrics: m, pool: newBlockPool(o.Blocks, o.BlockSize), emptied: make(chan struct{}, 1),
		phase: time.Duration(index) * o.DecodeStep / time.Duration(o.Replicas),
		count: State{Finished: map[string]int{string(finishStop): 0, string(finishLength): 0, string(finishAbort): 0}},
	}
}

func (r *replica) load() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running) + len(r.waiting)
}

// submit queues a sequence; false means that the queue is full.
func (r *replica) submit(q *sequence) bool {
	q.replica, q.hashes = r, extendHashes(q.hashes, q.tokens, r.o.BlockSize)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.QueueLimit > 0 && len(r.running)+len(r.waiting) >= r.o.Slots+r.o.QueueLimit {
		if !q.quiet { // the background asks again until there is room
			r.count.Rejected++
		}
		return false
	}
	r.waiting = append(r.waiting, q)
	if !r.looping {
		r.looping = true
		go r.loop()
	}
	return true
}

// abort ends a sequence before its time; one that has ended stays as it is.
func (r *replica) abort(q *sequence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.now.finish != "" {
		return
	}
	r.end(q, finishAbort)
	if len(r.running)+len(r.waiting) == 0 {
		wake(r.emptied)
	}
}

func (r *replica) end(q *sequence, reason finish) {
	is := func(other *sequence) bool { return other == q }
	r.running = slices.DeleteFunc(r.running, is)
	r.waiting = slices.DeleteFunc(r.waiting, is)
	r.pool.release(q.blocks)
	q.blocks = nil
	q.now.finish = reason
	r.countEnd(q, reason)
	wake(q.ready)
}

// maxLag is how far a loop catches up with its clock: longer pauses are the machine's, not the model's.
const maxLag = time.Second

// loop runs step after step, each ending at an instant computed from the start of the one before, so that late timers
// do not add up. It ends when no sequence is left.
func (r *replica) loop() {
	next := time.Now().Add(r.phase)
	for {
		next = r.pause(next)
		r.mu.Lock()
		now := time.Now()
		r.commit(now)
		if len(r.running)+len(r.waiting) == 0 {
			r.looping = false
			r.mu.Unlock()
			return
		}
		next = next.Add(r.plan(now))
		r.mu.Unlock()
	}
}

// pause waits until next, or until nothing is left to wait for, and then while the gate is closed. It returns the instant
// from which the next step counts.
func (r *replica) pause(next time.Time) time.Time {
	if time.Since(next) > maxLag {
		next = time.Now()
	}
	due := time.After(time.Until(next))
	for over := false; !over; {
		select {
		case <-due:
			over = true
		case <-r.emptied:
			over = r.load() == 0
		}
	}
	for opened := r.gate.Load(); opened != nil && r.load() > 0; opened = r.gate.Load() {
		select {
		case <-*opened:
		case <-r.emptied:
		}
		next = time.Now()
	}
	return next
}

// The ways by which a request finds its replica.
const (
	LeastLoaded = "least-loaded" // the one with the fewest requests, of equal ones the first
	RoundRobin  = "round-robin"
	Sticky      = "sticky" // by the value of a header; a request without it takes its turn
	Random      = "random"
	PrefixAware = "prefix-aware" // the one whose cache holds most of the prompt, of equal ones the least loaded
)

// Routings lists the values of Options.Routing, the default first.
func Routings() []string { return []string{LeastLoaded, RoundRobin, Sticky, Random, PrefixAware} }

func (s *Server) route(session string, prompt []token) *replica {
	n := uint64(len(s.replicas))
	switch {
	case s.o.Routing == Random:
		return s.replicas[s.rng.Uint64N(n)]
	case s.o.Routing == Sticky && session != "":
		return s.replicas[hashText(session)%n]
	case s.o.Routing == RoundRobin || s.o.Routing == Sticky:
		return s.replicas[(s.routed.Add(1)-1)%n]
	}
	held := make([]int, n) // blocks of the prompt
	if s.o.Routing == PrefixAware {
		hashes := extendHashes(nil, prompt, s.o.BlockSize)
		for i, r := range s.replicas {
			held[i] = r.holds(hashes)
		}
	}
	return slices.MinFunc(s.replicas, func(a, b *replica) int {
		return cmp.Or(cmp.Compare(held[b.index], held[a.index]), cmp.Compare(a.load(), b.load()))
	})
}

// holds returns how many blocks of a prompt, which hashes describe, are cached.
func (r *replica) holds(hashes []uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pool.match(hashes))
}

// gate is where an engine stops while it hangs: it holds what is closed when it opens, nil while it is open.
type gate struct{ atomic.Pointer[chan struct{}] }

func (g *gate) set(closed bool) {
	if closed {
		opened := make(chan struct{})
		g.CompareAndSwap(nil, &opened)
	} else if opened := g.Swap(nil); opened != nil {
		close(*opened)
	}
}

// pass returns once the gate is open, or with ctx's error.
func (g *gate) pass(ctx context.Context) error {
	for opened := g.Load(); opened != nil; opened = g.Load() {
		select {
		case <-*opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Hang makes the engine hang, or go on. While it hangs no step begins or ends: what runs keeps its slots and its
// blocks, what comes waits in the queue, and all else is answered, health and metrics too.
func (s *Server) Hang(on bool) { s.gate.set(on) }
