// Package lab is what the tests of the workloads share.
package lab

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Lab is an estimate on a clock that the test sets, and its latest finding.
type Lab[E workload.Estimate, F workload.Finding] struct {
	Now      time.Time
	Estimate E // of the latest model
	Tracker  *workload.Tracker
	Last     F

	estimate func() E
}

// Noon is when a Lab begins.
func Noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// New returns a Lab, given what makes its estimate.
func New[E workload.Estimate, F workload.Finding](estimate func() E) *Lab[E, F] {
	l := &Lab[E, F]{Now: Noon(), estimate: estimate}
	l.Tracker = workload.NewTracker(func() time.Time { return l.Now }, func() []workload.Estimate {
		l.Estimate = estimate()
		return []workload.Estimate{l.Estimate}
	})
	return l
}

// Run observes a run, a second after the one before.
func (l *Lab[E, F]) Run(results ...*result.Result) F {
	l.Now = l.Now.Add(time.Second)
	l.Last, _ = workload.In[F](l.Tracker.Observe(results))
	return l.Last
}

// NextProcess returns a Lab whose estimate goes on with what that of another saved.
func (l *Lab[E, F]) NextProcess(t *testing.T) *Lab[E, F] {
	t.Helper()
	saved, err := l.Tracker.Save()
	if err != nil || saved == nil {
		t.Fatalf("saved %v, %v", saved, err)
	}
	text, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	var read workload.SavedTracker
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	next := New[E, F](l.estimate)
	next.Now = l.Now
	if err := next.Tracker.Restore(&read); err != nil {
		t.Fatal(err)
	}
	return next
}

// Probe returns a success of a cold prompt, whose reply reports no cache.
func Probe(prompt int, ttft time.Duration) *result.Result {
	return &result.Result{
		Outcome: result.Success, Kind: api.Generation, Model: "m", Prefix: "cold", Length: prompt,
		Timing: result.Timing{TTFT: ttft, TPOT: result.Absent, Duration: ttft},
		Tokens: result.Tokens{Prompt: prompt, Cached: -1, Output: 1, Reasoning: -1, Source: result.TokensFromUsage},
	}
}

// With changes a result.
func With(r *result.Result, change func(*result.Result)) *result.Result {
	change(r)
	return r
}
