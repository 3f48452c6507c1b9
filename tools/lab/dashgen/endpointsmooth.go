package main

// endpointSmoothness is how steadily tokens come, and how many at once.
func endpointSmoothness() []Panel {
	ratioOf := func(part, whole string) string {
		return sumRate("module", "30m", part, ofProbes) + " / (" + sumRate("module", "30m", whole, ofProbes) + " > 0)"
	}
	return []Panel{
		{
			Title: "Fluidity", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 7,
			What: "Share of the token deadlines of 30 minutes that were met, and the least of a good stream: the first token is due after the objective of TTFT, each further one after that of TPOT, and what comes early is slack.", By: ByProbe,
			Worry: "it falls while TPOT does not: answers pause.",
			Queries: []Query{
				{Expr: "1 - " + ratioOf("inference_probe_token_deadlines_missed_total", "inference_probe_token_deadlines_total"), Legend: "{{module}}"},
				{Expr: "max by (module) (" + ofProbes.of("inference_slo_fluidity_ratio") + ")", Legend: "objective {{module}}", Limit: true},
			},
			Max: ptr(1.0), NoValue: "no objective of fluidity",
		},
		{
			Title: "Tokens per event", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "Output tokens for each event of a stream, after the first one, over 30 minutes: with speculative decoding what one step of the model brings.", By: ByProbe,
			Worry:   "it falls towards 1: drafts are no longer accepted, and speculative decoding costs more than it gains.",
			Queries: []Query{{Expr: ratioOf("inference_probe_streamed_tokens_total", "inference_probe_streamed_events_total"), Legend: "{{module}}"}},
			Min:     ptr(0.0), NoValue: "no events with several tokens",
		},
	}
}
