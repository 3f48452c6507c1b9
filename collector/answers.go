package collector

import (
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// checks counts the answers that were checked, for each verdict that is possible.
type checks map[check.Verdict]uint64

// of returns the counters of the given verdicts, and keeps what was counted of
// them.
func (c checks) of(possible []check.Verdict) checks {
	if len(possible) == 0 {
		return nil
	}
	next := make(checks, len(possible))
	for _, verdict := range possible {
		next[verdict] = c[verdict]
	}
	return next
}

// count counts an answer.
func (c checks) count(verdict check.Verdict) {
	if _, possible := c[verdict]; possible {
		c[verdict]++
	}
}

// checksFamily is what the checked answers came to.
func checksFamily() *probeFamily {
	all := check.Verdicts()
	return newProbeFamily(Family{
		Name: "probe_checks_total", Type: Counter, Labels: []string{"verdict"}, Values: labelValues(all),
		Help: "Answers by the verdict of their check: as expected (correct), correct form but other content (wrong), other form, length, language or finish reason (wrong_format), refused by the model (refused), or repeating itself in a loop (repetition). " +
			"Modules with tool_call or structured have verdicts of their own: a call or an answer that meets the schema (valid), that is not JSON (bad_json), does not meet the schema (bad_schema), calls another function (wrong_tool), calls none (no_call), has the call in its text (leaked_into_content), or ends before its JSON does (truncated). " +
			"Probes without an answer have no verdict. Absent for modules without a check.",
	}, nil, func(e encoder, f *family, v *values) {
		for _, i := range f.order {
			if n, possible := v.checks[all[i]]; possible {
				e.counter(i, float64(n))
			}
		}
	})
}

// countFlaws counts what a success lacks.
func (v *values) countFlaws(r *result.Result) {
	if r.NoEndMarker {
		v.noEndMarker++
	}
	if r.NoFinish {
		v.noFinish++
	}
	if r.MoreEvents {
		v.moreEvents++
	}
}

// vectors is the state of a series whose endpoint embeds or ranks.
type vectors struct {
	items                                  uint64
	lastItems, lastInput, dimensions, norm gauge
}

// vectorGauge returns a gauge of the vectors; absent where there are none.
func vectorGauge(get func(v *vectors) gauge) func(v *values) gauge {
	return func(v *values) gauge {
		if v.vectors == nil {
			return gauge{}
		}
		return get(v.vectors)
	}
}

// setVectors keeps what an embedding or rerank endpoint answered. Its speed is
// that of the request: setting up the connection is not the model's work.
func (v *values) setVectors(r *result.Result, timed bool) {
	if r.Vectors.Items == 0 {
		return
	}
	if v.vectors == nil {
		v.vectors = new(vectors)
	}
	latest := v.vectors
	latest.items += uint64(r.Vectors.Items)
	if d := r.Timing.RequestDuration(); d > 0 && timed {
		latest.lastItems.set(float64(r.Vectors.Items) / d.Seconds())
		if r.Tokens.Prompt > 0 {
			latest.lastInput.set(float64(r.Tokens.Prompt) / d.Seconds())
		}
	}
	if r.Vectors.Dimensions > 0 {
		latest.dimensions.set(float64(r.Vectors.Dimensions))
		latest.norm.set(r.Vectors.Norm)
	}
}

// vectorFamilies are what embedding and rerank endpoints answer.
func vectorFamilies() []*probeFamily {
	return []*probeFamily{
		probeCounter("probe_items_total", "",
			"Texts embedded or ranked by successful probes.",
			func(v *values) (uint64, bool) {
				if v.vectors == nil {
					return 0, true
				}
				return v.vectors.items, true
			}),
		probeGauge("probe_last_items_per_second", "items_per_second",
			"Texts per second of the latest probe, excluding connection set-up. Absent after a failure.",
			vectorGauge(func(v *vectors) gauge { return v.lastItems })),
		probeGauge("probe_last_input_tokens_per_second", "tokens_per_second",
			"Input tokens per second of the latest probe, excluding connection set-up. Absent after a failure and if the server does not count tokens.",
			vectorGauge(func(v *vectors) gauge { return v.lastInput })),
		probeGauge("probe_vector_dimensions", "",
			"Dimensions of the vectors that the latest probe received. Absent after a failure and for scores.",
			vectorGauge(func(v *vectors) gauge { return v.dimensions })),
		probeGauge("probe_vector_norm", "",
			"Mean Euclidean norm of the vectors that the latest probe got; 1 where the server normalises. Absent after a failure, and for scores.",
			vectorGauge(func(v *vectors) gauge { return v.norm })),
	}
}

// accuracyFamilies show how reliable the values are.
func accuracyFamilies() []*probeFamily {
	return []*probeFamily{
		flawCounter("probe_merged_events_total",
			"Token events whose measured arrival time is only an upper bound: they were read together with a later token event, or with other data while the exporter read late.",
			func(v *values) uint64 { return v.mergedEvents }),
		flawCounter("probe_no_end_marker_total",
			"Successful probes whose reply ended without the end marker of the protocol, such as [DONE], for which some clients wait.",
			func(v *values) uint64 { return v.noEndMarker }),
		flawCounter("probe_no_finish_reason_total",
			"Successful probes whose reply has no finish reason, in protocols whose servers are known to omit it: the answers may be incomplete.",
			func(v *values) uint64 { return v.noFinish }),
		flawCounter("probe_more_events_than_tokens_total",
			"Successful probes with more token events than tokens: some events are not tokens, for example messages that a gateway streams while it loads a model. TTFT, TPOT and gaps of such a probe are not observed and count for no objective, unless all candidates for the first token arrived at the same time, or at the pace of the rest.",
			func(v *values) uint64 { return v.moreEvents }),
		flawCounter("probe_max_tokens_ignored_total",
			"Probes whose answer has more tokens than the request allowed, by over a quarter and 16: the server ignores max_tokens, so that a probe costs more than the module says. Only for generation.",
			func(v *values) uint64 { return v.capIgnored }),
		probeCounter("probe_buffered_total", "",
			"Probes whose whole answer arrived at once: a proxy between the exporter and the server buffers the stream.",
			func(v *values) (uint64, bool) { return v.buffer, true }),
	}
}
