package collector

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// fluent is strict with an objective of fluidity.
func fluent() *config.SLO {
	slo := strict()
	slo.Fluidity = 0.75
	return &slo
}

// streamed is a success whose events came so many milliseconds after the request was
// sent, each with as many tokens; the deadlines of strict are 200 ms and then every 20 ms.
func streamed(tokens int, at ...time.Duration) *result.Result {
	r := success()
	r.Tokens.Output, r.Timing.TTFT = tokens, at[0]*time.Millisecond
	for _, after := range at {
		r.Events = append(r.Events, result.Event{At: after * time.Millisecond})
	}
	r.Decoded = result.TokenSpan{Last: len(at) - 1, Tokens: tokens, FirstTokens: 1}
	return r
}

func TestFluidity(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	s.configure(SeriesOptions{Objectives: series.NewObjectives(*fluent()), Log: new(series.Log)})
	observe := func(r *result.Result) *float64 {
		s.Observe(r)
		return judge(s, r).Fluidity()
	}
	counted := func(eligible, bad, deadlines, missed string) {
		t.Helper()
		has(t, p, map[string]string{
			`probe_slo_eligible_total slo="fluidity"`: eligible, `probe_slo_bad_total slo="fluidity"`: bad,
			"probe_token_deadlines_total": deadlines, "probe_token_deadlines_missed_total": missed,
			"slo_fluidity_ratio": "0.75", `slo_objective_ratio slo="fluidity"`: "0.95", `slo_threshold_seconds slo="fluidity"`: "",
		})
	}
	counted("0", "0", "0", "0")
	if got := observe(streamed(4, 200, 220, 240, 260)); got == nil || *got != 1 {
		t.Errorf("fluidity %v of a stream in time", got)
	}
	counted("1", "0", "4", "0")
	// Due at 240, late by 10: 3 of 4, exactly as many as promised.
	if got := observe(streamed(4, 200, 220, 250, 260)); got == nil || *got != 0.75 {
		t.Errorf("fluidity %v, want 0.75", got)
	}
	counted("2", "0", "8", "1")
	observe(streamed(4, 200, 220, 260, 270)) // one more deadline, at 260
	counted("3", "1", "13", "3")

	stall := streamed(4, 200, 220, 240, 260)
	stall.Outcome = result.TimeoutStall
	if got := observe(stall); got != nil {
		t.Errorf("fluidity %v of a stream that stalled", *got)
	}
	counted("4", "2", "13", "3")

	f := func(change func(r *result.Result)) {
		t.Helper()
		r := streamed(4, 200, 220, 260, 270)
		change(r)
		if got := observe(r); got != nil {
			t.Errorf("fluidity %v", *got)
		}
		counted("4", "2", "13", "3")
	}
	f(func(r *result.Result) { r.Outcome = result.ConnectError })
	f(func(r *result.Result) { r.Outcome = result.Canceled })
	f(func(r *result.Result) { r.Imprecise = true })
	f(func(r *result.Result) { r.Tokens.Output = 2 })
	f(func(r *result.Result) { r.Buffered, r.Decoded = true, result.TokenSpan{} })

	other := streamed(4, 200, 220, 240, 260)
	other.Model = "m2"
	observe(other)
	observe(streamed(4, 200, 220, 240, 260)) // begins at zero
	counted("1", "0", "4", "0")
}

// Nothing of it is on the page of an endpoint that has no such objective, or embeds.
func TestNoFluidity(t *testing.T) {
	for _, o := range []SeriesOptions{{Kind: api.Generation, Objectives: series.NewObjectives(strict()), Log: new(series.Log)}, {Kind: api.Embedding, Objectives: series.NewObjectives(*fluent()), Log: new(series.Log)}} {
		p, s := newStore()
		s.configure(o)
		r := streamed(4, 200, 220, 240, 260)
		r.Kind = o.Kind
		s.Observe(r)
		judge(s, r)
		for name := range samples(t, p) {
			if strings.Contains(name, "fluidity") || strings.Contains(name, "deadline") || strings.Contains(name, "streamed") || strings.Contains(name, "waiting") {
				t.Errorf("%s of %+v", name, o)
			}
		}
	}
}

// Tokens per event are counted from the first stream on that has several, and then of all,
// so that their loss shows.
func TestTokensPerEvent(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Kind: api.Generation})
	f := func(tokens, events string, r *result.Result) {
		t.Helper()
		s.Observe(r)
		has(t, p, map[string]string{"probe_streamed_tokens_total": tokens, "probe_streamed_events_total": events})
	}
	f("", "", streamed(6, 200, 220, 240, 260, 280, 300))
	f("", "", streamed(8, 200, 220, 240, 260, 280, 300, 320)) // an eighth without text, as an end of text
	f("5", "2", streamed(6, 200, 250, 300))
	f("7", "4", streamed(3, 200, 220, 240))
	disturbed := streamed(6, 200, 250, 300)
	s.ObserveDisturbed(disturbed)
	imprecise := streamed(6, 200, 250, 300)
	imprecise.Imprecise = true
	f("7", "4", imprecise)
	failed := streamed(6, 200, 250, 300)
	failed.Outcome = result.Truncated
	f("7", "4", failed)
}

// Users who wait count in the histogram, the window and the objective of TTFT alike.
func TestJudgeWaiting(t *testing.T) {
	slo := strict()
	slo.CountWaiting = true
	p, s := newStore()
	s.setServed(api.Generation, "m")
	s.configure(SeriesOptions{Objectives: series.NewObjectives(slo), Log: new(series.Log)})
	has(t, p, map[string]string{"probe_waiting_total": "0"})
	r := success()
	s.Observe(r)
	judge(s, r)
	for _, c := range []struct {
		wait time.Duration
		bad  bool
	}{{200 * time.Millisecond, false}, {201 * time.Millisecond, true}, {result.Absent, true}} {
		s.values.slo.log.AddWait(r.Start.Add(time.Second), c.wait, c.bad)
		s.CountWait(c.wait, c.bad)
	}
	hasCounts(t, p, [4]counts{good, {4, 2}, good, good})
	has(t, p, map[string]string{
		"probe_waiting_total": "3", "probe_ttft_window_samples": "4", "probe_ttft_seconds_count": "3",
		`probe_results_total outcome="success"`: "1",
	})
}
