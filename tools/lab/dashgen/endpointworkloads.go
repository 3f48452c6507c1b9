package main

// bounds draws an estimate and, dashed, between what it lies with 95 %
// confidence.
func bounds(name string) []Query {
	of := func(matcher string) string {
		return "avg by (module, stat) (" + ofEndpoint.of(name, matcher) + ")"
	}
	return []Query{
		{Expr: of(`stat="estimate"`), Legend: "{{module}}"},
		{Expr: of(`stat=~"lower|upper"`), Legend: "{{stat}} {{module}}", Reference: true},
	}
}

// endpointPrompts is what the length of a prompt costs, and what the prefix
// cache saves.
func endpointPrompts() []Panel {
	const noPairs = "no module with prefix: paired, or too few pairs"
	return []Panel{
		{
			Title: "TTFT cold and warm", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token over 30 minutes of probes whose prompt was never asked before (cold) and of those whose prompt was (warm).", By: ByProbe,
			Worry: "warm comes near cold: the prefix cache does not help.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{Expr: quantile(0.5, "module, prefix", "30m", "inference_probe_ttft_seconds", ofProbes), Legend: "{{prefix}} {{module}}"}},
			Min:     ptr(0.0), NoValue: noProber,
		},
		{
			Title: "What the prefix cache saves", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "How much earlier the first token comes when the same prompt is asked again, over pairs of probes. The dashed lines are bounds with 95 % confidence.", By: ByProbe,
			Worry:   "the lower bound is not over 0: that the cache helps is not proven.",
			Queries: bounds("inference_probe_prefix_benefit_seconds"), NoValue: noPairs,
		},
		{
			Title: "Prefix cache hits of warm probes", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the prompt tokens of warm probes that came from the prefix cache. Servers keep whole blocks, so that it stays a little below 1. The second line counts cold probes that were found in the cache, which none should be.", By: ByServer,
			Worry: "it falls: the cache is too small, or requests go to another replica each time; or cold probes are cached.", Alerts: []string{"InferencePrefixCacheHitRateCollapse", "InferenceColdProbesCached"},
			Queries: []Query{
				{Expr: "avg by (module) (" + ofEndpoint.of("inference_probe_prefix_cache_hit_ratio") + ")", Legend: "{{module}}"},
				{
					Expr: sumRate("module", "1h", "inference_probe_cold_cached_total", ofEndpoint) + " / " +
						"(" + sumRate("module", "1h", "inference_probe_results_total", ofEndpoint, `prefix="cold"`, `outcome="success"`) + " > 0)", Legend: "cold probes cached {{module}}",
				},
			},
			Min: ptr(0.0), NoValue: "the replies do not report it",
		},
		{
			Title: "Prefill rate", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 8, Height: 8,
			What: "Prompt tokens that the endpoint reads in a second, by how the time to first token grows with the tokens that are not cached. The dashed lines are bounds with 95 % confidence.", By: ByProbe,
			Worry: "the upper bound falls below the usual rate: prefill itself is slower, because of load or of lower clocks.", Alerts: []string{"InferenceLatencyRegression"},
			Queries: bounds("inference_probe_prefill_tokens_per_second"), Min: ptr(0.0), NoValue: "one length only, too few probes, or no straight line",
		},
		{
			Title: "Fixed part of TTFT", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "The part of the time to first token that does not depend on the prompt: network, queue and the first step of decoding. The dashed lines are bounds with 95 % confidence.", By: ByProbe,
			Worry: "it grows while the prefill rate stays: requests wait before they are read.", Alerts: []string{"InferenceLatencyRegression", "InferenceQueueSaturated"},
			Queries: bounds("inference_probe_ttft_fixed_seconds"), Min: ptr(0.0), NoValue: "one length only, too few probes, or no straight line",
		},
		{
			Title: "TTFT by prompt length", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token over 30 minutes for each length of modules that list several.", By: ByProbe,
			Worry: "only long prompts become slower: prefill is the bottleneck.", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{{
				Expr:   quantile(0.5, "module, prefix, input_tokens", "30m", "inference_probe_ttft_seconds", ofProbes, `input_tokens!=""`),
				Legend: "{{input_tokens}} tokens {{module}} {{prefix}}",
			}},
			Min: ptr(0.0), NoValue: "no module lists several lengths",
		},
	}
}

// endpointBursts are the results of requests that start at the same moment, and apart from
// them those of requests that arrive as those of users do.
func endpointBursts() []Panel {
	const noBursts = "no module has concurrency, or its first run is still to come"
	const noArrivals = "no module has arrivals, or its first run is still to come"
	const legend = "{{concurrency}} at once {{module}}"
	arrivals := "max by (module) (" + ofEndpoint.of("inference_probe_arrivals_per_second") + ")"
	burst := func(name string) string {
		return "max by (module, concurrency) (" + ofEndpoint.of(name) + ") unless on (module) " + arrivals
	}
	return []Panel{
		{
			Title: "TTFT by requests at once", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token over an hour, for each size of bursts, and the objective.", By: ByProbe,
			Worry: "a size that used to be fast crosses the dashed line: there is less room than before.", Alerts: []string{"InferenceBurstKneeFell"},
			Queries: []Query{
				{Expr: "(" + quantile(0.5, "module, concurrency", "1h", "inference_probe_ttft_seconds", ofEndpoint, `concurrency!=""`) + ") unless on (module) " + arrivals, Legend: legend},
				threshold("ttft"),
			},
			Min: ptr(0.0), NoValue: noBursts,
		},
		{
			Title: "Tokens a second by requests at once", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 8, Height: 8,
			What: "Output tokens of all requests of a burst over the time from its first start to its last end, in the latest run.", By: ByProbe,
			Worry:   "larger bursts yield no more tokens than smaller ones: the endpoint is at its limit.",
			Queries: []Query{{Expr: burst("inference_probe_burst_output_tokens_per_second"), Legend: legend}},
			Min:     ptr(0.0), NoValue: noBursts,
		},
		{
			Title: "Knee: the smallest burst that is too large", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Size of the smallest burst of the latest run that missed the objectives. A gap means that all of them met them.", By: ByProbe,
			Worry: "it falls, or appears where there was none.", Alerts: []string{"InferenceBurstKneeFell"},
			Queries: []Query{{Expr: "max by (module) (" + ofEndpoint.of("inference_probe_burst_knee_concurrency") + ")", Legend: "{{module}}"}},
			Min:     ptr(0.0), NoValue: "all bursts meet the objectives, or there are none",
		},
		{
			Title: "Failed requests of bursts", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "Requests of a burst that did not succeed, in the latest run. A burst with an error is the last of its run, so that larger ones have no value then.", By: ByProbe,
			Worry:   "small bursts have failures: users see them too.",
			Queries: []Query{{Expr: burst("inference_probe_burst_failed"), Legend: legend}},
			Min:     ptr(0.0), NoValue: noBursts,
		},
		{
			Title: "Time between the first and the last start", Viz: TimeSeries, Unit: "s", Width: 12, Height: 7,
			What: "Time over which the requests of a burst were started in the latest run. The exporter causes it, not the endpoint.", By: ByExporter,
			Worry: "it is more than a few milliseconds: the exporter lacks CPU, and its bursts are smaller than their size.", Alerts: []string{"InferenceMeasurementSuspect"},
			Queries: []Query{{Expr: burst("inference_probe_burst_start_spread_seconds"), Legend: legend}},
			Min:     ptr(0.0), NoValue: noBursts,
		},
		{
			Title: "TTFT beside a long prompt", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "TTFT of a short prompt that is sent while the server computes a long one, as a multiple of its TTFT alone: the median of the latest 60 runs of modules with interference, and its bounds.", By: ByProbe,
			Worry: "it is far above 1: whoever asks something short waits for the long prompts of others.",
			Queries: []Query{
				{Expr: "max by (module, stat) (" + ofEndpoint.of("inference_probe_interference_ttft_ratio") + ")", Legend: "{{module}} {{stat}}"},
			},
			Min: ptr(0.0), NoValue: "no module has interference, or it has run fewer than 6 times",
		},
		{
			Title: "TTFT of requests that arrive as those of users", Viz: TimeSeries, Unit: "s", Width: 12, Height: 7,
			What: "Median and 99th percentile of the time to first token over an hour, of the modules whose requests start one after the other, by a Poisson process or a recording, counted from the planned start.", By: ByProbe,
			Worry: "the upper line leaves the lower one: at this rate some requests wait for others.",
			Queries: []Query{
				{Expr: "(" + quantile(0.5, "module", "1h", "inference_probe_ttft_seconds", ofEndpoint, `concurrency!=""`) + ") and on (module) " + arrivals, Legend: "p50 {{module}}"},
				{Expr: "(" + quantile(0.99, "module", "1h", "inference_probe_ttft_seconds", ofEndpoint, `concurrency!=""`) + ") and on (module) " + arrivals, Legend: "p99 {{module}}"},
			},
			Min: ptr(0.0), NoValue: noArrivals,
		},
		{
			Title: "Rate of arrivals, and failures", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "Requests that start per second on average, and how many of the latest run failed, of the same modules.", By: ByProbe,
			Worry: "requests fail: the endpoint does not handle this rate.",
			Queries: []Query{
				{Expr: arrivals, Legend: "per second {{module}}"},
				{Expr: "max by (module) (" + ofEndpoint.of("inference_probe_burst_failed") + ") and on (module) " + arrivals, Legend: "failed {{module}}"},
			},
			Min: ptr(0.0), NoValue: noArrivals,
		},
	}
}

// endpointQuality is whether answers are right, and whether it is still the same
// model that gives them.
func endpointQuality() []Panel {
	const noChecks = "no module checks answers"
	const checks = "inference_probe_checks_total"
	right := func(window string) string {
		return "sum by (module) (rate(" + ofProbes.of(checks, `verdict=~"correct|valid"`) + window + ")) / (sum by (module) (rate(" + ofProbes.of(checks) + window + ")) > 0)"
	}
	return []Panel{
		{
			Title: "Right answers", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the checked answers of an hour that are as expected, and of the seven days to the end of the chosen range. A small model need not know everything: what matters is the change.", By: ByProbe,
			Worry: "it falls below the dashed line by more than it usually varies.", Alerts: []string{"InferenceQualityDrop"},
			Queries: []Query{
				{Expr: right("[1h]"), Legend: "{{module}}"},
				{Expr: right("[7d] @ end()"), Legend: "usual {{module}}", Reference: true},
			},
			Min: ptr(0.0), NoValue: noChecks,
		},
		{
			Title: "Answers that are not right", Viz: TimeSeries, Unit: "suffix: /h", Width: 8, Height: 8, Stacked: true,
			What: "Checked answers of the last hour that are not as expected, by what they came to: other content (wrong), another form (wrong_format), declined (refused), or in a loop (repetition). Of tool calls and JSON: not JSON (bad_json), not by the schema (bad_schema), another function (wrong_tool), none (no_call), in the text (leaked_into_content), cut (truncated).", By: ByProbe,
			Worry: "repetition or refused appear: a chat template, a sampling default or the weights changed; or leaked_into_content or bad_json do: a tool parser of the server is broken, or does not fit the model.", Alerts: []string{"InferenceQualityDrop"},
			Queries: []Query{{Expr: sumIncrease("verdict", "1h", checks, ofProbes, `verdict!~"correct|valid"`) + " > 0", Legend: "{{verdict}}"}},
			Named:   verdictColors, Min: ptr(0.0), NoValue: noChecks,
		},
		{
			Title: "Score of the reference passage", Viz: TimeSeries, Unit: "suffix: nat", Width: 8, Height: 8,
			What: "Mean log-probability per token that the model gives to a fixed passage. The same weights and arithmetic give the same value, but for noise far below 0.02.", By: ByProbe,
			Worry: "it makes a step: weights, quantization or tokenizer are others.", Alerts: []string{"InferenceFingerprintChanged", "InferenceModelChanged"},
			Queries: []Query{{Expr: "avg by (module) (" + ofEndpoint.of("inference_probe_reference_logprob") + ")", Legend: "{{module}}"}},
			NoValue: "no module has reference_logprob, or the server cannot",
		},
		{
			Title: "First tokens against those before", Viz: TimeSeries, Unit: "suffix: nat", Width: 12, Height: 8,
			What: "How far the log-probabilities of the first tokens of the latest 96 answers are from those before them, beyond what chance explains.", By: ByProbe,
			Worry: "it leaves 0: weights, quantization, template or tokenizer are others.", Alerts: []string{"InferenceFingerprintChanged"},
			Queries: []Query{{Expr: "avg by (module) (" + ofEndpoint.of("inference_probe_first_token_logprob_shift") + ")", Legend: "{{module}}"}},
			NoValue: "no module has track_model, its first 192 answers are not there, or replies have no log-probabilities",
		},
		{
			Title: "Answers that begin differently", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Total variation between the first tokens of a day's answers, the latest 96 to 480, and those before them, beyond what chance explains: for endpoints whose replies have no log-probabilities.", By: ByProbe,
			Worry: "it leaves 0: weights, quantization, template or tokenizer are others.", Alerts: []string{"InferenceFingerprintChanged"},
			Queries: []Query{{Expr: "avg by (module) (" + ofEndpoint.of("inference_probe_first_token_variation_ratio") + ")", Legend: "{{module}}"}},
			NoValue: "no module has track_model, its first 288 answers are not there, or replies have log-probabilities",
		},
		{
			Title: "What should stay the same", Viz: Table, Width: 24, Height: 6,
			What: "What is watched for changes, how often it changed in 24 hours, and when it did last. One change counts once, however many answers show it.", By: ByProbe,
			Worry: "something changed without a deployment.", Alerts: []string{"InferenceFingerprintChanged", "InferenceModelChanged"},
			Queries: []Query{
				{Expr: "max by (module, source) (increase(" + ofEndpoint.of("inference_probe_identity_changes_total") + "[1d]))"},
				{Expr: "1000 * max by (module, source) (" + ofEndpoint.of("inference_probe_identity_last_change_timestamp_seconds") + ")"},
			},
			Columns: []Column{
				{Label: "module", Title: "Module"},
				{Label: "source", Title: "What"},
				{Query: 0, Title: "Changes 24h"},
				{Query: 1, Title: "Last change", Unit: "dateTimeFromNow", Width: 150},
			},
			Sort: []Order{{Title: "Changes 24h", Desc: true}, {Title: "Last change", Desc: true}}, NoValue: "no module watches anything",
		},
	}
}
