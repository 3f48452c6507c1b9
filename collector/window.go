package collector

import (
	"math"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// windowFamilies are statistics of the time to first token over the last hour.
func windowFamilies() []*probeFamily {
	return []*probeFamily{
		windowFamily(Family{
			Name: "probe_ttft_window_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"stat"}, Values: series.WindowStats(),
			Help: "Time to first token over the last hour, or over the latest 1,024 probes if those are fewer. Each value is a measured one. Failures before the first token count as slower than any success; confirmations, disturbed and imprecise probes and probes with more events than tokens do not count. With count_waiting the waits of inference_probe_waiting_total count too. p50 needs 10 probes, p99 needs 100. p99_lower and p99_upper are bounds of the 99th percentile, each with 95 % confidence; p99_upper needs 299 probes. Absent with too few probes, or if the value falls on a failure.",
		}, func(e encoder, f *family, v *values) {
			w := v.slo.log.Window(v.now())
			for _, i := range f.order {
				if seconds := w.Seconds[i]; !math.IsNaN(seconds) {
					e.gauge(i, seconds)
				}
			}
		}),
		windowFamily(Family{
			Name: "probe_ttft_window_samples", Type: Gauge,
			Help: "Number of probes in inference_probe_ttft_window_seconds, including failures before the first token.",
		}, func(e encoder, _ *family, v *values) {
			e.gauge(0, float64(v.slo.log.WindowSamples(v.now())))
		}),
	}
}

// windowFamily returns a family of the current window.
func windowFamily(f Family, emit func(e encoder, f *family, v *values)) *probeFamily {
	return newProbeFamily(f, nil, func(e encoder, f *family, v *values) {
		if v.slo != nil {
			emit(e, f, v)
		}
	})
}
