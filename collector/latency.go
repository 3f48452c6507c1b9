package collector

import (
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Classic bounds in seconds. Every limit of MLPerf Inference on TTFT and TPOT and the common objectives of the field
// are among them, so that ratios against those are exact.
var (
	ttftBounds = []float64{
		0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.45, 0.5, 0.75,
		1, 1.5, 2, 2.5, 3, 4.5, 6, 10, 20, 40, 80, 160,
	}
	gapBounds = []float64{
		0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075,
		0.1, 0.15, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4,
	}
	tpotBounds = []float64{
		0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05,
		0.075, 0.08, 0.1, 0.15, 0.175, 0.2, 0.3, 0.5, 1, 2.5,
	}
	durationBounds = []float64{
		0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 45, 60, 120, 240, 480, 960,
	}
)

// durationRows are the distributions of whole probes and their parts.
func durationRows() []row {
	return []row{
		{Name: "probe_duration_seconds", Bounds: durationBounds, Time: func(p *probe, _ int) time.Duration { return p.Timing.Duration }},
		{
			Name: "probe_phase_seconds", Label: "phase", Values: result.PhaseNames(), Flaw: true,
			Late: func(i int) bool { // embedding and ranking have neither
				return result.Phase(i) == result.PhaseFirstToken || result.Phase(i) == result.PhaseDecode
			},
			Time: func(p *probe, i int) time.Duration { return p.Timing.Phases[i] },
		},
		{
			Name: "probe_server_time_seconds", Label: "phase", Values: []string{"queue", "prefill", "decode"}, Late: late,
			Time: func(p *probe, i int) time.Duration {
				return [...]time.Duration{p.Server.Queue, p.Server.Prefill, p.Server.Decode}[i]
			},
		},
	}
}

// ttftName is the family that also observes the waits of users.
const ttftName = "probe_ttft_seconds"

// latencyRows are the distributions of tokens that come one by one.
func latencyRows() []row {
	return []row{
		{Name: ttftName, Bounds: ttftBounds, On: onProbe | onWait, Time: func(p *probe, _ int) time.Duration { return p.Timing.TTFT }},
		{Name: "probe_ttfo_seconds", Bounds: ttftBounds, Like: ttftName, Time: func(p *probe, _ int) time.Duration { return p.Timing.TTFO }},
		{Name: "probe_tpot_seconds", Bounds: tpotBounds, Time: func(p *probe, _ int) time.Duration { return p.Timing.TPOT }},
		{Name: "probe_inter_chunk_seconds", Bounds: gapBounds, Times: gapsOf},
		{Name: "probe_max_gap_seconds", Bounds: gapBounds, Time: func(p *probe, _ int) time.Duration { return p.Timing.MaxGap }},
	}
}

// gapsOf observes the time between neighbouring events whose instants are both measured,
// unless some of the events are no tokens.
func gapsOf(p *probe, h *histogram) {
	for i := 1; i < len(p.Events) && !p.MoreEvents; i++ {
		before, after := &p.Events[i-1], &p.Events[i]
		if gap := after.At - before.At; gap >= 0 && !before.Merged && !after.Merged {
			h.observe(gap.Seconds())
		}
	}
}

// lastRows are the gauges of the latest success.
func lastRows() []row {
	return []row{
		{Name: "probe_last_ttft_seconds", Gauge: ofLatest(func(p *probe) float64 { return p.ifTimed(p.Timing.TTFT) })},
		{Name: "probe_last_tpot_seconds", Gauge: ofLatest(func(p *probe) float64 { return p.ifTimed(p.Timing.TPOT) })},
		{Name: "probe_last_output_tokens_per_second", Gauge: ofLatest(func(p *probe) float64 { return p.perSecond(1, p.Timing.TPOT) })},
		{Name: "probe_last_output_characters_per_second", Gauge: ofLatest(func(p *probe) float64 { return p.perSecond(1, p.Timing.PerCharacter) })},
	}
}

// perSecond returns n in a duration as a rate, if the latencies of the probe count and both are known.
func (p *probe) perSecond(n int, in time.Duration) float64 {
	return workload.If(p.timed && n > 0 && in > 0, float64(n)/in.Seconds())
}

// flaw returns the row of a counter of probes of which something holds that ought not to.
func flaw(name string, holds func(p *probe) bool) row {
	return row{Name: name, Flaw: true, Count: func(p *probe, _ int) int { return one(holds(p)) }}
}

// untimedRows count probes of all kinds whose latencies count nowhere.
func untimedRows() []row {
	return []row{
		flaw("probe_imprecise_total", func(p *probe) bool { return p.Imprecise }),
		flaw("probe_disturbed_total", func(p *probe) bool { return p.Disturbed }),
		flaw("probe_cold_total", func(p *probe) bool { return p.Cold }),
		flaw("probe_confirmations_total", func(p *probe) bool { return p.Confirmation }),
	}
}

// slo counts the probes of a series against its objectives.
type slo struct {
	*series.Objectives
	log           *series.Log
	eligible, bad [series.NumObjectives]uint64
	deadlines     result.Deadlines // of all streams that count for the fluidity
}

// restartSLO begins to count, and the window with it.
func (s *Series) restartSLO() {
	s.slo = nil
	if o := s.options; o.Objectives != nil {
		s.slo = &slo{Objectives: o.Objectives, log: o.Log}
		o.Log.BeginWindow()
	}
}

func (o *slo) judge(j series.Judgement) {
	for i := range series.NumObjectives {
		if j.Eligible.Has(i) {
			o.count(i, j.Bad.Has(i))
		}
	}
	o.deadlines = o.deadlines.Plus(j.Deadlines)
}

func (o *slo) count(i series.Objective, bad bool) {
	o.eligible[i]++
	if bad {
		o.bad[i]++
	}
}

// sloRows are the objectives of a series and how its probes meet them.
func sloRows() []row {
	all := series.ObjectiveNames()
	of := func(name string, first, end series.Objective, get func(o *slo, i series.Objective) float64) row {
		return row{Name: name, Label: "slo", Values: all[first:end], Value: func(s *Series, i int) float64 {
			if o := first + series.Objective(i); s.slo != nil && s.slo.HasOf(o, s.kind) {
				return get(s.slo, o)
			}
			return math.NaN()
		}}
	}
	return []row{
		of("probe_slo_eligible_total", 0, series.NumObjectives, func(o *slo, i series.Objective) float64 { return float64(o.eligible[i]) }),
		of("probe_slo_bad_total", 0, series.NumObjectives, func(o *slo, i series.Objective) float64 { return float64(o.bad[i]) }),
		of("slo_threshold_seconds", series.TTFT, series.Fluidity, func(o *slo, i series.Objective) float64 { return o.Limit(i).Seconds() }),
		of("slo_objective_ratio", 0, series.NumObjectives, func(o *slo, _ series.Objective) float64 { return o.Share }),
	}
}

// windowRows are statistics of the time to first token over the last hour.
func windowRows() []row {
	of := func(get func(w series.Window, i int) float64) func(s *Series, i int) float64 {
		return func(s *Series, i int) float64 {
			return workload.Part(s.slo, func(o *slo) float64 { return get(o.log.Window(s.store.now()), i) })
		}
	}
	return []row{
		{
			Name: "probe_ttft_window_seconds", Label: "stat", Values: series.WindowStats(),
			Value: of(func(w series.Window, i int) float64 { return w.Seconds[i] }),
		},
		{Name: "probe_ttft_window_samples", Value: of(func(w series.Window, _ int) float64 { return float64(w.Samples) })},
	}
}
