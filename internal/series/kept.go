package series

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// How many probes are kept with all that is known: for each log at most maxKept, and at
// least minKept. In between it is their size that bounds them: each log has bytes of its
// own, and all of a Pool share more, which last for maxKept probes in each of a hundred
// logs of ordinary answers. Where there is less, all but the latest minKept probes go without
// their events, down to eventless probes.
const (
	maxKept, minKept, eventless = 30, 2, 12

	ownBytes    = 12 << 8
	pooledBytes = 3 << 20
)

// Pool is what logs share for the probes that are kept with all that is known. It is safe for
// concurrent use.
type Pool struct{ logs atomic.Int64 }

// Add changes how many logs share the pool.
func (p *Pool) Add(logs int) { p.logs.Add(int64(logs)) }

// Logs returns how many logs share the pool.
func (p *Pool) Logs() int { return int(p.logs.Load()) }

// allowance returns the bytes of kept probes for each log.
func (p *Pool) allowance() int {
	logs := 1
	if p != nil {
		logs = max(1, p.Logs())
	}
	return ownBytes + pooledBytes/logs
}

// Kept is a result in little room. It is never changed.
type Kept struct {
	*keptProbe
	events []keptEvent // beside the rest, which stays where it is when they are dropped
}

// keptProbe is a Kept without its events.
type keptProbe struct {
	start, sent int64 // Unix time in ns; 0 is not known
	trace       [16]byte
	outcome     result.Outcome
	timing      result.Timing
	server      api.ServerTimes
	tokens      [4]int32 // prompt, cached, output and reasoning
	decoded     [4]int32 // first, last, tokens and those of the first
	length      int32
	concurrency int32
	status      int32
	merged      int32 // events, those that were dropped included
	bytes       int32 // in memory, roughly, without events
	startLag    micros
	timed       bool // its latencies count
	disturbed   bool // by a burst of the exporter's own
	flags       keptFlags
	alike       *keptAlike   // shared with the probe before, where it can be
	failure     *keptFailure // nil of a success
	rare        *keptRare    // nil where there is nothing of it
}

// keptFlags are those of a result.
type keptFlags struct{ reused, buffered, imprecise, noEndMarker, noFinish, moreEvents, capIgnored bool }

// keptAlike is what one probe of a series mostly has as the one before it has.
type keptAlike struct {
	api, engine, model, prefix, finish string
	kind                               api.Kind
	clock                              result.Clock
	source                             result.TokenSource
	answer                             result.Answer
	certNotAfter                       time.Time
}

// keptFailure is the bounded text of an error, and the advice by the error itself.
type keptFailure struct {
	err    error
	advice string
	reason result.Reason
}

// keptRare is what few probes have.
type keptRare struct {
	turn       *result.Turn
	call       result.Call
	logprob    result.Logprob
	vectors    api.Vectors
	rateLimit  api.RateLimit
	retryAfter time.Duration
	integrity  []result.Sign
}

// isEmpty reports whether nothing of it is known.
func (k *keptRare) isEmpty() bool {
	return k.turn == nil && k.call == (result.Call{}) && k.logprob == (result.Logprob{}) && k.vectors == (api.Vectors{}) &&
		k.rateLimit.Requests < 0 && k.rateLimit.Tokens < 0 && k.retryAfter < 0 && len(k.integrity) == 0
}

// Sizes in memory.
const (
	keptBytes      = 320 // of a Kept with its keptProbe, without what both point to
	keptRareBytes  = 160
	keptAlikeBytes = 304
	eventBytes     = 8
)

// keptEvent is a result.Event without what no page shows.
type keptEvent struct {
	at                uint32 // microseconds
	tokens            uint16
	merged, reasoning bool
}

// keep returns what is kept of a result, and of that what it may share with the probe
// before. Its events are dropped when they take more than half of the allowance.
func keep(o *Observation, allowance int) (Kept, keptAlike) {
	r := o.Result
	t, d := &r.Tokens, &r.Decoded
	k := Kept{keptProbe: &keptProbe{
		start: nanoseconds(r.Start), sent: nanoseconds(r.Sent), trace: r.TraceID, outcome: r.Outcome,
		timing: r.Timing, server: r.Server, startLag: microsOf(r.StartLag), timed: o.Timed(), disturbed: o.Disturbed,
		tokens:  [4]int32{int32(t.Prompt), int32(t.Cached), int32(t.Output), int32(t.Reasoning)},
		decoded: [4]int32{int32(d.First), int32(d.Last), int32(d.Tokens), int32(d.FirstTokens)},
		length:  int32(r.Length), concurrency: int32(r.Concurrency), status: int32(r.Status), merged: int32(r.MergedEvents()),
		flags: keptFlags{r.Reused, r.Buffered, r.Imprecise, r.NoEndMarker, r.NoFinish, r.MoreEvents, r.MaxTokensIgnored},
	}}
	a := &r.Answer
	bytes := keptBytes + len(r.Model) + len(a.Prompt) + len(a.Hash) + len(a.Model) + len(a.Fingerprint) + len(a.Text)
	if r.Outcome != result.Success {
		k.failure = &keptFailure{advice: r.Advice()}
		if r.Err != nil {
			text := safetext.Line(r.Err.Error(), maxTextBytes)
			k.failure.err, k.failure.reason = errors.New(text), result.ReasonOf(r.Err)
			bytes += len(text)
		}
	}
	rare := keptRare{r.Turn, r.Call, r.Logprob, r.Vectors, r.RateLimit, r.RetryAfter, r.Integrity}
	if !rare.isEmpty() {
		k.rare = &rare
		bytes += keptRareBytes
	}
	if bytes+eventBytes*len(r.Events) <= allowance/2 {
		k.events = keepEvents(r.Events)
	}
	k.bytes = int32(bytes)
	return k, keptAlike{
		api: r.API, engine: r.Engine, model: r.Model, prefix: r.Prefix, finish: r.Finish, kind: r.Kind,
		clock: r.Clock, source: t.Source, answer: r.Answer, certNotAfter: r.CertNotAfter,
	}
}

// setAlike sets what the probe shares with the one before, if there is one and it is equal.
func (k *keptProbe) setAlike(alike *keptAlike, before Kept, ok bool) {
	if ok && *before.alike == *alike {
		k.alike = before.alike
		return
	}
	k.alike = new(*alike)
	k.bytes += keptAlikeBytes
}

// size returns the bytes in memory, roughly.
func (k Kept) size() int32 { return k.bytes + int32(eventBytes*len(k.events)) }

// nanoseconds returns t as a Unix time, 0 for the zero time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// ofNanoseconds returns the time that nanoseconds made ns of.
func ofNanoseconds(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// maxTextBytes bounds the text of an error.
const maxTextBytes = 1024

// keepEvents returns events in little room; nil where one does not fit: one after
// more than an hour, or of very many tokens.
func keepEvents(events []result.Event) []keptEvent {
	kept := make([]keptEvent, len(events))
	for i := range events {
		e := &events[i]
		if e.At < 0 || e.At > time.Hour || e.Tokens < 0 || e.Tokens > math.MaxUint16 {
			return nil
		}
		kept[i] = keptEvent{uint32((e.At + time.Microsecond/2) / time.Microsecond), uint16(e.Tokens), e.Merged, e.Reasoning}
	}
	return kept
}

// Document returns the probe in the form of the command `probe -o json`.
func (k Kept) Document(t result.Target) *result.Document {
	d := result.NewDocument(t, k.Result())
	d.Advice, d.Merged = k.Advice(), int(k.merged)
	return d
}

// Start returns when the probe started, and Outcome how it ended.
func (k Kept) Start() time.Time { return ofNanoseconds(k.start) }

// Outcome returns how the probe ended.
func (k Kept) Outcome() result.Outcome { return k.outcome }

// Timed reports whether the latencies of the probe count.
func (k Kept) Timed() bool { return k.timed }

// Timing returns the latencies of the probe, which must not be changed.
func (k Kept) Timing() *result.Timing { return &k.timing }

// Advice returns that on a failure; "" is none.
func (k Kept) Advice() string {
	if k.failure == nil {
		return ""
	}
	return k.failure.advice
}

// Reason returns what the error of a failure is; "" is not known.
func (k Kept) Reason() result.Reason {
	if k.failure == nil {
		return ""
	}
	return k.failure.reason
}

// Message returns the error of a failure as the pages show it.
func (k Kept) Message() string {
	if k.failure != nil && k.failure.err != nil {
		return k.failure.err.Error()
	}
	return string(k.outcome)
}

// Result returns the result, without what no page shows.
func (k Kept) Result() *result.Result {
	a, f := k.alike, &k.flags
	r := &result.Result{
		Start: ofNanoseconds(k.start), StartLag: k.startLag.duration(), Sent: ofNanoseconds(k.sent), TraceID: k.trace, Outcome: k.outcome,
		Timing: k.timing, Server: k.server,
		Tokens: result.Tokens{
			Prompt: int(k.tokens[0]), Cached: int(k.tokens[1]), Output: int(k.tokens[2]), Reasoning: int(k.tokens[3]), Source: a.source,
		},
		Decoded: result.TokenSpan{First: int(k.decoded[0]), Last: int(k.decoded[1]), Tokens: int(k.decoded[2]), FirstTokens: int(k.decoded[3])},
		Length:  int(k.length), Concurrency: int(k.concurrency), Status: int(k.status),
		Reused: f.reused, Buffered: f.buffered, Imprecise: f.imprecise, NoEndMarker: f.noEndMarker, NoFinish: f.noFinish, MoreEvents: f.moreEvents,
		MaxTokensIgnored: f.capIgnored,
		API:              a.api, Engine: a.engine, Model: a.model, Prefix: a.prefix, Finish: a.finish, Kind: a.kind, Clock: a.clock,
		Answer: a.answer, CertNotAfter: a.certNotAfter,
		RateLimit: api.RateLimit{Requests: api.Unknown, Tokens: api.Unknown}, RetryAfter: result.Absent,
	}
	if k.failure != nil {
		r.Err = k.failure.err
	}
	if x := k.rare; x != nil {
		r.Turn, r.Call, r.Logprob, r.Vectors = x.turn, x.call, x.logprob, x.vectors
		r.RateLimit, r.RetryAfter, r.Integrity = x.rateLimit, x.retryAfter, x.integrity
	}
	r.Events = make([]result.Event, len(k.events))
	for i, e := range k.events {
		r.Events[i] = result.Event{
			At: time.Duration(e.at) * time.Microsecond, Tokens: int(e.tokens), Merged: e.merged, Reasoning: e.reasoning,
		}
	}
	return r
}

// keep adds a probe and drops old ones, or their events; l.mu is held.
func (l *Log) keep(k Kept, allowance int) {
	l.kept = append(l.kept, k)
	l.keptBytes += k.size()
	for len(l.kept) > maxKept || int(l.keptBytes) > allowance && len(l.kept) > minKept {
		if len(l.kept) <= eventless && l.stripOldest() {
			continue
		}
		i := l.expendable()
		l.keptBytes -= l.kept[i].size()
		l.kept = slices.Delete(l.kept, i, i+1)
	}
}

// stripOldest takes the events of the oldest probe that has some, but for the latest; false
// where there is none. What was read of the log before keeps them.
func (l *Log) stripOldest() bool {
	for i := range l.kept[:len(l.kept)-minKept] {
		if k := &l.kept[i]; len(k.events) > 0 {
			l.keptBytes -= int32(eventBytes * len(k.events))
			k.events = nil
			return true
		}
	}
	return false
}

// expendable returns which kept probe goes first: the oldest, unless it is the
// latest failure.
func (l *Log) expendable() int {
	failed := func(k Kept) bool { return k.outcome != result.Success }
	if failed(l.kept[0]) && !slices.ContainsFunc(l.kept[1:], failed) {
		return 1
	}
	return 0
}

// Kept returns the probes that are kept with all that is known, the oldest first. They are
// never changed.
func (l *Log) Kept() []Kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// Last returns the latest probe; false without one.
func (l *Log) Last() (Kept, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest()
}

// newest is Last; l.mu is held.
func (l *Log) newest() (Kept, bool) {
	if len(l.kept) == 0 {
		return Kept{}, false
	}
	return l.kept[len(l.kept)-1], true
}

// Recent returns those of the latest n probes that are kept, the oldest first, without those
// that bursts of the exporter's own disturbed.
func (l *Log) Recent(n int) []Kept {
	points := l.Points(n)
	if len(points) == 0 {
		return nil
	}
	return slices.DeleteFunc(l.Kept(), func(k Kept) bool { return k.disturbed || k.Start().Before(points[0].At) })
}
