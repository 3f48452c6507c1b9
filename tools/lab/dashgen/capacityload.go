package main

// capacityLoad is what an endpoint carries by its load tests.
func capacityLoad() []Panel {
	const noTest = "no module has load, or its first run is still to come"
	const by, legend = "endpoint, model, module, load, level", name + " {{module}} {{level}} {{load}}"
	of := func(what string, matchers ...string) string {
		return "max by (" + by + ") (" + ofEndpoint.of("inference_probe_load_"+what, matchers...) + ")"
	}
	capacity := func(what string) string {
		return "max by (endpoint, model, module, load) (" + ofEndpoint.of("inference_probe_load_"+what) + ")"
	}
	return []Panel{
		{
			Title: "Levels of the load tests", Viz: Table, Width: 24, Height: 9,
			What: "What each level came to in its steady state, in the latest run that completed it: the 99th percentile of TTFT with the bounds that the true one is between with 95 % confidence, that of TPOT, the share of the requests that met all objectives, tokens a second in all and of a GPU, and the cost of a million tokens at that load.", By: ByProbe,
			Worry: "the lower bound is over the objective at the load that you have to carry.", Alerts: []string{"InferenceTargetLoadMissed"},
			Queries: []Query{
				{Expr: of("ttft_seconds", `stat="p99_lower"`)},
				{Expr: of("ttft_seconds", `stat="p99"`)},
				{Expr: of("ttft_seconds", `stat="p99_upper"`)},
				{Expr: of("tpot_seconds", `stat="p99"`)},
				{Expr: of("goodput_ratio")},
				{Expr: of("in_flight")},
				{Expr: of("output_tokens_per_second")},
				{Expr: of("output_tokens_per_second_per_gpu")},
				{Expr: of("usd_per_million_output_tokens")},
			},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint")}},
				{Label: "model", Title: "Model"},
				{Label: "module", Title: "Module"},
				{Label: "load", Title: "Load in"},
				{Label: "level", Title: "Level"},
				{Query: 0, Title: "TTFT p99 from", Unit: "s"},
				{Query: 1, Title: "TTFT p99", Unit: "s"},
				{Query: 2, Title: "TTFT p99 to", Unit: "s"},
				{Query: 3, Title: "TPOT p99", Unit: "s"},
				{Query: 4, Title: "Goodput", Unit: "percentunit"},
				{Query: 5, Title: "In flight"},
				{Query: 6, Title: "Tokens/s"},
				{Query: 7, Title: "Tokens/s a GPU"},
				{Query: 8, Title: "$/M output"},
			},
			Sort: []Order{{Title: "Endpoint"}}, NoValue: noTest,
		},
		{
			Title: "p99 of TTFT by level, 30 days", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8, TimeFrom: "30d",
			What: "99th percentile of the time to first token of each level of the load tests, in the latest run that completed it.", By: ByProbe,
			Worry: "a level rises from week to week: there is less room than before.", Alerts: []string{"InferenceTargetLoadMissed"},
			Queries: []Query{{Expr: of("ttft_seconds", `stat="p99"`), Legend: legend}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noTest,
		},
		{
			Title: "Tokens a second by level, 30 days", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 8, Height: 8, TimeFrom: "30d",
			What: "Output tokens of all requests of each level of the load tests, in its steady state.", By: ByProbe,
			Worry:   "higher levels yield no more tokens than lower ones: the endpoint is at its limit.",
			Queries: []Query{{Expr: of("output_tokens_per_second"), Legend: legend}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noTest,
		},
		{
			Title: "Largest good load and knee, 30 days", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8, TimeFrom: "30d",
			What: "Largest level that met the objectives for certain, the smallest that missed one, and, dashed, the target.", By: ByProbe,
			Worry: "it falls, or the knee comes near the target.", Alerts: []string{"InferenceKneeFell", "InferenceTargetLoadMissed"},
			Queries: []Query{
				{Expr: capacity("max_good"), Legend: "good " + name + " {{module}} {{load}}"},
				{Expr: capacity("knee"), Legend: "knee " + name + " {{module}} {{load}}"},
				{Expr: capacity("target"), Legend: "target " + name + " {{module}} {{load}}", Reference: true},
			},
			Min: ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noTest,
		},
		{
			Title: "Room after the loss of a server", Viz: TimeSeries, Unit: "percentunit", Width: 24, Height: 7,
			What: "What the remaining servers of an endpoint would carry within the objectives after the loss of one, by the latest load test, as a share of the load now and of the busiest hour of a day (peak).", By: ByBoth,
			Worry: "it is below 100 %: the loss of one server would make users wait.", Alerts: []string{"InferenceNoLongerSurvivesLoss"},
			Queries: []Query{{Expr: "min by (endpoint, model, when) (" + ofEndpoint.of("inference_endpoint_loss_headroom_ratio") + ")", Legend: name + " {{when}}"}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "fewer than two servers, or no load test that met the objectives",
		},
	}
}
