package main

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
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
	scrape(s, "a", 0.99, results, 12_000, 60_000)
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
