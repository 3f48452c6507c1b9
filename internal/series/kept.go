package series

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unique"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// How many probes are kept with all that is known: for each log at most maxKept, and at least minKept. In between it is
// their size that bounds them: each log has bytes of its own, and all of a Pool share more, which last for maxKept
// probes in each of a hundred logs of ordinary answers. Where there is less, all but the latest minKept probes go
// without their events, down to eventless probes.
const (
	maxKept, minKept, eventless = 30, 2, 12

	ownBytes    = 1600
	pooledBytes = 6 << 18
)

// Pool is what logs share for the probes that are kept with all that is known. It is safe for concurrent use.
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
	events string // by keepEvents, beside the rest, which stays where it is when they are dropped
}

// keptProbe is a Kept without its events.
type keptProbe struct {
	start     int64 // Unix time in ns; 0 is not known
	trace     [16]byte
	tokens    [4]int32 // prompt, cached, output and reasoning
	decoded   [4]int32 // first, last, tokens and those of the first
	length    int32
	merged    int32 // events, those that were dropped included
	bytes     int32 // in memory, roughly, without events and alike
	status    int16
	startLag  keptTime
	sent      keptTime // after the start
	timing    [6]keptTime
	phases    [result.NumPhases]keptTime
	server    [3]keptTime
	timed     bool // its latencies count
	disturbed bool // by a burst of the exporter's own
	flags     keptFlags
	alike     *keptAlike   // shared with the probe before, where it can be
	failure   *keptFailure // nil of a success
	rare      *keptRare    // nil where there is nothing of it
}

// keptTime is a duration as micros.
type keptTime [3]byte

func keptTimeOf(d time.Duration) keptTime {
	m := microsOf(d)
	return keptTime{byte(m), byte(m >> 8), byte(m >> 16)}
}

func (t keptTime) duration() time.Duration {
	return (micros(t[0]) | micros(t[1])<<8 | micros(t[2])<<16).duration()
}

// keptFlags are those of a result.
type keptFlags struct{ reused, buffered, imprecise, noEndMarker, noFinish, moreEvents, capIgnored bool }

// keptAlike is what one probe of a series mostly has as the one before it has.
type keptAlike struct {
	served       unique.Handle[keptServed]
	answer       *result.Answer // nil where it was not looked at
	certNotAfter int64          // by nanoseconds
}

// keptServed is what probes of many series have.
type keptServed struct {
	api, engine, model, prefix, finish string
	kind                               api.Kind
	clock                              result.Clock
	source                             result.TokenSource
	concurrency                        int
}

func (a *keptAlike) equals(b *keptAlike) bool {
	sameAnswer := a.answer == b.answer || a.answer != nil && b.answer != nil && *a.answer == *b.answer
	return a.served == b.served && a.certNotAfter == b.certNotAfter && sameAnswer
}

// keptFailure is the bounded text of an error, and the advice by the error itself.
type keptFailure struct {
	outcome result.Outcome
	err     error
	advice  string
	reason  result.Reason
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
	stall      *result.Stall
}

func (k *keptRare) isEmpty() bool {
	return k.turn == nil && k.call == (result.Call{}) && k.logprob == (result.Logprob{}) && k.vectors == (api.Vectors{}) &&
		k.rateLimit.Requests < 0 && k.rateLimit.Tokens < 0 && k.retryAfter < 0 && len(k.integrity) == 0 && k.stall == nil
}

// Sizes in memory.
const (
	keptBytes       = 184 // of a Kept with its keptProbe, without what both point to
	keptRareBytes   = 160
	keptStallBytes  = 400 // with its evidence
	keptAlikeBytes  = 24
	keptAnswerBytes = 112
)

// keep returns what is kept of a result, without alike. Its events are dropped when they take more than half of the
// allowance.
func keep(o *Observation, allowance int) Kept {
	r := o.Result
	t, d := &r.Tokens, &r.Decoded
	k := Kept{keptProbe: &keptProbe{
		start: nanoseconds(r.Start), sent: keptTimeOf(r.Sent.Sub(r.Start)), trace: r.TraceID,
		startLag: keptTimeOf(r.StartLag), timed: o.Timed(), disturbed: o.Disturbed,
		tokens:  [4]int32{int32(t.Prompt), int32(t.Cached), int32(t.Output), int32(t.Reasoning)},
		decoded: [4]int32{int32(d.First), int32(d.Last), int32(d.Tokens), int32(d.FirstTokens)},
		length:  int32(r.Length), status: int16(r.Status), merged: int32(r.MergedEvents()),
		flags: keptFlags{r.Reused, r.Buffered, r.Imprecise, r.NoEndMarker, r.NoFinish, r.MoreEvents, r.MaxTokensIgnored},
	}}
	for i, d := range timesOf(&r.Timing) {
		k.timing[i] = keptTimeOf(*d)
	}
	for i, d := range r.Timing.Phases {
		k.phases[i] = keptTimeOf(d)
	}
	for i, d := range [...]time.Duration{r.Server.Queue, r.Server.Prefill, r.Server.Decode} {
		k.server[i] = keptTimeOf(d)
	}
	a := &r.Answer
	bytes := keptBytes + len(r.Model) + len(a.Prompt) + len(a.Hash) + len(a.Model) + len(a.Fingerprint) + len(a.Text)
	if r.Outcome != result.Success {
		k.failure = &keptFailure{outcome: r.Outcome, advice: r.Advice()}
		if r.Err != nil {
			text := safetext.Line(r.Err.Error(), maxTextBytes)
			k.failure.err, k.failure.reason = errors.New(text), result.ReasonOf(r.Err)
			bytes += len(text)
		}
	}
	rare := keptRare{r.Turn, r.Call, r.Logprob, r.Vectors, r.RateLimit, r.RetryAfter, r.Integrity, r.Stall}
	if !rare.isEmpty() {
		k.rare = &rare
		bytes += keptRareBytes
	}
	if r.Stall != nil {
		bytes += keptStallBytes
	}
	if events := keepEvents(r.Events); bytes+len(events) <= allowance/2 {
		k.events = string(events)
	}
	k.bytes = int32(bytes)
	return k
}

// alikeOf returns that of a result, or the one before, which may be nil, where that is equal.
func alikeOf(r *result.Result, before *keptAlike) *keptAlike {
	a := keptAlike{certNotAfter: nanoseconds(r.CertNotAfter), served: unique.Make(keptServed{
		api: r.API, engine: r.Engine, model: r.Model, prefix: r.Prefix, finish: r.Finish,
		kind: r.Kind, clock: r.Clock, source: r.Tokens.Source, concurrency: r.Concurrency,
	})}
	if r.Answer != (result.Answer{}) {
		a.answer = &r.Answer
	}
	if before != nil && a.equals(before) {
		return before
	}
	if a.answer != nil {
		a.answer = new(r.Answer) // the result itself is not kept
	}
	return new(a)
}

// size returns the bytes in memory, roughly, without alike.
func (k Kept) size() int32 { return k.bytes + int32(len(k.events)) }

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

// oneToken is what an event mostly is, in the form of keepEvents.
const oneToken = 1 << 2

// keepEvents returns events in little room, nil where one does not fit: one after more than
// an hour, or of very many tokens. Of each it has the microseconds since the one before, and
// the tokens with what else is known where these are not those of the one before.
func keepEvents(events []result.Event) []byte {
	kept := make([]byte, 0, 4*len(events))
	before, was := int64(0), uint64(oneToken)
	for i := range events {
		e := &events[i]
		if e.At < 0 || e.At > time.Hour || e.Tokens < 0 || e.Tokens > math.MaxUint16 {
			return nil
		}
		at := int64((e.At + time.Microsecond/2) / time.Microsecond)
		what := uint64(e.Tokens)<<2 | bit(e.Merged)<<1 | bit(e.Reasoning)
		kept = binary.AppendVarint(kept, (at-before)<<1|int64(bit(what != was)))
		if what != was {
			kept = binary.AppendUvarint(kept, what)
		}
		before, was = at, what
	}
	return kept
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// keptEvents returns the events that keepEvents made kept of.
func keptEvents(kept string) []result.Event {
	in := []byte(kept)
	var events []result.Event
	at, what := int64(0), uint64(oneToken)
	for len(in) > 0 {
		after, n := binary.Varint(in)
		in = in[n:]
		if after&1 == 1 {
			what, n = binary.Uvarint(in)
			in = in[n:]
		}
		at += after >> 1
		events = append(events, result.Event{
			At: time.Duration(at) * time.Microsecond, Tokens: int(what >> 2), Merged: what>>1&1 == 1, Reasoning: what&1 == 1,
		})
	}
	return events
}

// timesOf returns the durations but for the phases.
func timesOf(t *result.Timing) [6]*time.Duration {
	return [6]*time.Duration{&t.TTFT, &t.TTFO, &t.TPOT, &t.PerCharacter, &t.MaxGap, &t.Duration}
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
func (k Kept) Outcome() result.Outcome { return k.end().outcome }

// end returns what is kept of a failure; of a success its outcome alone.
func (k Kept) end() keptFailure {
	if k.failure == nil {
		return keptFailure{outcome: result.Success}
	}
	return *k.failure
}

// Timed reports whether the latencies of the probe count.
func (k Kept) Timed() bool { return k.timed }

// Timing returns the latencies of the probe.
func (k Kept) Timing() (t result.Timing) {
	for i, d := range timesOf(&t) {
		*d = k.timing[i].duration()
	}
	for i, d := range k.phases {
		t.Phases[i] = d.duration()
	}
	return t
}

// Advice returns that on a failure; "" is none.
func (k Kept) Advice() string { return k.end().advice }

// Reason returns what the error of a failure is; "" is not known.
func (k Kept) Reason() result.Reason { return k.end().reason }

// Message returns the error of a failure as the pages show it.
func (k Kept) Message() string {
	if err := k.end().err; err != nil {
		return err.Error()
	}
	return string(k.Outcome())
}

// Result returns the result, without what no page shows.
func (k Kept) Result() *result.Result {
	a, f := k.alike.served.Value(), &k.flags
	r := &result.Result{
		Start: k.Start(), StartLag: k.startLag.duration(), TraceID: k.trace, Outcome: k.Outcome(), Timing: k.Timing(),
		Server: api.ServerTimes{Queue: k.server[0].duration(), Prefill: k.server[1].duration(), Decode: k.server[2].duration()},
		Tokens: result.Tokens{
			Prompt: int(k.tokens[0]), Cached: int(k.tokens[1]), Output: int(k.tokens[2]), Reasoning: int(k.tokens[3]), Source: a.source,
		},
		Decoded: result.TokenSpan{First: int(k.decoded[0]), Last: int(k.decoded[1]), Tokens: int(k.decoded[2]), FirstTokens: int(k.decoded[3])},
		Err:     k.end().err,
		Length:  int(k.length), Concurrency: a.concurrency, Status: int(k.status),
		Reused: f.reused, Buffered: f.buffered, Imprecise: f.imprecise, NoEndMarker: f.noEndMarker, NoFinish: f.noFinish, MoreEvents: f.moreEvents,
		MaxTokensIgnored: f.capIgnored,
		API:              a.api, Engine: a.engine, Model: a.model, Prefix: a.prefix, Finish: a.finish, Kind: a.kind, Clock: a.clock,
		CertNotAfter: ofNanoseconds(k.alike.certNotAfter),
		RateLimit:    api.RateLimit{Requests: api.Unknown, Tokens: api.Unknown}, RetryAfter: result.Absent,
	}
	if k.sent.duration() >= 0 {
		r.Sent = r.Start.Add(k.sent.duration())
	}
	if k.alike.answer != nil {
		r.Answer = *k.alike.answer
	}
	if x := k.rare; x != nil {
		r.Turn, r.Call, r.Logprob, r.Vectors = x.turn, x.call, x.logprob, x.vectors
		r.RateLimit, r.RetryAfter, r.Integrity, r.Stall = x.rateLimit, x.retryAfter, x.integrity, x.stall
	}
	r.Events = keptEvents(k.events)
	return r
}

// keep adds what is kept of a result and drops old probes, or their events; l.mu is held.
func (l *Log) keep(k Kept, r *result.Result, allowance int) {
	var before *keptAlike
	if n := len(l.kept); n > 0 {
		before = l.kept[n-1].alike
	}
	k.alike = alikeOf(r, before)
	l.kept = append(l.kept, k)
	l.keptBytes += l.sizeOf(len(l.kept) - 1)
	for len(l.kept) > maxKept || int(l.keptBytes) > allowance && len(l.kept) > minKept {
		if len(l.kept) <= eventless && l.stripOldest() {
			continue
		}
		i := l.expendable()
		l.keptBytes -= l.sizeOf(i)
		l.kept = slices.Delete(l.kept, i, i+1)
	}
}

// sizeOf returns the bytes in memory of a probe, without what the one before or after it has in common with it.
func (l *Log) sizeOf(i int) int32 {
	k := l.kept[i]
	switch {
	case i > 0 && l.kept[i-1].alike == k.alike || i+1 < len(l.kept) && l.kept[i+1].alike == k.alike:
		return k.size()
	case k.alike.answer == nil:
		return k.size() + keptAlikeBytes
	}
	return k.size() + keptAlikeBytes + keptAnswerBytes
}

// stripOldest takes the events of the oldest probe that has some, but for the latest; false
// where there is none. What was read of the log before keeps them.
func (l *Log) stripOldest() bool {
	for i := range l.kept[:len(l.kept)-minKept] {
		if k := &l.kept[i]; len(k.events) > 0 {
			l.keptBytes -= int32(len(k.events))
			k.events = ""
			return true
		}
	}
	return false
}

// expendable returns which kept probe goes first: the oldest, unless it is the latest failure.
func (l *Log) expendable() int {
	failed := func(k Kept) bool { return k.failure != nil }
	if failed(l.kept[0]) && !slices.ContainsFunc(l.kept[1:], failed) {
		return 1
	}
	return 0
}

// Kept returns the probes that are kept with all that is known, the oldest first. They are never changed.
func (l *Log) Kept() []Kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// Last returns the latest probe; false without one.
func (l *Log) Last() (Kept, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		return Kept{}, false
	}
	return l.kept[len(l.kept)-1], true
}

// Recent returns the latest n probes, and of those before them the failures since an instant, as far as they are kept,
// the oldest first, without those that bursts of the exporter's own disturbed.
func (l *Log) Recent(n int, failed time.Time) []Kept {
	points := l.Points(n)
	if len(points) == 0 {
		return nil
	}
	return slices.DeleteFunc(l.Kept(), func(k Kept) bool {
		old := k.Start().Before(points[0].At)
		return k.disturbed || old && (k.failure == nil || k.Start().Before(failed))
	})
}
