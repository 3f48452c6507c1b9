package simulator

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Kind says what a written event carries.
type Kind string

// The kinds of events. The chunk with the last token is Answer even where it
// holds the finish reason; Finish holds nothing else.
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
	// open and end are the bounds of a stream; they are never written.
	open Kind = "open"
	end  Kind = "end"
)

// Event is one event as it was written.
type Event struct {
	Kind Kind `json:"kind"`
	// Tokens is how many output tokens it carries.
	Tokens int `json:"tokens"`
	// At is the instant just before the write that completed it; the zero time
	// if it was never written.
	At time.Time `json:"at,omitzero"`
}

// Record is the truth about one request.
type Record struct {
	TraceID string `json:"trace_id"`
	// Path is the protocol's path and Fault the fault shown, if any.
	Path  string `json:"path"`
	Fault string `json:"fault,omitempty"`
	// Arrival is when the request's header had been read; Headers is just
	// before the first write of the reply.
	Arrival time.Time `json:"arrival"`
	Headers time.Time `json:"headers,omitzero"`
	// Queue is the time until the request entered a batch, Prefill from then
	// to its first token. Both are 0 until the first token.
	Queue   time.Duration `json:"queue"`
	Prefill time.Duration `json:"prefill"`
	// PromptTokens and CachedTokens are the length of the prompt and the part
	// of it that was in the prefix cache.
	PromptTokens int `json:"prompt_tokens"`
	CachedTokens int `json:"cached_tokens"`
	// OutputTokens is what the engine generated so far; the events may hold
	// less.
	OutputTokens int `json:"output_tokens"`
	// Replica is the index of the engine that took the request; -1 is none.
	Replica int `json:"replica"`
	// Verdict is what the answer to one of check.Questions came to, or a call of a
	// function or an answer in JSON; "" of every other answer, and of one to a question
	// that was cut by the limit or had to go on.
	Verdict result.Verdict `json:"verdict,omitempty"`
	// Flipped reports that a greedy answer was not what it is most times.
	Flipped bool `json:"flipped,omitempty"`
	// Logprob is the mean log-probability of the scored tokens of the prompt, as
	// the reply has them; 0 is none.
	Logprob float64 `json:"logprob,omitempty"`
	// Preemptions is how often the request lost its blocks.
	Preemptions int `json:"preemptions"`
	// Events are what a streaming reply wrote, in order. Only the first 65536
	// are kept.
	Events []Event `json:"events"`
	// Complete reports that the server is done with the request.
	Complete bool `json:"complete"`
}

// UncachedTokens is the part of the prompt that had to be computed.
func (r *Record) UncachedTokens() int { return r.PromptTokens - r.CachedTokens }

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
func (r *record) add(kind Kind, tokens int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.r.Events) < maxEvents {
		r.r.Events = append(r.r.Events, Event{Kind: kind, Tokens: tokens})
	}
}

// stamp gives the events that were added since the last write their instant.
func (r *record) stamp(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.r.Headers.IsZero() {
		r.r.Headers = t
	}
	for ; r.stamped < len(r.r.Events); r.stamped++ {
		r.r.Events[r.stamped].At = t
	}
}

// progress notes what the engine did.
func (r *record) progress(p progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.CachedTokens, r.r.OutputTokens, r.r.Preemptions = p.cached, p.tokens, p.preemptions
	if p.tokens > 0 {
		r.r.Queue, r.r.Prefill = p.scheduled.Sub(p.arrival), p.first.Sub(p.scheduled)
	}
}

func (r *record) update(change func(*Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.r)
}

func (r *record) snapshot() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.r
	c.Events = slices.Clone(r.r.Events)
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

// stampedListener accepts connections that report when they write.
type stampedListener struct{ net.Listener }

// Accept waits for the next connection.
func (l stampedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err // net/http looks at the type
	}
	return &stampedConn{Conn: c}, nil
}

// stampedConn calls before with the time just before each write. Only the
// goroutine that serves the connection writes, and sets before.
type stampedConn struct {
	net.Conn
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

// reset closes the connection with a RST where it is TCP.
func (c *stampedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a closed connection is as good
	}
	_ = c.Close() // nothing is left to lose
}
