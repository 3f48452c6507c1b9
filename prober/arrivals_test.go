package prober

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// The times between arrivals have the mean 1/rate, the variance 1/rate² and the
// tails of the exponential distribution, and follow from the seed.
func TestPoisson(t *testing.T) {
	const n, rate = 40_001, 4.0
	draw := func() []time.Duration { return poisson(n, rate, 1e6*time.Second, rand.New(rand.NewPCG(1, 2))) }
	all := draw()
	if !slices.Equal(all, draw()) {
		t.Error("another draw with the same seed differs")
	}
	if all[0] != 0 || !slices.IsSorted(all) {
		t.Error("the arrivals do not begin at 0 and rise")
	}
	var sum, squares float64
	over := 0 // the mean, e^-1 of them
	for i := 1; i < n; i++ {
		gap := (all[i] - all[i-1]).Seconds()
		sum, squares = sum+gap, squares+gap*gap
		if gap > 1/rate {
			over++
		}
	}
	mean := sum / (n - 1)
	variance := squares/(n-1) - mean*mean
	// Standard errors by the moments of the distribution: of the mean 1/rate/√n, of the
	// variance √8/rate²/√n. Four of them.
	bound := 4 / math.Sqrt(n-1)
	if math.Abs(mean*rate-1) > bound {
		t.Errorf("mean %v s, want %v within %v", mean, 1/rate, bound/rate)
	}
	if math.Abs(variance*rate*rate-1) > math.Sqrt(8)*bound {
		t.Errorf("variance %v s², want %v", variance, 1/rate/rate)
	}
	share, want := float64(over)/(n-1), math.Exp(-1)
	if math.Abs(share-want) > bound*math.Sqrt(want*(1-want)) {
		t.Errorf("%v of the gaps above the mean, want %v", share, want)
	}
}

// No arrival is later than the bound.
func TestPoissonIsBounded(t *testing.T) {
	all := poisson(100, 1, 5*time.Second, rand.New(rand.NewPCG(1, 2)))
	if last := all[99]; last != 5*time.Second {
		t.Errorf("the last of 100 at 1/s starts after %s, want the bound of 5s", last)
	}
}

// The arrivals of a run follow each other in the recording, from 0, and each stretch that
// fits is drawn about as often as the others.
func TestRecordedArrivals(t *testing.T) {
	const s = time.Second
	profile := config.Profile{0, s, 3 * s, 3 * s, 60 * s, 61 * s}
	a := &config.Arrivals{Process: config.ArrivalRecorded, Profile: profile}
	rng := rand.New(rand.NewPCG(1, 2))
	drawn := map[string]int{}
	for range 1000 {
		drawn[fmt.Sprint(arrivals(a, 3, 10*s, rng))]++
	}
	// Those of 57 s and 58 s do not fit.
	for _, want := range []string{"[0s 1s 3s]", "[0s 2s 2s]"} {
		if n := drawn[want]; n < 400 || n > 600 { // six standard deviations of 16
			t.Errorf("%s was drawn %d times of 1000, want about 500", want, n)
		}
	}
	if len(drawn) != 2 {
		t.Errorf("drew %v", drawn)
	}
	if all := arrivals(a, 6, 61*s, rng); !slices.Equal(all, profile) {
		t.Errorf("the whole recording is %v, want %v", all, profile)
	}
}

// Each request is sent at its offset from when the last connection is ready, and one
// whose connection comes later at once. The end of the run ends all waits.
func TestGateWithArrivals(t *testing.T) {
	const s = time.Second
	f := func(name string, patience, ends time.Duration, came, offsets, planned, sent []time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := newGate(len(came), patience)
			ended := make(chan struct{})
			time.AfterFunc(ends, func() { close(ended) })
			gotPlanned, gotSent := make([]time.Duration, len(came)), make([]time.Duration, len(came))
			var all sync.WaitGroup
			for i := range came {
				slot := g.slot()
				slot.arrival = &arrivalSlot{offset: offsets[i], ended: ended}
				all.Go(func() {
					time.Sleep(came[i])
					slot.pass(func() { gotSent[i] = time.Since(began) })
					gotPlanned[i] = slot.arrival.planned.Sub(began)
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
	c := &conn{firstWrite: planned.Add(30 * time.Millisecond), lastWrite: planned.Add(31 * time.Millisecond)}
	c.last = arrival{process: planned.Add(100 * time.Millisecond)}
	a := &attempt{start: planned, conn: c, planned: planned}
	a.answered()
	line := newTimeline()
	line.events = []rawEvent{{instant: a.at(c.last), tokens: 1, visible: true}}
	line.end = line.events[0].instant
	a.fill(&line)
	if got, want := line.result(count(1)).timing.TTFT, 100*time.Millisecond; got != want || !a.sentAt().Equal(planned) {
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
