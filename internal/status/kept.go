package status

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// How many probes are kept with all that is known: for each series at most
// maxKept, and at least minKept. In between it is their size that bounds them:
// each series has bytes of its own, and all share a pool, which lasts for
// maxKept probes in each of a hundred series of ordinary answers.
const (
	maxKept     = 30
	minKept     = 2
	ownBytes    = 7 << 8
	pooledBytes = 3 << 20
)

// allowance returns the bytes of kept probes for each of so many series.
func allowance(series int) int { return ownBytes + pooledBytes/max(1, series) }

// keptProbe is a result in little room. It is never changed once it is kept.
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
	bytes       int32 // in memory, roughly
	timed       bool  // its latencies count
	flags       keptFlags
	alike       *keptAlike   // shared with the probe before, where it can be
	failure     *keptFailure // nil of a success
	rare        *keptRare    // nil where there is nothing of it
	events      []keptEvent
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
	keptBytes      = 320 // of a keptProbe without what it points to
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

// keep returns what is kept of a result. Its events are dropped when they take
// more than half of the allowance.
func keep(r *result.Result, allowance int) *keptProbe {
	t, d := &r.Tokens, &r.Decoded
	k := &keptProbe{
		start: nanoseconds(r.Start), sent: nanoseconds(r.Sent), trace: r.TraceID, outcome: r.Outcome,
		timing: r.Timing, server: r.Server,
		tokens:  [4]int32{int32(t.Prompt), int32(t.Cached), int32(t.Output), int32(t.Reasoning)},
		decoded: [4]int32{int32(d.First), int32(d.Last), int32(d.Tokens), int32(d.FirstTokens)},
		length:  int32(r.Length), concurrency: int32(r.Concurrency), status: int32(r.Status), merged: int32(r.MergedEvents()),
		flags: keptFlags{r.Reused, r.Buffered, r.Imprecise, r.NoEndMarker, r.NoFinish, r.MoreEvents, r.MaxTokensIgnored},
		alike: &keptAlike{
			api: r.API, engine: r.Engine, model: r.Model, prefix: r.Prefix, finish: r.Finish, kind: r.Kind,
			clock: r.Clock, source: t.Source, answer: r.Answer, certNotAfter: r.CertNotAfter,
		},
	}
	a := &r.Answer
	bytes := keptBytes + len(r.Model) + len(a.Prompt) + len(a.Hash) + len(a.Model) + len(a.Fingerprint) + len(a.Text)
	if r.Outcome != result.Success {
		k.failure = &keptFailure{advice: r.Advice()}
		if r.Err != nil {
			text := harmless(r.Err.Error())
			k.failure.err = errors.New(text)
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
		bytes += eventBytes * len(k.events)
	}
	k.bytes = int32(bytes + keptAlikeBytes)
	return k
}

// shareWith has the probe share with another one what both have.
func (k *keptProbe) shareWith(other *keptProbe) {
	if *k.alike == *other.alike {
		k.alike = other.alike
		k.bytes -= keptAlikeBytes
	}
}

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

// keepEvents returns events in little room; nil where one does not fit: one after
// more than an hour, or of very many tokens.
func keepEvents(events []result.Event) []keptEvent {
	kept := make([]keptEvent, len(events))
	for i := range events {
		e := &events[i]
		if e.At < 0 || e.At > time.Hour || e.Tokens < 0 || e.Tokens > math.MaxUint16 {
			return nil
		}
		kept[i] = keptEvent{uint32(e.At.Round(time.Microsecond) / time.Microsecond), uint16(e.Tokens), e.Merged, e.Reasoning}
	}
	return kept
}

// document returns the probe in the form of the command `probe -o json`.
func (k *keptProbe) document(t result.Target) *result.Document {
	d := result.NewDocument(t, k.result())
	if k.failure != nil {
		d.Advice = k.failure.advice
	}
	d.Merged = int(k.merged)
	return d
}

// result returns the result, without what no page shows.
func (k *keptProbe) result() *result.Result {
	a, f := k.alike, &k.flags
	r := &result.Result{
		Start: ofNanoseconds(k.start), Sent: ofNanoseconds(k.sent), TraceID: k.trace, Outcome: k.outcome,
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

// keep adds a probe and drops old ones.
func (p *Probes) keep(k *keptProbe, allowance int) {
	if last := p.last(); last != nil {
		k.shareWith(last)
	}
	p.kept = append(p.kept, k)
	p.keptBytes += k.bytes
	for len(p.kept) > maxKept || int(p.keptBytes) > allowance && len(p.kept) > minKept {
		i := p.expendable()
		p.keptBytes -= p.kept[i].bytes
		p.kept = slices.Delete(p.kept, i, i+1)
	}
}

// expendable returns which kept probe goes first: the oldest, unless it is the
// latest failure.
func (p *Probes) expendable() int {
	failed := func(k *keptProbe) bool { return k.outcome != result.Success }
	if failed(p.kept[0]) && !slices.ContainsFunc(p.kept[1:], failed) {
		return 1
	}
	return 0
}
