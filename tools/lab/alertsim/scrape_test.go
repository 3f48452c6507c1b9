package main

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

func TestObserve(t *testing.T) {
	t.Parallel()
	type counts struct {
		eligible, bad [sloCount]float64 // availability, ttft, tpot, e2e
	}
	tests := []struct {
		name   string
		result result
		want   counts
	}{
		{"success", result{}, counts{[sloCount]float64{1, 1, 1, 1}, [sloCount]float64{0, 0, 0, 0}}},
		{"late first token", result{verdict: verdict{slowTTFT: true}}, counts{[sloCount]float64{1, 1, 1, 1}, [sloCount]float64{0, 1, 0, 0}}},
		{"slow tokens", result{verdict: verdict{slowTPOT: true}}, counts{[sloCount]float64{1, 1, 1, 1}, [sloCount]float64{0, 0, 1, 0}}},
		{"long answer", result{verdict: verdict{slowE2E: true}}, counts{[sloCount]float64{1, 1, 1, 1}, [sloCount]float64{0, 0, 0, 1}}},
		{"breaks off", result{verdict: verdict{outcome: outcomeStreamError}}, counts{[sloCount]float64{1, 1, 0, 1}, [sloCount]float64{1, 0, 0, 1}}},
		{"no token", result{verdict: verdict{outcome: outcomeConnectError, noToken: true}}, counts{[sloCount]float64{1, 1, 0, 1}, [sloCount]float64{1, 1, 0, 1}}},
		{"confirmation", result{confirm: true, verdict: verdict{outcome: outcomeConnectError, noToken: true}}, counts{}},
		{"canceled", result{verdict: verdict{outcome: outcomeCanceled}}, counts{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c counters
			c.observe(tt.result)
			if got := (counts{c.eligible, c.bad}); got != tt.want {
				t.Errorf("eligible and bad %v, want %v", got, tt.want)
			}
			if c.results[tt.result.verdict.outcome] != 1 {
				t.Errorf("results %v, want 1 of %s", c.results, outcomeNames[tt.result.verdict.outcome])
			}
		})
	}
}

func TestScrape(t *testing.T) {
	t.Parallel()
	s := newStore()
	results := []result{
		{start: 10_000, end: 12_000},
		{start: 20_000, end: 27_000, verdict: verdict{outcome: outcomeConnectError, noToken: true}},
	}
	scrape(s, endpoint{name: "a", interval: 15 * time.Second}, results, 12_000, 60_000)
	want := map[string][]sample{
		"success":       {{12_000, 1}, {27_000, 1}, {42_000, 1}, {57_000, 1}},
		"connect_error": {{12_000, 0}, {27_000, 1}, {42_000, 1}, {57_000, 1}},
	}
	for outcome, samples := range want {
		got := s.find(labels.FromStrings(
			labels.MetricName, "inference_probe_results_total", "endpoint", "a", "model", "llama",
			"module", "interactive", "prefix", "cold", "outcome", outcome, "job", "inference_exporter", "instance", "prober:10115",
		))
		if got == nil {
			t.Fatalf("no series for %s", outcome)
		}
		if len(got.samples) != len(samples) {
			t.Fatalf("%s has the samples %v, want %v", outcome, got.samples, samples)
		}
		for i, want := range samples {
			if got.samples[i] != want {
				t.Errorf("%s, sample %d is %v, want %v", outcome, i, got.samples[i], want)
			}
		}
	}
}

// TestScrapeInAPause has an exporter that is away from the second to the third
// scrape, and one that only does not probe. Of four probes the first ends before,
// the second is cut off, the third would have run meanwhile.
func TestScrapeInAPause(t *testing.T) {
	t.Parallel()
	results := []result{
		{start: 1_000, end: 5_000},
		{start: 14_000, end: 16_000},
		{start: 30_000, end: 46_000},
		{start: 50_000, end: 55_000},
	}
	stale := math.Float64frombits(value.StaleNaN)
	f := func(stays bool, up, successes []float64, lastRun ...float64) {
		t.Helper()
		s := newStore()
		pauses := []pause{{from: 15_000, to: 45_000, stays: stays}}
		scrape(s, endpoint{name: "a", interval: 15 * time.Second, pauses: pauses}, results, 0, 75_000)
		check := func(name string, want []float64) {
			t.Helper()
			for _, found := range s.byName[name] {
				if o := found.labels.Get("outcome"); o != "" && o != "success" {
					continue
				}
				var got []float64
				for _, sample := range found.samples {
					got = append(got, sample.v)
				}
				if !equalValues(got, want) {
					t.Errorf("stays %t: %s is %v, want %v", stays, name, got, want)
				}
			}
		}
		check("up", up)
		check("inference_probe_results_total", successes)
		check("inference_probe_last_run_timestamp_seconds", lastRun)
	}
	// Scrapes are at 0, 15, 30, 45 and 60 s. In the first case nothing had run at 0,
	// and what the exporter had is lost when it comes back.
	f(false, []float64{1, 0, 0, 1, 1}, []float64{0, stale, 0, 1}, 50)
	// The second probe ends in the pause and counts, as it began before.
	f(true, []float64{1, 1, 1, 1, 1}, []float64{0, 1, 2, 2, 3}, 1, 14, 14, 50)
}

// equalValues compares bit by bit, as stale marks want it.
func equalValues(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}
