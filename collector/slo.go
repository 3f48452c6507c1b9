package collector

import (
	"math"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// slo counts the probes of a series against its objectives.
type slo struct {
	*series.Objectives
	log           *series.Log
	eligible, bad [series.NumObjectives]uint64
	deadlines     result.Deadlines // of all streams that count for the fluidity
}

// newSLO begins to count, and the window with it.
func newSLO(o *series.Objectives, log *series.Log) *slo {
	log.BeginWindow()
	return &slo{Objectives: o, log: log}
}

// judge counts how a result met the objectives.
func (o *slo) judge(j series.Judgement) {
	for i := range series.NumObjectives {
		if j.Eligible.Has(i) {
			o.count(i, j.Bad.Has(i))
		}
	}
	o.deadlines = o.deadlines.Plus(j.Deadlines)
}

// count counts an eligible probe.
func (o *slo) count(i series.Objective, bad bool) {
	o.eligible[i]++
	if bad {
		o.bad[i]++
	}
}

// has reports whether there is such an objective, and whether it means something
// for endpoints of a kind. Availability is promised of all.
func (o *slo) has(i series.Objective, k api.Kind) bool {
	return o.Has(i) && (i == series.Availability || i == series.E2E || k == api.Generation)
}

// sloRows are the objectives of a series and how its probes meet them.
func sloRows() []row {
	of := func(first series.Objective, get func(o *slo, i series.Objective) float64) func(v *values, i int) float64 {
		return func(v *values, i int) float64 {
			if o := first + series.Objective(i); v.slo != nil && v.slo.has(o, v.kind) {
				return get(v.slo, o)
			}
			return math.NaN()
		}
	}
	all := series.ObjectiveNames()
	return []row{
		{
			Name: "probe_slo_eligible_total", Label: "slo", Values: all,
			Help:  "Probes that count for an objective; absent for objectives that are not configured. Canceled, skipped and disturbed probes and confirmations of failures do not count, nor do latencies of imprecise probes.",
			Notes: "availability: all others. ttft: probes with a known time to first token, failures without a first token, and with correct_coordinated_omission those of inference_probe_waiting_total. e2e: all others. tpot: successes with a measured TPOT and at least 3 output tokens, and answers that stalled. fluidity: the same, if it is known which tokens came when.",
			Value: of(0, func(o *slo, i series.Objective) float64 { return float64(o.eligible[i]) }),
		},
		{
			Name: "probe_slo_bad_total", Label: "slo", Values: all,
			Help:  "Eligible probes that missed the objective. availability: failed. ttft: no first token, or slower than the threshold. tpot: stalled, or slower than the threshold. e2e: failed, or slower than the threshold. fluidity: stalled, or fewer token deadlines met than the threshold.",
			Value: of(0, func(o *slo, i series.Objective) float64 { return float64(o.bad[i]) }),
		},
		{
			Name: "slo_threshold_seconds", Unit: "seconds", Label: "slo", Values: all[series.TTFT:series.Fluidity],
			Help:  "Maximum latency of a good probe, as configured.",
			Value: of(series.TTFT, func(o *slo, i series.Objective) float64 { return o.Limit(i).Seconds() }),
		},
		{
			Name: "slo_objective_ratio", Unit: "ratio", Label: "slo", Values: all,
			Help:  "Ratio of eligible probes that must be good, as configured.",
			Value: of(0, func(o *slo, _ series.Objective) float64 { return o.Share }),
		},
	}
}

// windowRows are statistics of the time to first token over the last hour.
func windowRows() []row {
	return []row{
		{
			Name: "probe_ttft_window_seconds", Unit: "seconds", Label: "stat", Values: series.WindowStats(),
			Help:  "Time to first token over the last hour, or over the latest 1,024 probes if those are fewer. Each value is a measured one.",
			Notes: "Failures before the first token count as slower than any success; confirmations, disturbed and imprecise probes and probes with more events than tokens do not count. With correct_coordinated_omission the waits of inference_probe_waiting_total count too. p50 needs 10 probes, p99 needs 100. p99_lower and p99_upper are bounds of the 99th percentile, each with 95 % confidence; p99_upper needs 299 probes. Absent with too few probes, or if the value falls on a failure.",
			Show: func(e encoder, f *family, v *values) {
				if v.slo == nil {
					return
				}
				w := v.slo.log.Window(v.now())
				for _, i := range f.order {
					if seconds := w.Seconds[i]; !math.IsNaN(seconds) {
						e.gauge(i, seconds)
					}
				}
			},
		},
		{
			Name: "probe_ttft_window_samples",
			Help: "Number of probes in inference_probe_ttft_window_seconds, including failures before the first token.",
			Value: func(v *values, _ int) float64 {
				return workload.Part(v.slo, func(o *slo) float64 { return float64(o.log.Window(v.now()).Samples) })
			},
		},
	}
}
