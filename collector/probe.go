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

// probeFamilies returns the families of the series of probes in the order of the
// documentation. A family that is here is counted, exposed and documented.
func probeFamilies() []*probeFamily {
	generation, vectors := []api.Kind{api.Generation}, []api.Kind{api.Embedding, api.Rerank}
	return slices.Concat(
		newRows(nil, slices.Concat(stateRows(), sloRows())...),
		newRows(generation, windowRows()...),
		newRows(nil, durationRows()...),
		newRows(generation, slices.Concat(latencyRows(), lastRows())...),
		newRows(nil, row{Name: "probe_prompt_tokens_total", On: onTokens, Count: func(p *probe, _ int) int { return p.tokens.Prompt }}),
		newRows(generation, tokenRows()...),
		newRows(nil, costRow()),
		newRows(generation, stepRows()...),
		newRows(nil, ofStep("probe_step_timestamp_seconds", series.Metrics(), func(s *series.Step) float64 { return workload.Unix(s.At) })),
		newRows(generation, slices.Concat(smoothnessRows(), streamRows(), waitingRows(), []row{checksRow()}, callRows())...),
		newRows(nil, untimedRows()...),
		newRows(generation, flawRows()...),
		newRows(vectors, vectorRows()...),
	)
}

// sizeLabels are the labels that only some series have: the lengths those of a
// module that asks with several, and the number of requests those of bursts.
func sizeLabels() []string { return []string{"input_tokens", "output_tokens", "concurrency"} }

// isPeriodic reports whether the series is of probes that come at an interval.
func isPeriodic(o *SeriesOptions, _ int) bool { return o.Interval > 0 }

// stateRows are how probes end.
func stateRows() []row {
	outcomes, reasons, sides := result.Outcomes(), result.SkipReasons(), result.Sides()
	return []row{
		{Name: "probe_success", Gauge: ofLatest(func(p *probe) float64 { return workload.Number(p.ok) })},
		{Name: "probe_last_run_timestamp_seconds", FromZero: true, Gauge: ofLatest(func(p *probe) float64 { return workload.Unix(p.Start) })},
		{
			Name: "probe_last_success_timestamp_seconds", FromZero: true,
			Gauge: func(p *probe, _ int, before float64) float64 {
				if !p.ok {
					return before
				}
				return workload.Unix(p.Start)
			},
		},
		{Name: "probe_interval_seconds", Has: isPeriodic, Value: func(s *Series, _ int) float64 { return s.options.Interval.Seconds() }},
		{Name: "probe_timeout_seconds", Has: isPeriodic, Value: func(s *Series, _ int) float64 { return s.options.Timeout.Seconds() }},
		{Name: "probe_configured_timestamp_seconds", Has: isPeriodic, Value: func(s *Series, _ int) float64 { return workload.Unix(s.options.since) }},
		{
			Name: "probe_results_total", Label: "outcome", Values: config.Texts(outcomes), On: onProbe | onCancel, Flaw: true,
			Count: func(p *probe, i int) int { return one(p.Outcome == outcomes[i]) },
		},
		{
			Name: "probe_skipped_total", Label: "reason", Values: config.Texts(reasons), On: onSkip, Flaw: true,
			Count: func(p *probe, i int) int { return one(p.skipped == reasons[i]) },
		},
		{
			Name: "probe_stalls_total", Label: "side", Values: config.Texts(sides), Late: late,
			Count: func(p *probe, i int) int {
				if p.Stall == nil { // absent until there is one
					return api.Unknown
				}
				return one(p.Stall.Side == sides[i])
			},
		},
		{
			Name: "probe_rate_limit_remaining", Label: "resource", Values: []string{"requests", "tokens"},
			Gauge: func(p *probe, i int, _ float64) float64 {
				return orAbsent(float64([]int{p.RateLimit.Requests, p.RateLimit.Tokens}[i]))
			},
		},
		{
			Name: "probe_tls_cert_not_after_timestamp_seconds",
			Gauge: func(p *probe, _ int, before float64) float64 { // an outage does not hide the expiry
				switch {
				case !p.CertNotAfter.IsZero():
					return workload.Unix(p.CertNotAfter)
				case p.Status != 0:
					return math.NaN()
				}
				return before
			},
		},
	}
}

// maxTokens is more tokens than one probe has of any kind. A count above it is no
// count: counters must not lose their precision or fall.
const maxTokens = 1 << 32

// believed returns the counts without those that cannot be.
func believed(t result.Tokens) result.Tokens {
	for _, n := range []*int{&t.Prompt, &t.Cached, &t.Output, &t.Reasoning} {
		if *n > maxTokens {
			*n = api.Unknown
		}
	}
	return t
}

// Indexes of what tokens are paid for as.
const costInput, costCachedInput, costOutput, numCosts = 0, 1, 2, 3

// costKinds lists the label values in the order of the indexes.
func costKinds() []string { return []string{"input", "cached_input", "output"} }

// pricedTokens is how many tokens a price is for. Amounts are divided by it only
// when they are shown, so that rounding errors do not add up.
const pricedTokens = 1e6

// tokenPrices returns prices as costKinds lists them, NaN for none. Cached input may be free
// where input is not; a price of 0 of anything else is none.
func tokenPrices(p config.Prices) [numCosts]float64 {
	cached := p.CachedInput
	if p.Input <= 0 {
		cached = math.NaN()
	}
	return [numCosts]float64{costInput: workload.Positive(p.Input), costCachedInput: cached, costOutput: workload.Positive(p.Output)}
}

// costRow is what the probes cost. Where the tokens of the prompt are not known, the part that is would look like the
// whole. Those that are not known to come from the cache have the full price.
func costRow() row {
	return row{
		Name: "probe_cost_usd_total", Label: "kind", Values: costKinds(), On: onTokens,
		Has: func(o *SeriesOptions, i int) bool {
			return o.Price.PerToken() && !math.IsNaN(tokenPrices(o.Price.InUSD())[i])
		},
		Sum: func(p *probe, i int) float64 {
			t := &p.tokens
			price := tokenPrices(p.options.Price.At(p.Start).InUSD())[i]
			if t.Prompt < 0 || math.IsNaN(price) {
				return 0
			}
			cached := min(max(0, t.Cached), t.Prompt)
			n := [numCosts]int{costInput: t.Prompt - cached, costCachedInput: cached, costOutput: max(0, t.Output)}[i]
			return float64(n) * price
		},
		Per: pricedTokens,
	}
}

func tokenRows() []row {
	sources := result.TokenSources()
	return []row{
		{Name: "probe_cached_prompt_tokens_total", Late: late, On: onTokens, Count: func(p *probe, _ int) int { return p.tokens.Cached }},
		{
			Name: "probe_output_tokens_total", Label: "kind", Values: []string{"answer", "reasoning"}, On: onTokens,
			Late: func(i int) bool { return i == 1 },
			Count: func(p *probe, i int) int {
				reasoning := min(p.tokens.Reasoning, p.tokens.Output)
				if i == 1 {
					return reasoning
				}
				return p.tokens.Output - max(0, reasoning)
			},
		},
		{Name: "probe_output_characters_total", On: onTokens, Count: func(p *probe, _ int) int { return p.Characters }},
		{
			Name: "probe_token_source_total", Label: "source", Values: config.Texts(sources), On: onTokens, Flaw: true,
			Count: func(p *probe, i int) int { return one(p.tokens.Output >= 0 && p.tokens.Source == sources[i]) },
		},
	}
}

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
	fluid := func(get func(o *slo) float64) func(s *Series, _ int) float64 {
		return func(s *Series, _ int) float64 {
			if s.slo == nil || !s.slo.HasOf(series.Fluidity, s.kind) {
				return math.NaN()
			}
			return get(s.slo)
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
	s.steps = append(slices.DeleteFunc(s.steps, func(other series.Step) bool { return other.Metric == step.Metric }), step)
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

// ofStep returns a row of the latest step of each metric.
func ofStep(name string, metrics []series.Metric, get func(s *series.Step) float64) row {
	return row{Name: name, Label: "metric", Values: config.Texts(metrics), Value: func(s *Series, i int) float64 {
		j := slices.IndexFunc(s.steps, func(step series.Step) bool { return step.Metric == metrics[i] })
		if j < 0 {
			return math.NaN()
		}
		return get(&s.steps[j])
	}}
}
