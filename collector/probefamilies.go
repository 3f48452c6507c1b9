package collector

import (
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Classic bounds in seconds. Every limit of MLPerf Inference on TTFT and TPOT
// and the common objectives of the field are among them, so that ratios against
// those are exact.
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

// probeFamily is a family of the series of probes.
type probeFamily = familyOf[*values]

// probeFamilies returns the per-probe families in the order of the
// documentation. A family that is here is exposed and documented.
func probeFamilies() []*probeFamily {
	generation, vectors := []api.Kind{api.Generation}, []api.Kind{api.Embedding, api.Rerank}
	all := stateFamilies()
	all = append(all, sloFamilies()...)
	all = append(all, of(generation, windowFamilies()...)...)
	all = append(all, durationFamilies()...)
	all = append(all, of(generation, latencyFamilies()...)...)
	all = append(all, of(generation, lastFamilies()...)...)
	all = append(all, promptTokensFamily())
	all = append(all, of(generation, tokenFamilies()...)...)
	all = append(all, costFamily())
	all = append(all, of(generation, checksFamily())...)
	all = append(all, untimedFamilies()...)
	all = append(all, of(generation, accuracyFamilies()...)...)
	return append(all, of(vectors, vectorFamilies()...)...)
}

// stateFamilies are how probes end.
func stateFamilies() []*probeFamily {
	return []*probeFamily{
		probeGauge("probe_success", "",
			"1 if the latest probe succeeded, 0 if not. A canceled probe changes nothing.",
			func(v *values) gauge { return v.success }),
		probeGauge("probe_last_run_timestamp_seconds", "seconds",
			"Unix time at which the latest probe with a result was started; 0 before the first. A canceled probe changes nothing.",
			func(v *values) gauge { return v.lastRun }),
		probeGauge("probe_last_success_timestamp_seconds", "seconds",
			"Unix time at which the latest successful probe was started; 0 before the first success.",
			func(v *values) gauge { return v.lastSuccess }),
		probeGauge("probe_interval_seconds", "seconds",
			"Time from the start of a probe to that of the next, as configured. With none for three times as long the endpoint is not watched.",
			func(v *values) gauge { return v.interval }),
		probeGauge("probe_timeout_seconds", "seconds",
			"Longest time that a probe may take, as configured.",
			func(v *values) gauge { return v.timeout }),
		probeGauge("probe_configured_timestamp_seconds", "seconds",
			"Unix time since which the exporter is to probe the endpoint with the module: its own start, or the change of configuration or discovery that added or changed them.",
			func(v *values) gauge { return v.configured }),
		probeCounters("probe_results_total", "outcome", labelValues(result.Outcomes()),
			"Probes by how they ended. Canceled ones, which the exporter ended itself (shutdown, reload, or a confirmation of a failure when the next probe was due), count neither for nor against an endpoint.",
			func(v *values) []uint64 { return v.results }),
		probeCounters("probe_skipped_total", "reason", labelValues(result.SkipReasons()),
			"Probes that were due and did not run: the one before was still going (overrun), the server asked to wait or let two probes in a row time out (backoff), too many were in flight (limit), a budget would have been exceeded (budget), the model's context has no room for it (context_length), the server lists several models and the configuration names none (model_not_set), it truncates the prompt (prompt_truncated), or the exporter lacks descriptors, memory or ports (resources).",
			func(v *values) []uint64 { return v.skipped }),
		probeGauges("probe_rate_limit_remaining", "resource", []string{"requests", "tokens"},
			"Quota left, as the reply of the latest probe told. Absent if it did not tell.",
			func(v *values) []gauge { return v.rateLimit[:] }),
		probeGauge("probe_tls_cert_not_after_timestamp_seconds", "seconds",
			"Unix time at which the first certificate of the server's chain expires. Absent without TLS.",
			func(v *values) gauge { return v.certNotAfter }),
	}
}

// durationFamilies are the distributions of whole probes and their parts.
func durationFamilies() []*probeFamily {
	return []*probeFamily{
		probeHistogram("probe_duration_seconds", durationBounds,
			"Duration of successful probes: from issuing the request, connection set-up included, to the end of the reply.",
			func(v *values) *histogram { return &v.duration }),
		probeSummary("probe_phase_seconds", phaseNames(),
			"Consecutive parts of the duration of successful probes. first_byte is from the request sent to the first byte of the reply, first_token from there to the first token, decode to the last token, close to the end.",
			func(v *values) []summary { return v.phases[:] }, isPhaseOfAll),
		probeSummary("probe_server_time_seconds", []string{"queue", "prefill", "decode"},
			"The server's own account of its time for successful probes, as the reply tells. Absent until it does.",
			func(v *values) []summary { return v.server[:] }, func(int) bool { return false }),
	}
}

// latencyFamilies are the distributions of tokens that come one by one.
func latencyFamilies() []*probeFamily {
	return []*probeFamily{
		probeHistogram("probe_ttft_seconds", ttftBounds,
			"Time to first token of successful probes: from the start of the request on a ready connection to the first event with generated material of any kind, reasoning included.",
			func(v *values) *histogram { return &v.ttft }),
		probeHistogram("probe_ttfo_seconds", ttftBounds,
			"Time to first output of successful probes: as TTFT, but to the first event that a user sees, reasoning excluded.",
			func(v *values) *histogram { return &v.ttfo }),
		probeHistogram("probe_tpot_seconds", tpotBounds,
			"Time per output token of successful probes: from the first to the last token event, divided by the tokens after the first event. Where reasoning tokens left no events, or a summary instead, from the first to the last event of the answer, by its tokens alone. One observation for each probe of which these are known.",
			func(v *values) *histogram { return &v.tpot }),
		probeHistogram("probe_inter_chunk_seconds", gapBounds,
			"Time between neighbouring token events of successful probes, not divided by tokens. Gaps beside a merged event are left out.",
			func(v *values) *histogram { return &v.interChunk }),
		probeHistogram("probe_max_gap_seconds", gapBounds,
			"Longest time between two token events of a successful probe. One observation for each probe.",
			func(v *values) *histogram { return &v.maxGap }),
	}
}

// lastFamilies are the gauges of the latest success.
func lastFamilies() []*probeFamily {
	return []*probeFamily{
		probeGauge("probe_last_ttft_seconds", "seconds",
			"Time to first token of the latest probe. Absent after a failure, and where it is not known.",
			func(v *values) gauge { return v.lastTTFT }),
		probeGauge("probe_last_tpot_seconds", "seconds",
			"Time per output token of the latest probe, as inference_probe_tpot_seconds. Absent after a failure, and where it is not known.",
			func(v *values) gauge { return v.lastTPOT }),
		probeGauge("probe_last_output_tokens_per_second", "tokens_per_second",
			"Output speed that the latest probe saw as one user: 1 / TPOT. Absent where inference_probe_last_tpot_seconds is.",
			func(v *values) gauge { return v.lastSpeed }),
	}
}

// promptTokensFamily is what all kinds are asked.
func promptTokensFamily() *probeFamily {
	return probeCounter("probe_prompt_tokens_total", "tokens",
		"Prompt tokens as the server counted them, cached ones included, of probes with any outcome.",
		func(v *values) (uint64, bool) { return v.promptTokens, true })
}

// untimedFamilies count probes of all kinds whose latencies count nowhere.
func untimedFamilies() []*probeFamily {
	return []*probeFamily{
		probeCounter("probe_imprecise_total", "",
			"Probes whose latencies the exporter cannot vouch for: it was too busy, its clock too unsteady, or the reply compressed. They are in no latency, window or objective, but for availability.",
			func(v *values) (uint64, bool) { return v.imprecise, true }),
		probeCounter("probe_disturbed_total", "",
			"Probes during which the exporter itself put a burst of requests on the endpoint. They are in no latency, window or objective.",
			func(v *values) (uint64, bool) { return v.disturbed, true }),
	}
}

// vectorFamilies are what embedding and rerank endpoints answer.
func vectorFamilies() []*probeFamily {
	return []*probeFamily{
		probeCounter("probe_items_total", "",
			"Texts that were embedded or ranked by successful probes.",
			func(v *values) (uint64, bool) { return v.items, true }),
		probeGauge("probe_last_items_per_second", "items_per_second",
			"Texts by duration of the latest probe, connection set-up left out. Absent after a failure.",
			func(v *values) gauge { return v.lastItems }),
		probeGauge("probe_last_input_tokens_per_second", "tokens_per_second",
			"Input tokens by duration of the latest probe, connection set-up left out. Absent after a failure, and where the server does not count tokens.",
			func(v *values) gauge { return v.lastInput }),
		probeGauge("probe_vector_dimensions", "",
			"Length of each vector that the latest probe got. Absent after a failure, and for scores.",
			func(v *values) gauge { return v.dimensions }),
		probeGauge("probe_vector_norm", "",
			"Mean Euclidean norm of the vectors that the latest probe got; 1 where the server normalises. Absent after a failure, and for scores.",
			func(v *values) gauge { return v.norm }),
	}
}

// tokenFamilies are the token counts of answers.
func tokenFamilies() []*probeFamily {
	return []*probeFamily{
		probeCounter("probe_cached_prompt_tokens_total", "tokens",
			"Prompt tokens that came from the server's prefix cache. Absent until the server reports it.",
			func(v *values) (uint64, bool) { return v.cachedTokens, v.cachedReported }),
		outputTokensFamily(),
		probeCounters("probe_token_source_total", "source", labelValues(result.TokenSources()),
			"Probes by where their count of output tokens comes from: the server's usage, or the number of token events where it reports none.",
			func(v *values) []uint64 { return v.tokenSources[:] }),
	}
}

// accuracyFamilies tell how far the numbers can be trusted.
func accuracyFamilies() []*probeFamily {
	return []*probeFamily{
		probeCounter("probe_merged_events_total", "",
			"Token events whose measured arrival is only an upper bound: a later one shared their read, or other data did and the exporter was late to read.",
			func(v *values) (uint64, bool) { return v.mergedEvents, true }),
		probeCounter("probe_no_end_marker_total", "",
			"Successful probes whose reply ended without its protocol's end marker, such as [DONE]: some clients wait for it.",
			func(v *values) (uint64, bool) { return v.noEndMarker, true }),
		probeCounter("probe_no_finish_reason_total", "",
			"Successful probes whose reply has no finish reason, where real servers of the protocol leave it out: whether their answers are whole is not certain.",
			func(v *values) (uint64, bool) { return v.noFinish, true }),
		probeCounter("probe_more_events_than_tokens_total", "",
			"Successful probes with more token events than tokens: some are no tokens, such as what a gateway streams while a model is loaded. Unless all that may be the first token came at one moment, TTFT, TPOT and the gaps of such a probe are absent, and it counts for no objective on them.",
			func(v *values) (uint64, bool) { return v.moreEvents, true }),
		probeCounter("probe_buffered_total", "",
			"Probes whose whole answer came in one burst: something between held the stream back.",
			func(v *values) (uint64, bool) { return v.buffer, true }),
	}
}

// outputTokensFamily has a reasoning part only where the server reports one.
func outputTokensFamily() *probeFamily {
	return newProbeFamily(Family{
		Name: "probe_output_tokens_total", Type: Counter, Unit: "tokens",
		Labels: []string{"kind"}, Values: []string{"answer", "reasoning"},
		Help: "Output tokens of probes with any outcome. Where the server does not report reasoning tokens, kind reasoning is absent and answer is everything.",
	}, nil, func(e encoder, _ *family, v *values) {
		e.counter(outputAnswer, float64(v.outputTokens[outputAnswer]))
		if v.reasoningReported {
			e.counter(outputReasoning, float64(v.outputTokens[outputReasoning]))
		}
	})
}

// sizeLabels are the labels that only some series have: the lengths those of a
// module that asks with several, and the number of requests those of bursts.
func sizeLabels() []string { return []string{"input_tokens", "output_tokens", "concurrency"} }

// newProbeFamily returns a family with the labels of every probe family.
func newProbeFamily(f Family, bounds []float64, emit func(e encoder, f *family, v *values)) *probeFamily {
	f.Group = GroupProbe
	return &probeFamily{newFamily(f, append([]string{"endpoint", "model", "module", "prefix"}, sizeLabels()...), bounds), emit}
}

// probeGauge returns a family of one gauge for each series.
func probeGauge(name, unit, help string, get func(v *values) gauge) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Gauge, Unit: unit, Help: help}, nil,
		func(e encoder, _ *family, v *values) {
			if g := get(v); g.present {
				e.gauge(0, g.value)
			}
		})
}

// probeGauges returns a family of one gauge for each value of a label.
func probeGauges(name, label string, set []string, help string, get func(v *values) []gauge) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Gauge, Labels: []string{label}, Values: set, Help: help}, nil,
		func(e encoder, f *family, v *values) {
			all := get(v)
			for _, i := range f.order {
				if all[i].present {
					e.gauge(i, all[i].value)
				}
			}
		})
}

// probeCounter returns a family of one counter for each series, which get may
// call absent.
func probeCounter(name, unit, help string, get func(v *values) (n uint64, present bool)) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Counter, Unit: unit, Help: help}, nil,
		func(e encoder, _ *family, v *values) {
			if n, present := get(v); present {
				e.counter(0, float64(n))
			}
		})
}

// probeCounters returns a family of one counter for each value of a label.
func probeCounters(name, label string, set []string, help string, get func(v *values) []uint64) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Counter, Labels: []string{label}, Values: set, Help: help}, nil,
		func(e encoder, f *family, v *values) {
			all := get(v)
			for _, i := range f.order {
				e.counter(i, float64(all[i]))
			}
		})
}

// probeHistogram returns a family of one histogram in seconds for each series.
func probeHistogram(name string, bounds []float64, help string, get func(v *values) *histogram) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Histogram, Unit: "seconds", Help: help}, bounds,
		func(e encoder, _ *family, v *values) { e.histogram(get(v)) })
}

// probeSummary returns a family of one summary in seconds for each phase,
// some of them only once they have an observation.
func probeSummary(name string, phases []string, help string, get func(v *values) []summary, showEmpty func(i int) bool) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Summary, Unit: "seconds", Labels: []string{"phase"}, Values: phases, Help: help}, nil,
		func(e encoder, f *family, v *values) {
			all := get(v)
			for _, i := range f.order {
				if showEmpty(i) || all[i].count > 0 {
					e.summary(i, &all[i])
				}
			}
		})
}

// isPhaseOfAll tells whether probes of all kinds go through a phase.
func isPhaseOfAll(i int) bool {
	return result.Phase(i) != result.PhaseFirstToken && result.Phase(i) != result.PhaseDecode
}

// phaseNames returns the names of the phases in order.
func phaseNames() []string {
	names := make([]string, 0, result.NumPhases)
	for p := range result.NumPhases {
		names = append(names, p.String())
	}
	return names
}

// labelValues returns a closed set as strings.
func labelValues[T ~string](set []T) []string {
	out := make([]string, len(set))
	for i, v := range set {
		out[i] = string(v)
	}
	return out
}
