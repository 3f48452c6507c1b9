package collector

// sloFamilies are the objectives of a series and how its probes meet them.
func sloFamilies() []*probeFamily {
	return []*probeFamily{
		sloFamily(Family{
			Name: "probe_slo_eligible_total", Type: Counter,
			Help: "Probes that count for an objective; absent for an objective that is not configured. Canceled, skipped and disturbed probes and confirmations of a failure do not count, nor do times of imprecise ones. availability: all others. ttft: those whose first token is known, and failures without one. e2e: all others. tpot: successes of which it was measured, and answers that stalled.",
		}, func(e encoder, o *slo, i int) { e.counter(i, float64(o.eligible[i])) }),
		sloFamily(Family{
			Name: "probe_slo_bad_total", Type: Counter,
			Help: "Eligible probes that missed the objective. availability: no success. ttft: no first token, or one later than the threshold. tpot: stalled, or slower than the threshold. e2e: no success, or one that took longer than the threshold.",
		}, func(e encoder, o *slo, i int) { e.counter(i, float64(o.bad[i])) }),
		thresholdFamily(),
		sloFamily(Family{
			Name: "slo_objective_ratio", Type: Gauge, Unit: "ratio",
			Help: "Share of eligible probes that must be good, as configured.",
		}, func(e encoder, o *slo, i int) { e.gauge(i, o.objective) }),
	}
}

// sloFamily returns a family with one sample for each objective of a series.
func sloFamily(f Family, emit func(e encoder, o *slo, i int)) *probeFamily {
	f.Labels, f.Values = []string{"slo"}, sloNames()
	return newProbeFamily(f, nil, func(e encoder, f *family, v *values) {
		if v.slo == nil {
			return
		}
		for _, i := range f.order {
			if v.slo.has(i, v.kind) {
				emit(e, v.slo, i)
			}
		}
	})
}

// thresholdFamily has a sample for each objective that has a threshold.
func thresholdFamily() *probeFamily {
	return newProbeFamily(Family{
		Name: "slo_threshold_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"slo"}, Values: sloNames()[sloTTFT:],
		Help: "How slow a good probe may be, as configured.",
	}, nil, func(e encoder, f *family, v *values) {
		for _, i := range f.order {
			if j := sloTTFT + i; v.slo != nil && v.slo.has(j, v.kind) {
				e.gauge(i, v.slo.thresholds[j].Seconds())
			}
		}
	})
}

// windowFamilies tell of the time to first token over the last hour.
func windowFamilies() []*probeFamily {
	return []*probeFamily{
		windowFamily(Family{
			Name: "probe_ttft_window_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"stat"}, Values: windowStats(),
			Help: "Time to first token over the last hour, or over the latest 1,024 probes where those are fewer: each value is one that was measured. Failures before the first token count as longer than any; confirmations, disturbed and imprecise probes do not count, nor those with more events than tokens. p50 needs 10 probes and p99 needs 100. p99_lower and p99_upper are bounds of the 99th percentile, each with 95 % confidence; the upper one needs 299 probes. Absent with too few, or where it falls on a failure.",
		}, func(e encoder, f *family, w *window) {
			for _, i := range f.order {
				if g := w.stat(windowStat(i)); g.present {
					e.gauge(i, g.value)
				}
			}
		}),
		windowFamily(Family{
			Name: "probe_ttft_window_samples", Type: Gauge,
			Help: "Probes behind inference_probe_ttft_window_seconds, failures before the first token included.",
		}, func(e encoder, _ *family, w *window) { e.gauge(0, float64(len(w.samples))) }),
	}
}

// windowFamily returns a family of what the window tells at the moment.
func windowFamily(f Family, emit func(e encoder, f *family, w *window)) *probeFamily {
	return newProbeFamily(f, nil, func(e encoder, f *family, v *values) {
		if v.slo == nil {
			return
		}
		v.slo.ttfts.expire(v.now())
		emit(e, f, &v.slo.ttfts)
	})
}
