package collector

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// untimed is what a success leaves whose latencies do not count.
func untimed() map[string]string {
	return map[string]string{
		`probe_results_total outcome="success"`: "1", "probe_success": "1", "probe_prompt_tokens_total": "100",
		"probe_ttft_seconds_count": "0", "probe_ttfo_seconds_count": "0", "probe_tpot_seconds_count": "0",
		"probe_max_gap_seconds_count": "0", "probe_inter_chunk_seconds_count": "0", "probe_duration_seconds_count": "0",
		`probe_phase_seconds_count phase="decode"`: "",
		"probe_last_ttft_seconds":                  "", "probe_last_tpot_seconds": "", "probe_last_output_tokens_per_second": "",
		"probe_ttft_window_samples": "0",
	}
}

// Times that cannot be relied on are in no family of latencies: histograms, the
// window and the objectives are all about the same probes.
func TestUntimedProbes(t *testing.T) {
	one := func() *result.Result {
		r := success()
		r.Events = []result.Event{{At: 0}, {At: 10 * time.Millisecond}}
		return r
	}
	t.Run("imprecise", func(t *testing.T) {
		p, s := newStore()
		s.setServed(api.Generation, "m")
		s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
		r := one()
		r.Imprecise = true
		s.Observe(r)
		judge(s, r)
		want := untimed()
		want["probe_imprecise_total"], want["probe_disturbed_total"] = "1", "0"
		has(t, p, want)
		hasCounts(t, p, [4]counts{good, none, none, none})
	})
	t.Run("disturbed", func(t *testing.T) {
		p, s := newStore()
		s.setServed(api.Generation, "m")
		s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
		s.ObserveDisturbed(one())
		want := untimed()
		want["probe_imprecise_total"], want["probe_disturbed_total"] = "0", "1"
		has(t, p, want)
		hasCounts(t, p, [4]counts{})
	})
	t.Run("confirmation", func(t *testing.T) {
		p, s := newStore()
		s.setServed(api.Generation, "m")
		s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
		s.ObserveConfirmation(one())
		canceled := one()
		canceled.Outcome = result.Canceled
		s.ObserveConfirmation(canceled)
		want := untimed()
		want["probe_prompt_tokens_total"] = "200"
		want["probe_confirmations_total"], want["probe_disturbed_total"] = "1", "0"
		has(t, p, want)
		hasCounts(t, p, [4]counts{})
	})
	t.Run("more events than tokens", func(t *testing.T) {
		p, s := newStore()
		s.setServed(api.Generation, "m")
		s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
		r := one()
		r.MoreEvents, r.Timing.TTFT, r.Timing.TPOT, r.Timing.MaxGap = true, result.Absent, result.Absent, result.Absent
		s.Observe(r)
		judge(s, r)
		want := untimed()
		delete(want, `probe_phase_seconds_count phase="decode"`)
		want["probe_more_events_than_tokens_total"] = "1"
		want["probe_ttfo_seconds_count"], want["probe_duration_seconds_count"] = "1", "1"
		has(t, p, want)
		hasCounts(t, p, [4]counts{good, none, none, good})
	})
}

// A failure is one, however well its times are known.
func TestJudgeImpreciseFailures(t *testing.T) {
	hasCounts(t, judged(func(r *result.Result) {
		r.Outcome, r.Imprecise, r.Timing.TTFT = result.TimeoutFirstToken, true, result.Absent
	}), [4]counts{bad, bad, none, bad})
	hasCounts(t, judged(func(r *result.Result) { r.Outcome, r.Imprecise = result.TimeoutStall, true }), [4]counts{bad, none, bad, bad})
}
