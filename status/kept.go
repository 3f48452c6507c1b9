package status

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// How many probes are kept with all that is known: for each series at most
// maxKept, and at least minKept. In between it is their size that bounds them:
// each series has bytes of its own, and all share a pool, which lasts for
// maxKept probes in each of a hundred series of ordinary answers.
const (
	maxKept     = 30
	minKept     = 2
	ownBytes    = 4 << 10
	pooledBytes = 5 << 20
)

// allowance returns the bytes of kept probes for each of so many series.
func allowance(series int) int { return ownBytes + pooledBytes/max(1, series) }

// keptProbe is a result in little room. It is never changed.
type keptProbe struct {
	result result.Result // without events; its error is a bounded text
	advice string        // of the result with its own error
	events []keptEvent
	merged int // events, those that were dropped included
	bytes  int // in memory, roughly
}

// Sizes in memory.
const (
	keptBytes  = 768 // of a keptProbe without what it points to
	eventBytes = 8
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
	k := &keptProbe{result: *r, advice: r.Advice(), merged: r.MergedEvents(), bytes: keptBytes}
	k.result.Events = nil
	if r.Err != nil {
		text := harmless(r.Err.Error())
		k.result.Err = errors.New(text)
		k.bytes += len(text)
	}
	a := &r.Answer
	k.bytes += len(r.Model) + len(a.Prompt) + len(a.Hash) + len(a.Model) + len(a.Fingerprint) + len(a.Text)
	if k.bytes+eventBytes*len(r.Events) <= allowance/2 {
		k.events = keepEvents(r.Events)
		k.bytes += eventBytes * len(k.events)
	}
	return k
}

// keepEvents returns events in little room; nil where one does not fit: one after
// more than an hour, or of very many tokens.
func keepEvents(events []result.Event) []keptEvent {
	kept := make([]keptEvent, len(events))
	for i := range events {
		e := &events[i]
		at := micros(e.At)
		if at == notMeasured || e.Tokens < 0 || e.Tokens > math.MaxUint16 {
			return nil
		}
		kept[i] = keptEvent{at, uint16(e.Tokens), e.Merged, e.Reasoning}
	}
	return kept
}

// document returns the probe in the form of the command `probe -o json`.
func (k *keptProbe) document(t result.Target) *result.Document {
	r := k.result
	r.Events = make([]result.Event, len(k.events))
	for i, e := range k.events {
		r.Events[i] = result.Event{
			At: time.Duration(e.at) * time.Microsecond, Tokens: int(e.tokens), Merged: e.merged, Reasoning: e.reasoning,
		}
	}
	d := result.NewDocument(t, &r)
	d.Advice, d.Merged = k.advice, k.merged
	return d
}

// keep adds a probe and drops old ones.
func (p *Probes) keep(k *keptProbe, allowance int) {
	p.kept = append(p.kept, k)
	p.keptBytes += k.bytes
	for len(p.kept) > maxKept || p.keptBytes > allowance && len(p.kept) > minKept {
		i := p.expendable()
		p.keptBytes -= p.kept[i].bytes
		p.kept = slices.Delete(p.kept, i, i+1)
	}
}

// expendable returns which kept probe goes first: the oldest, unless it is the
// latest failure.
func (p *Probes) expendable() int {
	failed := func(k *keptProbe) bool { return k.result.Outcome != result.Success }
	if failed(p.kept[0]) && !slices.ContainsFunc(p.kept[1:], failed) {
		return 1
	}
	return 0
}
