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
		Has:   func(o *SeriesOptions, i int) bool { return slices.Contains(o.Verdicts, verdicts[i]) },
		Count: func(p *probe, i int) int { return one(p.Answer.Verdict == verdicts[i]) },
	}
}

// callRows are when the calls come that modules with tool_call ask for.
func callRows() []row {
	call := func(name string, get func(c *result.Call) time.Duration) row {
		return row{
			Name: name, Bounds: ttftBounds,
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
		call("probe_first_argument_seconds", func(c *result.Call) time.Duration { return c.FirstArgument }),
		call("probe_complete_call_seconds", func(c *result.Call) time.Duration { return c.Complete }),
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
	perSecond := func(name string, count func(p *probe) int) row {
		return row{Name: name, Gauge: ofLatest(func(p *probe) float64 { return p.perSecond(count(p), p.Timing.RequestDuration()) })}
	}
	return []row{
		{Name: "probe_items_total", Count: func(p *probe, _ int) int { return one(p.ok) * p.Vectors.Items }},
		perSecond("probe_last_items_per_second", func(p *probe) int { return p.Vectors.Items }),
		perSecond("probe_last_input_tokens_per_second", func(p *probe) int { return one(p.Vectors.Items > 0) * p.Tokens.Prompt }),
		{Name: "probe_vector_dimensions", Gauge: ofVectors(func(p *probe) float64 { return float64(p.Vectors.Dimensions) })},
		{Name: "probe_vector_norm", Gauge: ofVectors(func(p *probe) float64 { return p.Vectors.Norm })},
	}
}

// flawRows show how reliable the values are, and what answers lack.
func flawRows() []row {
	return []row{
		{Name: "probe_merged_events_total", Flaw: true, Count: func(p *probe, _ int) int { return p.MergedEvents() }},
		flaw("probe_no_end_marker_total", func(p *probe) bool { return p.ok && p.NoEndMarker }),
		flaw("probe_no_finish_reason_total", func(p *probe) bool { return p.ok && p.NoFinish }),
		flaw("probe_more_events_than_tokens_total", func(p *probe) bool { return p.ok && p.MoreEvents }),
		flaw("probe_max_tokens_ignored_total", func(p *probe) bool { return p.MaxTokensIgnored }),
		{Name: "probe_buffered_total", Count: func(p *probe, _ int) int { return one(p.Buffered) }},
	}
}

// The tokens for each event of a stream from which it is taken that the server sends several at once: 6/5. Ends of
// texts and characters of several tokens leave fewer events than tokens on any server.
const manyTokens, perEvents = 6, 5

// streamRows are how many tokens come at once. They begin with the first stream of which an event has several.
func streamRows() []row {
	count := func(name string, get func(tokens, events int) int) row {
		return row{
			Name: name, Late: late,
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
		count("probe_streamed_tokens_total", func(tokens, _ int) int { return tokens }),
		count("probe_streamed_events_total", func(_, events int) int { return events }),
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
		{Name: "slo_fluidity_ratio", Value: fluid(func(o *slo) float64 { return o.Fluidity })},
		{Name: "probe_token_deadlines_total", Value: fluid(func(o *slo) float64 { return float64(o.deadlines.Total) })},
		{Name: "probe_token_deadlines_missed_total", Value: fluid(func(o *slo) float64 { return float64(o.deadlines.Missed) })},
	}
}

// waitingRows count the users who waited while a probe did.
func waitingRows() []row {
	return []row{{
		Name: "probe_waiting_total", On: onWait,
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
		ofStep("probe_step_ratio", latencies, func(s *series.Step) float64 { return s.After / s.Before }),
		ofStep("probe_step_ratio_lower", latencies, func(s *series.Step) float64 { return s.Lower }),
		ofStep("probe_step_ratio_upper", latencies, func(s *series.Step) float64 { return s.Upper }),
	}
}

// stepTimeRow is when latencies and failures last changed.
func stepTimeRow() row {
	return ofStep("probe_step_timestamp_seconds", series.Metrics(), func(s *series.Step) float64 { return workload.Unix(s.At) })
}

// ofStep returns a row of the latest step of each metric.
func ofStep(name string, metrics []series.Metric, get func(s *series.Step) float64) row {
	return row{Name: name, Label: "metric", Values: config.Texts(metrics), Value: func(v *values, i int) float64 {
		j := slices.IndexFunc(v.steps, func(s series.Step) bool { return s.Metric == metrics[i] })
		if j < 0 {
			return math.NaN()
		}
		return get(&v.steps[j])
	}}
}
