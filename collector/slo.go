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
	all := series.ObjectiveNames()
	of := func(name string, first, end series.Objective, get func(o *slo, i series.Objective) float64) row {
		return row{Name: name, Label: "slo", Values: all[first:end], Value: func(v *values, i int) float64 {
			if o := first + series.Objective(i); v.slo != nil && v.slo.has(o, v.kind) {
				return get(v.slo, o)
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
	return []row{
		{
			Name: "probe_ttft_window_seconds", Label: "stat", Values: series.WindowStats(),
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
			Value: func(v *values, _ int) float64 {
				return workload.Part(v.slo, func(o *slo) float64 { return float64(o.log.Window(v.now()).Samples) })
			},
		},
	}
}
