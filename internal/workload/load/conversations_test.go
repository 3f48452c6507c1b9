package load

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

// talkOf returns the results of a conversation, each of a prompt of 1,000 tokens.
func talkOf(affinity result.Affinity, turns ...*result.Result) []*result.Result {
	for i, r := range turns {
		r.Turn = &result.Turn{Number: i + 1, Affinity: affinity, Replica: "a"}
		if i > 0 {
			r.Prefix, r.Length = "warm", 0
		}
	}
	return turns
}

// turnNumber returns what is known of a turn; nil for nothing.
func turnNumber(l *labOf, affinity result.Affinity, number int) *Turn {
	if l.Last == nil {
		return nil
	}
	for i := range l.Last.Turns {
		if t := &l.Last.Turns[i]; t.Affinity == affinity && t.Number == number {
			return t
		}
	}
	return nil
}

func TestTurns(t *testing.T) {
	l := newLab()
	run := func(second int, replica string) {
		turns := talkOf(result.AffinitySession, cached(lab.Probe(1000, 200*ms), 0), cached(lab.Probe(1000, 50*ms), second), cached(lab.Probe(3000, 60*ms), 1500))
		turns[2].Turn.Replica = replica
		l.Run(turns...)
	}
	for i := range 5 {
		run(100*(i+1), "a")
	}
	if l.Last != nil && l.Last.Turns != nil {
		t.Fatalf("5 conversations give %+v", l.Last.Turns)
	}
	run(600, "b")
	expect := func(number int, hits, ttft, same float64) {
		t.Helper()
		got := turnNumber(l, result.AffinitySession, number)
		if got == nil || got.HitRatio == nil || !near(*got.HitRatio, hits) || got.TTFT == nil || !near(*got.TTFT, ttft) {
			t.Fatalf("turn %d: %+v", number, got)
		}
		if (got.SameReplica == nil) != (same < 0) || same >= 0 && !near(*got.SameReplica, same) {
			t.Errorf("turn %d on the same replica: %v, want %v", number, got.SameReplica, same)
		}
	}
	expect(1, 0, 0.2, -1)
	expect(2, 0.35, 0.05, 1)      // 100 to 600 of 1,000
	expect(3, 0.5, 0.06, 5.0/6.0) // the last one went to b
	if got := turnNumber(l, result.AffinityNone, 1); got != nil {
		t.Errorf("without a session: %+v", got)
	}
	if l.Last.HitRatio != nil || l.Last.Benefit != nil {
		t.Errorf("turns counted as pairs or warm probes: %+v", l.Last)
	}
	l.Now = l.Now.Add(pairReach)
	if l.Run(); len(l.Last.Turns) > 0 {
		t.Errorf("after a day: %+v", l.Last)
	}
}

// Only the latest 60 of each affinity count, and those of the other are apart.
func TestTurnsByAffinity(t *testing.T) {
	l := newLab()
	for range 70 {
		l.Run(talkOf(result.AffinitySession, cached(lab.Probe(1000, 200*ms), 0), cached(lab.Probe(1000, 50*ms), 0))...)
		l.Run(talkOf(result.AffinityNone, cached(lab.Probe(1000, 200*ms), 0), cached(lab.Probe(1000, 200*ms), 250))...)
	}
	for range 60 {
		l.Run(talkOf(result.AffinitySession, cached(lab.Probe(1000, 200*ms), 0), cached(lab.Probe(1000, 50*ms), 900))...)
	}
	for affinity, want := range map[result.Affinity]float64{result.AffinitySession: 0.9, result.AffinityNone: 0.25} {
		if got := turnNumber(l, affinity, 2); got == nil || got.HitRatio == nil || !near(*got.HitRatio, want) {
			t.Errorf("%s: %+v, want %v", affinity, got, want)
		}
	}
}

// A failed turn ends a conversation, whose turns before it count.
func TestTurnsBeforeAFailure(t *testing.T) {
	l := newLab()
	for range minPairs {
		failed := lab.With(lab.Probe(1000, ms), func(r *result.Result) { r.Outcome = result.RateLimited })
		l.Run(talkOf(result.AffinityNone, cached(lab.Probe(1000, 200*ms), 0), cached(lab.Probe(1000, 50*ms), 500), failed)...)
	}
	if got := turnNumber(l, result.AffinityNone, 2); got == nil || !near(*got.HitRatio, 0.5) {
		t.Errorf("turn 2: %+v", got)
	}
	if got := turnNumber(l, result.AffinityNone, 3); got != nil {
		t.Errorf("the turn that failed: %+v", got)
	}
}

// Replies that report 0 are believed unless later turns are faster than the first.
func TestTurnsWithoutHits(t *testing.T) {
	f := func(what string, second time.Duration, hits int, want bool) {
		t.Helper()
		l := newLab()
		for range minPairs {
			l.Run(talkOf(result.AffinityNone, cached(lab.Probe(1000, 200*ms), 0), cached(lab.Probe(1000, second), hits))...)
		}
		got := turnNumber(l, result.AffinityNone, 2)
		if got == nil || got.TTFT == nil || (got.HitRatio != nil) != want {
			t.Errorf("%s: %+v, want a ratio: %t", what, got, want)
		}
	}
	f("as slow", 190*ms, 0, true)
	f("faster by a quarter", 149*ms, 0, false)
	f("faster, with hits", 50*ms, 10, true)
}
