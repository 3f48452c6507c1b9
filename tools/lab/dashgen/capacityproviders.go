package main

// capacityProviders are the endpoints of one model side by side: what its providers give for
// the same questions, and what they charge.
func capacityProviders() []Panel {
	const point = "endpoint, model, module"
	each := func(expr string) string { return "max by (" + point + ") (" + expr + ")" }
	latency := func(q float64, metric string) Query {
		return Query{Expr: quantile(q, point, "1h", metric, ofProbes)}
	}
	failed := func(window string) string {
		return each(ofRecorded.of("module:inference_probe_slo_bad:ratio_rate"+window, `slo="availability"`))
	}
	ofEach := "(" + failed("1d") + " >= bool 0) * on (endpoint, model) group_left () "
	beside := func(rule string) Query { return Query{Expr: ofEach + recorded(rule)} }
	const legend = "{{endpoint}} {{model}} {{module}}"
	return []Panel{
		{
			Title: "Providers of a model, side by side", Viz: Table, Width: 24, Height: 10,
			What: "Each endpoint of the chosen models, for each module: the share of probes that failed in 24 hours, the median and the 99th percentile of TTFT and TPOT over the last hour, the characters a second of one answer, the share of right answers of 24 hours where the module checks them, what a million output tokens and a request cost, by the price list or else by the load, and how many requests ran at the servers meanwhile, where their pages are read. Choose one model; only rows of the same module are comparable, and those of different models by characters and requests, as their tokens are not alike. Each probe is one request at a time, beside the load of others.", By: ByBoth,
			Worry: "the provider in use fails more, is slower or has fewer right answers than another one of the same model and price.", Alerts: []string{"InferenceQualityDrop"},
			Queries: []Query{
				{Expr: failed("1d")},
				latency(0.5, "inference_probe_ttft_seconds"),
				latency(0.99, "inference_probe_ttft_seconds"),
				latency(0.5, "inference_probe_tpot_seconds"),
				latency(0.99, "inference_probe_tpot_seconds"),
				{Expr: each(ofRecorded.of("module:inference_probe_checks_right:ratio1d"))},
				beside("endpoint:inference_usd_per_million_output_tokens:offered"),
				{Expr: each("avg_over_time(" + ofProbes.of("inference_probe_last_output_characters_per_second") + "[1h])")},
				beside("endpoint:inference_usd_per_request:offered"),
				{Expr: ofEach + "sum by (endpoint, model) (max by (endpoint, model, server) (avg_over_time(" + ofEndpoint.of("inference_server_requests_running") + "[1h])))"},
			},
			Columns: []Column{
				{Label: "model", Title: "Model"},
				{Label: "module", Title: "Module"},
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint")}},
				{Query: 0, Title: "Failed", Unit: "percentunit", Steps: []Step{{lowest, "green"}, {0.01, "yellow"}, {0.1, "red"}}},
				{Query: 1, Title: "TTFT p50", Unit: "s"},
				{Query: 2, Title: "TTFT p99", Unit: "s"},
				{Query: 3, Title: "TPOT p50", Unit: "s"},
				{Query: 4, Title: "TPOT p99", Unit: "s"},
				{Query: 7, Title: "Characters/s"},
				{Query: 5, Title: "Right", Unit: "percentunit"},
				{Query: 6, Title: "$/M output", Unit: "suffix: $"},
				{Query: 8, Title: "$/request", Unit: "suffix: $"},
				{Query: 9, Title: "Running"},
			},
			Sort: []Order{{Title: "Model"}, {Title: "Module"}, {Title: "Failed", Desc: true}}, NoValue: noProber,
		},
		{
			Title: "Median TTFT by provider", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Median time to first token over 30 minutes, the highest of the prompt lengths of a module.", By: ByRules,
			Worry:   "one provider rises at the hours of the day in which another one of the same model does not.",
			Queries: []Query{{Expr: each(ofRecorded.of("module:inference_probe_ttft_seconds:median30m")), Legend: legend}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noProber,
		},
		{
			Title: "Failed probes by provider", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the probes of an hour that failed." + perProbe, By: ByRules,
			Worry: "one provider fails while another one of the same model does not.", Alerts: []string{"InferenceEndpointFailing"},
			Queries: []Query{{Expr: failed("1h"), Legend: legend}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noProber,
		},
	}
}
