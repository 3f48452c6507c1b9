package simulator

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Kind says what a written event carries.
type Kind string

// The kinds of events. That with the last token is Answer even where it holds the finish reason; Finish holds only that.
const (
	Role      Kind = "role"
	Reasoning Kind = "reasoning"
	Answer    Kind = "answer"
	Call      Kind = "call" // a piece of a call of a function
	Finish    Kind = "finish"
	Usage     Kind = "usage"
	Done      Kind = "done"
	Comment   Kind = "comment"
	Failure   Kind = "failure" // an error inside the stream
	Odd       Kind = "odd"     // what a fault made and no protocol knows
	open      Kind = "open"    // the bounds of a stream, as is end; never written
	end       Kind = "end"
)

// Event is one event as it was written.
type Event struct {
	Kind   Kind      `json:"kind"`
	Tokens int       `json:"tokens"`      // how many output tokens it carries
	At     time.Time `json:"at,omitzero"` // just before the write that completed it; zero if it was never written
}

// Record is the truth about one request.
type Record struct {
	TraceID string    `json:"trace_id"`
	Path    string    `json:"path"`            // the protocol's
	Fault   string    `json:"fault,omitempty"` // the one shown, if any
	Arrival time.Time `json:"arrival"`         // when the request's header had been read
	// Queue is the time until the request entered a batch, Prefill from then to its first token; 0 until that.
	Queue        time.Duration `json:"queue"`
	Prefill      time.Duration `json:"prefill"`
	PromptTokens int           `json:"prompt_tokens"`
	CachedTokens int           `json:"cached_tokens"` // of the prompt, those that were in the prefix cache
	OutputTokens int           `json:"output_tokens"` // what the engine generated so far; the events may hold less
	Replica      int           `json:"replica"`       // the index of the engine that took the request; -1 is none
	// Verdict is what the answer to one of answers.Questions came to, or a call of a function or an answer in JSON; "" of
	// every other answer, and of one to a question that was cut by the limit or had to go on.
	Verdict  result.Verdict `json:"verdict,omitempty"`
	Logprob  float64        `json:"logprob,omitempty"` // the mean of the scored tokens of the prompt, as the reply has them; 0 is none
	Events   []Event        `json:"events"`            // what a streaming reply wrote, in order. Only the first 65536 are kept.
	Complete bool           `json:"complete"`          // reports that the server is done with the request
}

// Bounds on what is remembered.
const (
	maxRecords = 4096
	maxEvents  = 65536
)

// record is a Record in the making.
type record struct {
	mu      sync.Mutex
	r       Record
	stamped int // events before this one have their instant
}

// add notes an event that the next write completes.
func (r *record) add(e *event) {
	r.update(func(now *Record) {
		if len(now.Events) < maxEvents {
			now.Events = append(now.Events, Event{Kind: e.kind, Tokens: e.tokens})
		}
	})
}

// stamp gives the events that were added since the last write their instant.
func (r *record) stamp(t time.Time) {
	r.update(func(now *Record) {
		for ; r.stamped < len(now.Events); r.stamped++ {
			now.Events[r.stamped].At = t
		}
	})
}

// progress notes what the engine did.
func (r *record) progress(p progress) {
	r.update(func(now *Record) {
		now.CachedTokens, now.OutputTokens = p.cached, p.tokens
		if p.tokens > 0 {
			now.Queue, now.Prefill = p.scheduled.Sub(p.arrival), p.first.Sub(p.scheduled)
		}
	})
}

func (r *record) update(change func(*Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.r)
}

func (r *record) snapshot() (c Record) {
	r.update(func(now *Record) {
		c = *now
		c.Events = slices.Clone(now.Events)
	})
	return c
}

// latest keeps the latest maxRecords values by trace id. It is safe for concurrent use.
type latest[T any] struct {
	mu    sync.Mutex
	byID  map[string]*T
	order []string // the keys of byID, the oldest first
}

// put keeps a value; one without an id cannot be found later.
func (l *latest[T]) put(id string, v *T) {
	if id == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = make(map[string]*T)
	}
	if l.byID[id] == nil {
		l.order = append(l.order, id)
	}
	l.byID[id] = v
	if len(l.order) > maxRecords {
		delete(l.byID, l.order[0])
		l.order = l.order[1:]
	}
}

// find returns the value of an id; nil is none.
func (l *latest[T]) find(id string) *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// stampedListener accepts connections that report when they write, and are reset at their end after ctx.
type stampedListener struct {
	net.Listener
	ctx context.Context
}

// Accept waits for the next connection.
func (l stampedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err // net/http looks at the type
	}
	return &stampedConn{Conn: c, ctx: l.ctx}, nil
}

// stampedConn calls before with the time just before each write. The goroutine that serves it alone writes and sets before.
type stampedConn struct {
	net.Conn
	ctx    context.Context
	before func(time.Time)
}

type connKey struct{}

// Write writes b.
func (c *stampedConn) Write(b []byte) (int, error) {
	if c.before != nil {
		c.before(time.Now())
	}
	return c.Conn.Write(b)
}

// Close closes the connection, with a RST once ctx has ended.
func (c *stampedConn) Close() error {
	if c.ctx.Err() != nil {
		c.reset()
	}
	return c.Conn.Close()
}

// reset closes the connection with a RST where it is TCP.
func (c *stampedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a closed connection is as good
	}
	_ = c.Conn.Close() // nothing is left to lose
}

// State is what a replica holds and has done.
type State struct {
	Running int `json:"running"` // sequences in the batch
	Waiting int `json:"waiting"` // sequences in the queue
	// Blocks is the size of the KV cache. A block that is kept only for reuse is not in use; its content may be found,
	// until it is given up for another.
	Blocks          int `json:"blocks"`
	BlocksInUse     int `json:"blocks_in_use"`
	EvictableBlocks int `json:"evictable_blocks"`
	EvictedBlocks   int `json:"evicted_blocks"`
	PrefixQueries   int `json:"prefix_queries"` // prompt tokens looked up in the prefix cache, once per request
	PrefixHits      int `json:"prefix_hits"`    // of them those found
	PromptTokens    int `json:"prompt_tokens"`  // of prompts whose prefill is done, cached part included
	CachedTokens    int `json:"cached_tokens"`  // that part
	// PrefillComputed and PrefillCached count prompt tokens as a batch takes them up, after a preemption again.
	PrefillComputed int            `json:"prefill_computed"`
	PrefillCached   int            `json:"prefill_cached"`
	GeneratedTokens int            `json:"generated_tokens"` // sampled
	Preemptions     int            `json:"preemptions"`      // sequences thrown back into the queue
	Rejected        int            `json:"rejected"`         // requests that found the queue full
	FirstTokens     int            `json:"first_tokens"`     // requests that got a first token
	Finished        map[string]int `json:"finished"`         // requests by how they ended: stop, length, abort
}

// Usage is the part of the KV cache in use, 0 to 1.
func (s State) Usage() float64 { return float64(s.BlocksInUse) / float64(s.Blocks) }

func (r *replica) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.count
	s.Running, s.Waiting = len(r.running), len(r.waiting)
	s.Blocks, s.BlocksInUse, s.EvictedBlocks = r.o.Blocks, r.pool.inUse(), r.pool.evicted
	s.EvictableBlocks = r.pool.evictable()
	s.Finished = maps.Clone(s.Finished)
	return s
}

// countEnd counts a request at its end; q.last is the instant of its last token.
func (r *replica) countEnd(q *sequence, reason finish) {
	r.count.Finished[string(reason)]++
	if reason == finishAbort {
		r.observe(q, "aborted", 1)
		return
	}
	p := q.now
	for of, d := range map[string]time.Duration{
		"end_to_end": q.last.Sub(p.arrival), "queue": p.scheduled.Sub(p.arrival), "inference": q.last.Sub(p.scheduled),
		"prefill": p.first.Sub(p.scheduled), "decode": q.last.Sub(p.first),
	} {
		r.observe(q, of, d.Seconds())
	}
	if p.tokens > 1 {
		r.observe(q, "per_token", q.last.Sub(p.first).Seconds()/float64(p.tokens-1))
	}
	if p.cached > 0 {
		r.observe(q, "cached_tokens", float64(p.cached))
	}
	r.observe(q, "prompt_tokens", float64(q.prompt))
	r.observe(q, "generated_tokens", float64(p.tokens))
	r.observe(q, "completed", 1)
}
