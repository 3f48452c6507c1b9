package prober

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Each request is sent at its offset from when the last connection is ready, and one
// whose connection comes later at once. The end of the run ends all waits.
func TestGateWithArrivals(t *testing.T) {
	const s = time.Second
	f := func(name string, patience, ends time.Duration, came, offsets, planned, sent []time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := &gate{missing: len(came), patience: patience}
			ended := make(chan struct{})
			time.AfterFunc(ends, func() { close(ended) })
			gotPlanned, gotSent := make([]time.Duration, len(came)), make([]time.Duration, len(came))
			var all sync.WaitGroup
			for i := range came {
				slot := &slot{gate: g}
				slot.offset, slot.ended = offsets[i], ended
				all.Go(func() {
					time.Sleep(came[i])
					slot.pass(func() { gotSent[i] = time.Since(began) })
					gotPlanned[i] = slot.planned.Sub(began)
				})
			}
			all.Wait()
			if !slices.Equal(gotPlanned, planned) || !slices.Equal(gotSent, sent) {
				t.Errorf("%s: planned at %v, sent at %v, want %v, %v", name, gotPlanned, gotSent, planned, sent)
			}
			time.Sleep(ends)
		})
	}
	d := func(all ...time.Duration) []time.Duration { return all }
	f("in time", 10*s, 99*s, d(2*s, 1*s, 3*s), d(0, 1*s, 4*s), d(3*s, 4*s, 7*s), d(3*s, 4*s, 7*s))
	f("one is late", 2*s, 99*s, d(1*s, 1*s, 9*s), d(0, 7*s, 1*s), d(3*s, 10*s, 9*s), d(3*s, 10*s, 9*s))
	f("the run ends", 10*s, 5*s, d(1*s, 1*s), d(0, 8*s), d(1*s, 9*s), d(1*s, 5*s))
}

// A request that left later than planned counts from when it was planned.
func TestRequestStartIsThePlannedArrival(t *testing.T) {
	planned := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &conn{history: history{firstWrite: planned.Add(30 * time.Millisecond), lastWrite: planned.Add(31 * time.Millisecond)}}
	c.last = arrival{process: planned.Add(100 * time.Millisecond)}
	a := &attempt{progressed: progressed{start: planned, conn: c, planned: planned}}
	a.answered()
	line := newTimeline()
	line.events = []rawEvent{{instant: c.last.since(planned), tokens: 1, visible: true}}
	line.end = line.events[0].instant
	a.fill(&line)
	if got, want := line.result(count(1)).Timing.TTFT, 100*time.Millisecond; got != want || !a.sentAt().Equal(planned) {
		t.Errorf("TTFT %s, sent at %s, want %s, %s", got, a.sentAt(), want, planned)
	}
}

// TTFT reaches from the planned arrival to the server's first token at least.
func TestTTFTFromThePlannedArrival(t *testing.T) {
	server, url := startSimulator(t)
	cfg := newEndpoint(t, url)
	cfg.Model = "simulated-8b"
	const n = 8
	m := newBurst(n)
	m.OutputTokens = config.Tokens(2)
	m.Arrivals = &config.Arrivals{Process: config.ArrivalPoisson, Rate: 50}
	results := newProber(t, cfg, m).all(t.Context(), time.Time{})
	if len(results) != n {
		t.Fatalf("%d results, want %d", len(results), n)
	}
	for i, r := range results {
		if r.Outcome != result.Success {
			t.Fatalf("request %d: %s: %v", i, r.Outcome, r.Err)
		}
		checkConsistent(t, r)
		record, tokens := written(t, server, r)
		if i > 0 && r.Sent.Equal(results[i-1].Sent) || i > 0 && r.Sent.Before(results[i-1].Sent) {
			t.Errorf("request %d was not planned after the one before", i)
		}
		if record.Arrival.Before(r.Sent) {
			t.Errorf("request %d was with the server %s before its planned arrival", i, r.Sent.Sub(record.Arrival))
		}
		if r.Timing.TTFT < 0 { // the prober was late to read
			continue
		}
		// The server wrote the first token so long after the planned arrival; nobody has
		// it before, and TTFT cannot leave out what came between.
		if least := tokens[0].At.Sub(r.Sent) - time.Millisecond; r.Timing.TTFT < least {
			t.Errorf("request %d: TTFT %s, want %s at least", i, r.Timing.TTFT, least)
		}
	}
}
