package collector

import (
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
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
		s.Add(&series.Observation{Result: one(), Disturbed: true})
		want := untimed()
		want["probe_imprecise_total"], want["probe_disturbed_total"] = "0", "1"
		has(t, p, want)
		hasCounts(t, p, [4]counts{})
	})
	t.Run("confirmation", func(t *testing.T) {
		p, s := newStore()
		s.setServed(api.Generation, "m")
		s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
		s.Add(&series.Observation{Result: one(), Confirmation: true})
		canceled := one()
		canceled.Outcome = result.Canceled
		s.Add(&series.Observation{Result: canceled, Confirmation: true})
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

// spent checks the cost of the series of newStore: input, cached input and
// output. An empty value is an absent sample.
func spent(t *testing.T, p *Probes, want [3]string) {
	t.Helper()
	has(t, p, map[string]string{
		`probe_cost_usd_total kind="input"`:        want[0],
		`probe_cost_usd_total kind="cached_input"`: want[1],
		`probe_cost_usd_total kind="output"`:       want[2],
	})
}

// A million prompt tokens cost 4 $, cached ones 1 $, and a million output tokens
// 16 $.
func TestCost(t *testing.T) {
	price := config.Price{InputUSD: 4, CachedInputUSD: 1, OutputUSD: 16}
	tests := []struct {
		name   string
		price  config.Price
		tokens result.Tokens
		want   [3]string
	}{
		{"all known", price, result.Tokens{Prompt: 1000, Cached: 750, Output: 500}, [3]string{"0.001", "0.00075", "0.008"}},
		{"nothing cached", price, result.Tokens{Prompt: 1000, Cached: 0, Output: 500}, [3]string{"0.004", "0", "0.008"}},
		{"cached not reported", price, result.Tokens{Prompt: 1000, Cached: -1, Output: 500}, [3]string{"0.004", "0", "0.008"}},
		{"all cached", price, result.Tokens{Prompt: 1000, Cached: 1000, Output: -1}, [3]string{"0", "0.001", "0"}},
		{"more cached than there is", price, result.Tokens{Prompt: 1000, Cached: 2000, Output: -1}, [3]string{"0", "0.001", "0"}},
		{"only the output known, by its events", price, result.Tokens{Prompt: -1, Cached: -1, Output: 500}, [3]string{"0", "0", "0"}},
		{"nothing reported", price, result.Tokens{Prompt: -1, Cached: -1, Output: -1}, [3]string{"0", "0", "0"}},
		{"cached of nobody knows what", price, result.Tokens{Prompt: -1, Cached: 1000, Output: -1}, [3]string{"0", "0", "0"}},
		{"the cache is free", config.Price{InputUSD: 4}, result.Tokens{Prompt: 1000, Cached: 750, Output: 500}, [3]string{"0.001", "0", ""}},
		{"only output", config.Price{OutputUSD: 16}, result.Tokens{Prompt: 1000, Cached: 750, Output: 500}, [3]string{"", "", "0.008"}},
		{"by the hour", config.Price{GPUHourUSD: 3, GPUs: 2}, result.Tokens{Prompt: 1000, Cached: 750, Output: 500}, [3]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, s := newStore()
			s.configure(SeriesOptions{Price: &tt.price})
			r := success()
			r.Tokens = tt.tokens
			s.Observe(r)
			spent(t, p, tt.want)
		})
	}
}

// A probe costs what its tokens cost when it started: 1 $ a million, and 8 from noon on.
func TestCostBySchedule(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Price: &config.Price{OutputUSD: 1, Schedule: []config.PricePart{{Hours: "12:00-00:00", Output: 8}}}})
	r := success()
	r.Tokens = result.Tokens{Prompt: 0, Cached: -1, Output: 1000}
	r.Start = time.Date(2026, 1, 1, 11, 59, 59, 0, time.UTC)
	s.Observe(r)
	spent(t, p, [3]string{"", "", "0.001"})
	r.Start = r.Start.Add(time.Second)
	s.Observe(r)
	spent(t, p, [3]string{"", "", "0.009"})
}

// Tokens were spent whatever became of the probe, also one that was canceled. A
// new price holds for new tokens, and another model begins at zero.
func TestCostAddsUp(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	spent(t, p, [3]string{})
	s.configure(SeriesOptions{Price: &config.Price{InputUSD: 1000, CachedInputUSD: 1000, OutputUSD: 2000}})
	spent(t, p, [3]string{"0", "0", "0"})
	r := success() // 100 tokens in, 36 out
	for _, o := range []result.Outcome{result.Success, result.Truncated, result.CheckFailed, result.Canceled} {
		r.Outcome = o
		s.Observe(r)
	}
	spent(t, p, [3]string{"0.4", "0", "0.288"})
	s.configure(SeriesOptions{Price: &config.Price{InputUSD: 1000, CachedInputUSD: 1000, OutputUSD: 8000}})
	s.Observe(r)
	spent(t, p, [3]string{"0.5", "0", "0.576"})
	r.Model = "other"
	s.Observe(r)
	r.Model = "m"
	s.Observe(r)
	spent(t, p, [3]string{"0.1", "0", "0.288"})
	s.configure(SeriesOptions{})
	s.Observe(r)
	spent(t, p, [3]string{})
}

// An endpoint that embeds pays for its prompts.
func TestCostOfVectors(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Price: &config.Price{InputUSD: 1, CachedInputUSD: 1}})
	s.Observe(embedded())
	spent(t, p, [3]string{"0.0001", "0", ""})
}

// Whatever a result claims, counters go up by exactly what is believed of it, and the
// cost stays finite.
func TestCountersOfAbsurdCounts(t *testing.T) {
	counts := []int{math.MinInt, -1, 0, 1, 4096, maxTokens, maxTokens + 1, 9e18, math.MaxInt}
	believed := func(n int) uint64 { // of a count that is no part of another
		if n < 0 || n > 1<<32 {
			return 0
		}
		return uint64(n)
	}
	store, s := newStore()
	s.configure(SeriesOptions{Price: &config.Price{InputUSD: 1e6, CachedInputUSD: 1e6, OutputUSD: 1e6}}) // the highest
	count := func(name string, i int) uint64 {
		n, _ := s.counts.of(rowOf(store, name).slot + i)
		return n
	}
	var prompt, output uint64
	usd := 0.0
	for _, p := range counts {
		for _, o := range counts {
			for _, part := range counts {
				r := success()
				r.Tokens = result.Tokens{Prompt: p, Cached: part, Output: o, Reasoning: part, Source: result.TokensFromUsage}
				before := count("probe_cached_prompt_tokens_total", 0)
				s.Observe(r)
				s.Spend(r)
				prompt += 2 * believed(p)
				output += 2 * believed(o)
				if count("probe_cached_prompt_tokens_total", 0) < before {
					t.Fatalf("%+v: the counter of cached tokens fell", r.Tokens)
				}
				spent := 0.0
				for i := range costKinds() {
					spent += s.floats[rowOf(store, "probe_cost_usd_total").float+i]
				}
				if !(spent >= usd) || math.IsInf(spent, 0) {
					t.Fatalf("%+v: %v is spent after %v", r.Tokens, spent, usd)
				}
				usd = spent
			}
		}
	}
	asked, answered := count("probe_prompt_tokens_total", 0), count("probe_output_tokens_total", 0)+count("probe_output_tokens_total", 1)
	if asked != prompt || answered != output {
		t.Errorf("%d tokens of prompts and %d of answers, want %d and %d", asked, answered, prompt, output)
	}
	if prompt > 1<<53 {
		t.Errorf("%d tokens are more than a float holds exactly", prompt)
	}
}

// exactPrice has prices of a token that are powers of two, so that sums are the
// same in any order: 2^-10 for input, 2^-12 where it is cached, 2^-8 for output.
func exactPrice() *config.Price {
	return &config.Price{InputUSD: 1e6 / 1024, CachedInputUSD: 1e6 / 4096, OutputUSD: 1e6 / 256}
}
