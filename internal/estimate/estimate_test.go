package estimate

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// lab is a tracker on a clock that the test sets.
type lab struct {
	now     time.Time
	tracker *Tracker
	last    *Findings
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newLab(ttft time.Duration) *lab {
	l := &lab{now: noon()}
	l.tracker = NewTracker(Options{Now: func() time.Time { return l.now }, TTFT: ttft})
	return l
}

// run observes a run, a second after the one before.
func (l *lab) run(results ...*result.Result) *Findings {
	l.now = l.now.Add(time.Second)
	l.last = l.tracker.Observe(results)
	return l.last
}

// probe returns a success of a cold prompt, whose reply reports no cache.
func probe(prompt int, ttft time.Duration) *result.Result {
	return &result.Result{
		Outcome: result.Success, Kind: api.Generation, Model: "m", Prefix: "cold", Length: prompt,
		Timing: result.Timing{TTFT: ttft, TPOT: result.Absent, Duration: ttft},
		Tokens: result.Tokens{Prompt: prompt, Cached: -1, Output: 1, Reasoning: -1, Source: result.TokensFromUsage},
	}
}

// with changes a result.
func with(r *result.Result, change func(*result.Result)) *result.Result {
	change(r)
	return r
}

// cached lets a reply report how much of the prompt was cached.
func cached(r *result.Result, n int) *result.Result {
	r.Tokens.Cached = n
	return r
}

func warm(r *result.Result) *result.Result {
	r.Prefix = "warm"
	return r
}

// An ordinary module has no findings.
func TestNothing(t *testing.T) {
	l := newLab(time.Second)
	if f := l.run(); f != nil {
		t.Errorf("no results give %+v", f)
	}
	for range 300 {
		if f := l.run(probe(256, 20*time.Millisecond)); f != nil {
			t.Fatalf("a single length gives %+v", f)
		}
	}
	if n := cap(l.tracker.state.prefill.samples); n != 0 {
		t.Errorf("%d samples of a single length are kept", n)
	}
}

// What is known of a model is not known of another; an unknown one is the same.
func TestModelChange(t *testing.T) {
	l := newLab(0)
	of := func(model string, n int) *result.Result {
		return with(cached(probe(256, time.Millisecond), n), func(r *result.Result) { r.Model = model })
	}
	for _, step := range []struct {
		model string
		want  string
		count uint64
	}{{"", "", 1}, {"a", "a", 2}, {"", "a", 3}, {"a", "a", 4}, {"b", "b", 1}, {"a", "a", 1}} {
		f := l.run(of(step.model, 65))
		if f.Model != step.want || f.ColdCached != step.count {
			t.Errorf("after %q: model %q with %d cached cold prompts, want %q with %d", step.model, f.Model, f.ColdCached, step.want, step.count)
		}
	}
}

func TestCanceledSaysNothing(t *testing.T) {
	l := newLab(time.Second)
	canceled := func(r *result.Result) { r.Outcome = result.Canceled }
	full := with(cached(probe(256, time.Second), 256), func(r *result.Result) {
		r.Answer = result.Answer{Prompt: "p", Hash: "h", Model: "m", Fingerprint: "f"}
		r.Logprob = result.Logprob{Tokens: 10, Mean: -2}
	})
	if f := l.run(with(full, canceled)); f != nil {
		t.Errorf("findings %+v, want none", f)
	}
	l.run(request(1, 0, time.Millisecond))
	if f := l.run(with(request(1, 0, 9*time.Second), canceled)); f == nil || f.Knee != nil || f.Bursts[0].Failed != 0 {
		t.Errorf("a canceled burst counts: %+v", f)
	}
}

// Rungs share a tracker.
func TestConcurrentUse(t *testing.T) {
	l := newLab(time.Second)
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 200 {
				f := l.tracker.Observe([]*result.Result{cached(probe(256+4096*(i%2), time.Duration(i+1)*time.Millisecond), 65)})
				_ = f.ColdCached
			}
		}()
	}
	for range 4 {
		<-done
	}
	if f := l.run(); f.ColdCached != 800 {
		t.Errorf("%d cached cold prompts, want 800", f.ColdCached)
	}
}
