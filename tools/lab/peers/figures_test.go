package main

import (
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

func near(t *testing.T, what string, got *quantiles, p50, p99 float64) {
	t.Helper()
	if got == nil || math.Abs(got.P50-p50) > 1e-9 || math.Abs(got.P99-p99) > 1e-9 {
		t.Errorf("%s: %+v, want %v and %v", what, got, p50, p99)
	}
}

// The values are those of numpy.percentile.
func TestQuantiles(t *testing.T) {
	near(t, "one value", quantilesOf([]float64{3}), 3, 3)
	near(t, "two values", quantilesOf([]float64{2, 1}), 1.5, 1.99)
	near(t, "five values", quantilesOf([]float64{5, 1, 4, 2, 3}), 3, 4.96)
	if quantilesOf(nil) != nil {
		t.Error("quantiles of nothing")
	}
}

// record is a request whose events have so many tokens, at these milliseconds
// after its arrival.
func record(id string, done bool, events ...[2]int) simulator.Record {
	arrival := time.Unix(100, 0)
	r := simulator.Record{TraceID: id, Arrival: arrival, Events: []simulator.Event{{Kind: simulator.Role, At: arrival.Add(time.Millisecond)}}}
	for _, e := range events {
		r.Events = append(r.Events, simulator.Event{Kind: simulator.Answer, Tokens: e[0], At: arrival.Add(time.Duration(e[1]) * time.Millisecond)})
	}
	if done {
		r.Events = append(r.Events, simulator.Event{Kind: simulator.Done, At: arrival.Add(time.Second)})
	}
	return r
}

// A request of 1 and 2 tokens at 100 and 140 ms has a TPOT of 20 ms; one that was
// not answered to its end does not count.
func TestTruth(t *testing.T) {
	records := []simulator.Record{
		record("a", true, [2]int{1, 100}, [2]int{2, 140}),
		record("b", true, [2]int{1, 300}, [2]int{1, 330}, [2]int{1, 360}),
		record("c", false, [2]int{1, 900}),
	}
	f := truth(records, nil)
	if f.Requests != 2 || *f.Tokens != 6 {
		t.Errorf("%d requests with %d tokens, want 2 with 6", f.Requests, *f.Tokens)
	}
	near(t, "TTFT", f.TTFT, 0.2, 0.298)
	near(t, "TPOT", f.TPOT, 0.025, 0.0299)
	near(t, "gap", f.Gap, 0.03, 0.0398)
}

// The truth for a tool that says which requests it measured is that of those, and
// without the gaps that it left out.
func TestTruthOfProbes(t *testing.T) {
	records := []simulator.Record{
		record("a", true, [2]int{1, 100}, [2]int{1, 150}, [2]int{1, 160}),
		record("b", true, [2]int{1, 900}),
	}
	p := probe{TraceID: "a", Tokens: 3, TTFT: 0.1}
	p.Events = append(p.Events, event{At: 0.1}, event{At: 0.16, Merged: true}, event{At: 0.16})
	f := truth(records, map[string]probe{"a": p})
	if f.Requests != 1 || f.Gap != nil {
		t.Errorf("%d requests, gaps %+v, want one request and no gap", f.Requests, f.Gap)
	}
	near(t, "TTFT", f.TTFT, 0.1, 0.1)
	if l := p.timeline(); len(l.tokens) != 3 || l.tokens[0]+l.tokens[1]+l.tokens[2] != 3 {
		t.Errorf("timeline %+v", l)
	}
}

// Five of ten values below 0.1 and five up to 0.2: see the documentation of
// histogram_quantile.
func TestBucketQuantile(t *testing.T) {
	buckets := func() map[float64]float64 { return map[float64]float64{0.1: 5, 0.2: 10, math.Inf(1): 10} }
	for q, want := range map[float64]float64{0.5: 0.1, 0.25: 0.05, 0.99: 0.198, 1: 0.2} {
		if got := bucketQuantile(q, buckets()); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := bucketQuantile(0.99, map[float64]float64{0.1: 5, math.Inf(1): 10}); got != 0.1 {
		t.Errorf("a quantile above the last bound is %v, want that bound", got)
	}
}
