package collector

import (
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// SetStep shows a step of the series, instead of an earlier one of the same metric.
func (s *Series) SetStep(step estimate.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values
	v.steps = append(slices.DeleteFunc(v.steps, func(other estimate.Step) bool { return other.Metric == step.Metric }), step)
}

// stepFamilies are the latest lasting changes of latencies and failures.
func stepFamilies() []*probeFamily {
	latencies := []estimate.Metric{estimate.MetricTTFT, estimate.MetricTPOT}
	ratio := func(name, unit, help string, get func(s *estimate.Step) float64) *probeFamily {
		return stepFamily(name, unit, latencies, help, func(s *estimate.Step) gauge { return gauge{get(s), true} })
	}
	return append(of([]api.Kind{api.Generation},
		ratio("probe_step_ratio", "ratio",
			"Level of a latency after the latest step divided by the level before it: 1.2 is 20 % slower. A step is a change of at least 10 % that lasts, beyond noise and daily cycle. Absent before the first step.",
			func(s *estimate.Step) float64 { return s.After / s.Before }),
		ratio("probe_step_ratio_lower", "",
			"Lower bound of inference_probe_step_ratio, with 95 % confidence.",
			func(s *estimate.Step) float64 { return s.Lower }),
		ratio("probe_step_ratio_upper", "",
			"Upper bound of inference_probe_step_ratio, with 95 % confidence.",
			func(s *estimate.Step) float64 { return s.Upper }),
	), stepFamily("probe_step_timestamp_seconds", "seconds", estimate.Metrics(),
		"Unix time of the first probe after the latest step: a lasting change of a latency (ttft, tpot) by at least 10 %, or of the share of probes that fail (failures) by at least 5 percentage points. Absent before the first step.",
		func(s *estimate.Step) gauge { return timeGauge(s.At) }))
}

// stepFamily returns a family of one gauge for each metric that had a step.
func stepFamily(name, unit string, metrics []estimate.Metric, help string, get func(s *estimate.Step) gauge) *probeFamily {
	f := Family{Name: name, Type: Gauge, Unit: unit, Labels: []string{"metric"}, Values: labelValues(metrics), Help: help}
	return newProbeFamily(f, nil, func(e encoder, f *family, v *values) {
		for _, i := range f.order {
			j := slices.IndexFunc(v.steps, func(s estimate.Step) bool { return s.Metric == metrics[i] })
			if j >= 0 {
				emitGauge(e, i, get(&v.steps[j]))
			}
		}
	})
}
