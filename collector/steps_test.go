package collector

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/estimate"
)

// The latest step of each metric is on the page, failures without a ratio; another model
// has none.
func TestSteps(t *testing.T) {
	p, s := newStore()
	s.Observe(success())
	absent := map[string]string{}
	for _, name := range []string{"probe_step_timestamp_seconds", "probe_step_ratio", "probe_step_ratio_lower", "probe_step_ratio_upper"} {
		for _, m := range []string{"ttft", "tpot", "failures"} {
			absent[name+` metric="`+m+`"`] = ""
		}
	}
	has(t, p, absent)
	step := func(m estimate.Metric, at int64, before, after float64) {
		s.SetStep(estimate.Step{At: time.Unix(at, 0), Metric: m, Before: before, After: after, Lower: 1.25, Upper: 1.75})
	}
	step(estimate.MetricTTFT, 1000, 1, 4)
	step(estimate.MetricFailures, 1500, 0, 0.5)
	step(estimate.MetricTTFT, 2000, 0.5, 0.75)
	has(t, p, map[string]string{
		`probe_step_timestamp_seconds metric="ttft"`:     "2000",
		`probe_step_timestamp_seconds metric="tpot"`:     "",
		`probe_step_timestamp_seconds metric="failures"`: "1500",
		`probe_step_ratio metric="ttft"`:                 "1.5",
		`probe_step_ratio_lower metric="ttft"`:           "1.25",
		`probe_step_ratio_upper metric="ttft"`:           "1.75",
		`probe_step_ratio metric="failures"`:             "",
	})
	r := success()
	r.Model = "other"
	s.Observe(r)
	r.Model = "m"
	s.Observe(r)
	has(t, p, absent)
}
