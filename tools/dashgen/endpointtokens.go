package main

func endpointTokens() []Panel {
	return []Panel{
		{
			Title: "TPOT", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Time per output token after the first: the median over 30 minutes, one observation for each probe, and the objective.", By: ByProbe,
			Worry: "it nears the dashed line.", Alerts: []string{"InferenceTPOTDegradedNow", "InferenceTPOTFastBurn"},
			Queries: []Query{
				{Expr: quantile(0.5, byModule, "30m", "inference_probe_tpot_seconds", ofProbes), Legend: "median " + module},
				threshold("tpot"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Longest gap in an answer", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "The longest silence between two tokens of a probe: median and highest tenth over 30 minutes.", By: ByProbe,
			Worry: "it grows while TPOT does not: decoding stalls now and then, for prefills of others or for preemption.", Alerts: []string{"InferencePreemptionsHigh"},
			Queries: []Query{
				{Expr: quantile(0.5, byModule, "30m", "inference_probe_max_gap_seconds", ofProbes), Legend: "median " + module},
				{Expr: quantile(0.9, byModule, "30m", "inference_probe_max_gap_seconds", ofProbes), Legend: "p90 " + module},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Gaps between tokens", Viz: Heatmap, Unit: "s", Width: 8, Height: 8,
			What: "Times between neighbouring token events of all probes.", By: ByProbe,
			Worry: "a second band far above the first: the stream comes in bursts.", Alerts: []string{"InferenceStreamsBuffered"},
			Queries: []Query{{Expr: distribution("inference_probe_inter_chunk_seconds", ofProbes), Legend: "{{le}}"}},
			NoValue: noProber,
		},
		{
			Title: "Output speed", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 8, Height: 8,
			What: "Tokens per second that one user sees after the first token. The dashed line is the most that one sequence can get from the memory bandwidth of the configured GPUs.", By: ByProbe,
			Worry: "it halves: the batch has grown, or clocks are down.", Alerts: []string{"InferenceDecodeSpeedCollapse"},
			Queries: []Query{
				{Expr: "min by (" + byModule + ") (" + ofProbes.of("inference_probe_last_output_tokens_per_second") + ")", Legend: module},
				{Expr: "max(" + ofEndpoint.of("inference_endpoint_decode_ceiling_tokens_per_second") + ")", Legend: "ceiling of one sequence", Limit: true},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Time to first visible output", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median over 30 minutes of TTFO: to the first event that a user sees, reasoning left out. Equal to TTFT for a model that does not reason.", By: ByProbe,
			Worry:   "it grows while TTFT does not: the model thinks longer.",
			Queries: []Query{{Expr: quantile(0.5, byModule, "30m", "inference_probe_ttfo_seconds", ofProbes), Legend: module}},
			Min:     ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Prompt tokens from the prefix cache", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the probes' prompt tokens that came from the prefix cache, as the replies tell. Near 0 for cold probes, near 1 for warm ones.", By: ByServer,
			Worry: "it falls for warm probes: the cache is lost, or requests go to another replica each time.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{
				Expr: sumRate(byModule, "15m", "inference_probe_cached_prompt_tokens_total", ofProbes) + " / " +
					sumRate(byModule, "15m", "inference_probe_prompt_tokens_total", ofProbes), Legend: module,
			}},
			Min: ptr(0.0), Max: ptr(1.0), NoValue: "the replies do not tell",
		},
	}
}

func endpointFailures() []Panel {
	share := func(name string) string {
		return sumRate("module", "15m", name, ofProbes) + " / " + sumRate("module", "15m", "inference_probe_results_total", ofProbes, `outcome="success"`)
	}
	outcome := func(o string) string {
		return sumRate("module", "15m", "inference_probe_results_total", ofProbes, `outcome="`+o+`"`) + " / " +
			sumRate("module", "15m", "inference_probe_results_total", ofProbes, `outcome!="canceled"`)
	}
	return []Panel{
		{
			Title: "Failures by outcome", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8, Stacked: true,
			What: "Failed probes a minute, by how they ended. The table of outcomes is in docs/metrics.md.", By: ByProbe,
			Worry: "any outcome lasts.", Alerts: []string{"InferenceProbeFailing", "InferenceEndpointDown", "InferenceAvailabilityDegradedNow"},
			Queries: []Query{{Expr: "60 * " + sumRate("outcome", "$__rate_interval", "inference_probe_results_total", ofProbes, `outcome!~"success|canceled"`), Legend: "{{outcome}}"}},
			Min:     ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Limited, overloaded, cut, empty", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the probes of 15 minutes that were refused with 429 or 503, or whose answer was cut or empty.", By: ByProbe,
			Worry: "truncated or empty are not 0: users get broken answers.", Alerts: []string{"InferenceAnswersCut", "InferenceProbeFailing"},
			Queries: []Query{
				{Expr: outcome("rate_limited"), Legend: "rate limited {{module}}"},
				{Expr: outcome("overloaded"), Legend: "overloaded {{module}}"},
				{Expr: outcome("truncated"), Legend: "cut {{module}}"},
				{Expr: outcome("empty"), Legend: "empty {{module}}"},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Successes with a flaw", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the good probes of 15 minutes whose answer came in one burst (buffered), without the protocol's end marker or a finish reason, or with more events than tokens, and of those that are in no latency: the exporter could not measure them well (imprecise), or a burst of its own ran beside them (disturbed).", By: ByProbe,
			Worry: "buffered is not 0: a proxy holds streams back, and TTFT is the whole answer. more events than tokens: a gateway adds texts of its own, and there is no TTFT. imprecise: the exporter has too little CPU.", Alerts: []string{"InferenceStreamsBuffered", "InferenceMeasurementSuspect"},
			Queries: []Query{
				{Expr: share("inference_probe_buffered_total"), Legend: "buffered {{module}}"},
				{Expr: share("inference_probe_no_end_marker_total"), Legend: "no end marker {{module}}"},
				{Expr: share("inference_probe_no_finish_reason_total"), Legend: "no finish reason {{module}}"},
				{Expr: share("inference_probe_more_events_than_tokens_total"), Legend: "more events than tokens {{module}}"},
				{Expr: share("inference_probe_imprecise_total"), Legend: "imprecise {{module}}"},
				{Expr: share("inference_probe_disturbed_total"), Legend: "disturbed {{module}}"},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Quota left", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "Requests and tokens that the account may still use, as the replies tell.", By: ByServer,
			Worry: "it nears 0: the next answers are 429.", Alerts: []string{"InferenceProbeFailing"},
			Queries: []Query{{Expr: "min by (resource) (" + ofEndpoint.of("inference_probe_rate_limit_remaining") + ")", Legend: "{{resource}}"}},
			Min:     ptr(0.0), NoValue: "the replies do not tell",
		},
		{
			Title: "Probes that did not run", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 7, Stacked: true,
			What: "Probes a minute that were due and did not run: the one before still ran (overrun), the server asked to wait or let two probes in a row time out (backoff), too many were in flight (limit), a budget was spent (budget), the prompt has no room in the context (context_length), the server has several models and the configuration names none (model_not_set), the server truncates the prompt (prompt_truncated), or the exporter lacks descriptors, memory or ports (resources).", By: ByExporter,
			Worry: "it lasts: what is not probed is not watched.", Alerts: []string{"InferenceScheduleLag", "InferenceProbeStale", "InferenceProbeBudgetExhausted", "InferenceExporterLacksResources"},
			Queries: []Query{{Expr: "60 * " + sumRate("reason", "$__rate_interval", "inference_probe_skipped_total", ofEndpoint), Legend: "{{reason}}"}},
			Min:     ptr(0.0), NoValue: noProber,
		},
	}
}

func endpointObjectives() []Panel {
	burn := func(window string) Query {
		return Query{
			Expr:   "max by (module, slo) (" + ofBudget(badRatio(window)) + ")",
			Legend: "{{module}} {{slo}}, " + window,
		}
	}
	return []Panel{
		{
			Title: "Burn rate, 5 minutes and 1 hour", Viz: TimeSeries, Unit: "suffix: x", Width: 12, Height: 8,
			What: "How many times faster than allowed the error budget is used up: 1 uses all of it in 30 days. Over 14.4 in both windows it pages." + perProbe,
			By:   ByRules, Worry: "both windows of one objective are over the line.", Alerts: []string{"InferenceAvailabilityFastBurn", "InferenceTTFTFastBurn", "InferenceTPOTFastBurn", "InferenceE2EFastBurn"},
			Queries: []Query{burn("5m"), burn("1h")},
			Steps:   []Step{{0, "transparent"}, {14.4, "red"}}, Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Burn rate, 6 hours and 3 days", Viz: TimeSeries, Unit: "suffix: x", Width: 12, Height: 8,
			What: "As beside, over windows that show slow losses: 1 uses up all of the error budget in 30 days, and 6 in five." + perProbe,
			By:   ByRules, Worry: "it stays over 1 for days.", Alerts: []string{"InferenceAvailabilitySlowBurn", "InferenceTTFTSlowBurn", "InferenceTPOTSlowBurn", "InferenceE2ESlowBurn"},
			Queries: []Query{burn("6h"), burn("3d")},
			Steps:   []Step{{0, "transparent"}, {1, "yellow"}, {6, "red"}}, Min: ptr(0.0), NoValue: noProber,
		},
	}
}
