package collector

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// checksRow is what the checked answers came to. A series has those verdicts that its answers may have.
func checksRow() row {
	verdicts := result.Verdicts()
	return row{
		Name: "probe_checks_total", Label: "verdict", Values: config.Texts(verdicts),
		Help: "Answers by the verdict of their check. Absent for modules without a check.",
		Notes: "As expected (correct), correct form but other content (wrong), other form, length, language or finish reason (wrong_format), refused by the model (refused), or repeating itself in a loop (repetition). " +
			"Modules with tool_call or structured have verdicts of their own: a call or an answer that meets the schema (valid), that is not JSON (bad_json), does not meet the schema (bad_schema), calls another function (wrong_tool), calls none (no_call), has the call in its text (leaked_into_content), or ends before its JSON does (truncated). " +
			"Probes without an answer have no verdict.",
		Has:   func(o *SeriesOptions, i int) bool { return slices.Contains(o.Verdicts, verdicts[i]) },
		Count: func(p *probe, i int) int { return one(p.Answer.Verdict == verdicts[i]) },
	}
}

// callRows are when the calls come that modules with tool_call ask for.
func callRows() []row {
	call := func(name, help string, get func(c *result.Call) time.Duration) row {
		return row{
			Name: name, Unit: "seconds", Bounds: ttftBounds, Help: help,
			Has: func(o *SeriesOptions, _ int) bool { return o.Calls },
			Time: func(p *probe, _ int) time.Duration {
				if p.Call.Complete <= 0 {
					return result.Absent
				}
				return get(&p.Call)
			},
		}
	}
	return []row{
		call("probe_first_argument_seconds",
			"Time to the first piece of the arguments of a valid tool call: from the start of the request on a ready connection. What TTFT is to text: before it come reasoning, text and the name of the tool. Only for modules with tool_call.",
			func(c *result.Call) time.Duration { return c.FirstArgument }),
		call("probe_complete_call_seconds",
			"Time to the last piece of the arguments of a valid tool call: from the start of the request on a ready connection. An agent cannot run the tool before. Only for modules with tool_call.",
			func(c *result.Call) time.Duration { return c.Complete }),
	}
}

// vectorRows are what embedding and rerank endpoints answer. Their speed is that of the
// request: setting up the connection is not the model's work.
func vectorRows() []row {
	ofVectors := func(get func(p *probe) float64) func(p *probe, _ int, _ float64) float64 {
		return ofLatest(func(p *probe) float64 {
			if !p.ok || p.Vectors.Items == 0 || p.Vectors.Dimensions <= 0 {
				return math.NaN()
			}
			return get(p)
		})
	}
	return []row{
		{
			Name:  "probe_items_total",
			Help:  "Texts embedded or ranked by successful probes.",
			Count: func(p *probe, _ int) int { return one(p.ok) * p.Vectors.Items },
		},
		{
			Name: "probe_last_items_per_second", Unit: "items_per_second",
			Help:  "Texts per second of the latest probe, excluding connection set-up. Absent after a failure.",
			Gauge: ofLatest(func(p *probe) float64 { return p.perSecond(p.Vectors.Items, p.Timing.RequestDuration()) }),
		},
		{
			Name: "probe_last_input_tokens_per_second", Unit: "tokens_per_second",
			Help: "Input tokens per second of the latest probe, excluding connection set-up. Absent after a failure and if the server does not count tokens.",
			Gauge: ofLatest(func(p *probe) float64 {
				return p.perSecond(one(p.Vectors.Items > 0)*p.Tokens.Prompt, p.Timing.RequestDuration())
			}),
		},
		{
			Name:  "probe_vector_dimensions",
			Help:  "Dimensions of the vectors that the latest probe received. Absent after a failure and for scores.",
			Gauge: ofVectors(func(p *probe) float64 { return float64(p.Vectors.Dimensions) }),
		},
		{
			Name:  "probe_vector_norm",
			Help:  "Mean Euclidean norm of the vectors that the latest probe got; 1 where the server normalises. Absent after a failure, and for scores.",
			Gauge: ofVectors(func(p *probe) float64 { return p.Vectors.Norm }),
		},
	}
}

// flawRows show how reliable the values are, and what answers lack.
func flawRows() []row {
	return []row{
		{
			Name: "probe_merged_events_total", Flaw: true,
			Help:  "Token events whose measured arrival time is only an upper bound: they were read together with a later token event, or with other data while the exporter read late.",
			Count: func(p *probe, _ int) int { return p.MergedEvents() },
		},
		flaw("probe_no_end_marker_total",
			"Successful probes whose reply ended without the end marker of the protocol, such as [DONE], for which some clients wait.",
			func(p *probe) bool { return p.ok && p.NoEndMarker }),
		flaw("probe_no_finish_reason_total",
			"Successful probes whose reply has no finish reason, in protocols whose servers are known to omit it: the answers may be incomplete.",
			func(p *probe) bool { return p.ok && p.NoFinish }),
		{
			Name: "probe_more_events_than_tokens_total", Flaw: true,
			Help:  "Successful probes with more token events than tokens: some events are not tokens, for example messages that a gateway streams while it loads a model.",
			Notes: "TTFT, TPOT and gaps of such a probe are not observed and count for no objective, unless all candidates for the first token arrived at the same time, or at the pace of the rest.",
			Count: func(p *probe, _ int) int { return one(p.ok && p.MoreEvents) },
		},
		flaw("probe_max_tokens_ignored_total",
			"Probes whose answer has more tokens than the request allowed, by over a quarter and 16: the server ignores max_tokens, so that a probe costs more than the module says. Only for generation.",
			func(p *probe) bool { return p.MaxTokensIgnored }),
		{
			Name:  "probe_buffered_total",
			Help:  "Probes whose whole answer arrived at once: a proxy between the exporter and the server buffers the stream.",
			Count: func(p *probe, _ int) int { return one(p.Buffered) },
		},
	}
}

// The tokens for each event of a stream from which it is taken that the server sends several at once: 6/5. Ends of
// texts and characters of several tokens leave fewer events than tokens on any server.
const manyTokens, perEvents = 6, 5

// streamRows are how many tokens come at once. They begin with the first stream of which an event has several.
func streamRows() []row {
	count := func(name, help string, get func(tokens, events int) int) row {
		return row{
			Name: name, Help: help, Late: late,
			Since: func(p *probe) bool {
				tokens, events := p.EventTokens()
				return events > 0 && perEvents*tokens >= manyTokens*events
			},
			Count: func(p *probe, _ int) int {
				if !p.timed {
					return api.Unknown
				}
				return get(p.EventTokens())
			},
		}
	}
	return []row{
		count("probe_streamed_tokens_total",
			"Output tokens, by the server's count, after the first event of successful probes, without streams that were buffered or that have many merged events. Divided by inference_probe_streamed_events_total, it is the tokens per event: with speculative decoding the tokens that one step of the model brings. Absent until a stream has 1.2 tokens per event.",
			func(tokens, _ int) int { return tokens }),
		count("probe_streamed_events_total",
			"Token events that brought the tokens counted by inference_probe_streamed_tokens_total.",
			func(_, events int) int { return events }),
	}
}

// smoothnessRows are how steadily tokens come.
func smoothnessRows() []row {
	fluid := func(get func(o *slo) float64) func(v *values, _ int) float64 {
		return func(v *values, _ int) float64 {
			if v.slo == nil || !v.slo.has(series.Fluidity, v.kind) {
				return math.NaN()
			}
			return get(v.slo)
		}
	}
	return []row{
		{
			Name: "slo_fluidity_ratio", Unit: "ratio",
			Help:  "Minimum fluidity of a good stream, as configured: the ratio of its token deadlines that are met. Absent without such an objective.",
			Value: fluid(func(o *slo) float64 { return o.Fluidity }),
		},
		{
			Name:  "probe_token_deadlines_total",
			Help:  "Token deadlines of the streams that count for the fluidity objective: the first token is due after the TTFT objective, each further one a TPOT objective after the deadline of the one before, or after a late token. A late token has one more deadline for each TPOT objective that it is overdue.",
			Value: fluid(func(o *slo) float64 { return float64(o.deadlines.Total) }),
		},
		{
			Name:  "probe_token_deadlines_missed_total",
			Help:  "Token deadlines of the streams that count for the fluidity objective that were missed, of those in inference_probe_token_deadlines_total.",
			Value: fluid(func(o *slo) float64 { return float64(o.deadlines.Missed) }),
		},
	}
}

// waitingRows count the users who waited while a probe did.
func waitingRows() []row {
	return []row{{
		Name: "probe_waiting_total", On: onWait,
		Help: "Probes that were due while the one before waited for its first token, and that count in inference_probe_ttft_seconds, in the window and for the TTFT objective as users who waited until that token came. Absent without correct_coordinated_omission in the objectives.",
		Has: func(o *SeriesOptions, _ int) bool {
			return o.Objectives != nil && o.Objectives.CorrectCoordinatedOmission
		},
		Count: func(*probe, int) int { return 1 },
	}}
}

// SetStep shows a step of the series, instead of an earlier one of the same metric.
func (s *Series) SetStep(step series.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values
	v.steps = append(slices.DeleteFunc(v.steps, func(other series.Step) bool { return other.Metric == step.Metric }), step)
}

// stepRows are the latest lasting changes of latencies.
func stepRows() []row {
	latencies := []series.Metric{series.MetricTTFT, series.MetricTPOT}
	return []row{
		{
			Name: "probe_step_ratio", Unit: "ratio", Label: "metric", Values: config.Texts(latencies),
			Help:  "Level of a latency after the latest step divided by the level before it: 1.2 is 20 % slower. A step is a change of at least 10 % that lasts, beyond noise and daily cycle. Absent before the first step.",
			Value: ofStep(latencies, func(s *series.Step) float64 { return s.After / s.Before }),
		},
		{
			Name: "probe_step_ratio_lower", Label: "metric", Values: config.Texts(latencies),
			Help:  "Lower bound of inference_probe_step_ratio, with 95 % confidence.",
			Value: ofStep(latencies, func(s *series.Step) float64 { return s.Lower }),
		},
		{
			Name: "probe_step_ratio_upper", Label: "metric", Values: config.Texts(latencies),
			Help:  "Upper bound of inference_probe_step_ratio, with 95 % confidence.",
			Value: ofStep(latencies, func(s *series.Step) float64 { return s.Upper }),
		},
	}
}

// stepTimeRow is when latencies and failures last changed.
func stepTimeRow() row {
	return row{
		Name: "probe_step_timestamp_seconds", Unit: "seconds", Label: "metric", Values: config.Texts(series.Metrics()),
		Help:  "Unix time of the first probe after the latest step: a lasting change of a latency (ttft, tpot) by at least 10 %, or of the share of probes that fail (failures) by at least 5 percentage points. Absent before the first step.",
		Value: ofStep(series.Metrics(), func(s *series.Step) float64 { return workload.Unix(s.At) }),
	}
}

// ofStep returns what a row shows of the latest step of each metric.
func ofStep(metrics []series.Metric, get func(s *series.Step) float64) func(v *values, i int) float64 {
	return func(v *values, i int) float64 {
		j := slices.IndexFunc(v.steps, func(s series.Step) bool { return s.Metric == metrics[i] })
		if j < 0 {
			return math.NaN()
		}
		return get(&v.steps[j])
	}
}
