package main

// capacityGPUs is what one GPU does for its model, and how many of them were enough.
func capacityGPUs() []Panel {
	most := func(kind string) string {
		return "max by (endpoint, model) (max_over_time(" + ofRecorded.of("endpoint:inference_server_"+kind+"_tokens:rate5m_per_gpu") + "[7d]))"
	}
	scaling := "module:inference_probe_burst_output_tokens_per_second:scaling_efficiency"
	return []Panel{
		{
			Title: "Tokens a second of a GPU", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 12, Height: 8,
			What: "Tokens that the servers of each model generate and prompt tokens that they read, cached ones included, over the GPUs of the servers whose page is read. It follows the demand: an idle GPU does little.", By: ByServer,
			Worry: "it is lower than that of the same model elsewhere at the same demand.",
			Queries: []Query{
				{Expr: "max by (model) (" + ofModel.of("model:inference_server_generation_tokens:rate5m_per_gpu") + ")", Legend: "generated {{model}}"},
				{Expr: "max by (model) (" + ofModel.of("model:inference_server_prompt_tokens:rate5m_per_gpu") + ")", Legend: "prompts {{model}}"},
			},
			Min: ptr(0.0), NoValue: "no hardware is configured, or no page of the servers",
		},
		{
			Title: "GPUs and what they do", Viz: Table, Width: 12, Height: 8,
			What: "GPUs of each endpoint's servers; the most tokens a second of one of them in 7 days, for answers and for prompts; and the worst efficiency of scaling: tokens a second of a GPU in a burst, divided by those in the same burst at the deployment of the model with fewest GPUs; and whether the GPUs multiply the number formats of the configuration as they are.", By: ByBoth,
			Worry: "the efficiency is under 70 %: more GPUs bring little, and replicas are better. Numbers are converted: prefill is no faster than in the wider format.",
			Queries: []Query{
				{Expr: recorded("endpoint:inference_endpoint_gpus:sum")},
				{Expr: most("generation")},
				{Expr: most("prompt")},
				{Expr: "min by (endpoint, model) (" + ofRecorded.of(scaling) + ")"},
				{Expr: "min by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_precision_native") + ")"},
			},
			Columns: []Column{
				{Label: "model", Title: "Model"},
				{Label: "endpoint", Title: "Endpoint"},
				{Query: 0, Title: "GPUs"},
				{Query: 1, Title: "Generated tok/s"},
				{Query: 2, Title: "Prompt tok/s"},
				{Query: 3, Title: "Scaling", Unit: "percentunit", Steps: []Step{{lowest, "red"}, {0.7, "yellow"}, {0.85, "green"}}},
				{Query: 4, Title: "Numbers", Width: 110, States: []State{{"0", "converted", "yellow"}, {"1", "native", "green"}}},
			},
			Sort: []Order{{Title: "Model"}}, NoValue: "no hardware is configured",
		},
		{
			Title: "Servers that were enough", Viz: Table, Width: 12, Height: 8,
			What: "Servers whose pages are read, and how many would have been enough for the load of 24 hours: to stay under 80 % of the tokens a second of the largest burst that met the objectives, and of the KV cache. Only where both are known for 20 hours, no queue lasted five minutes and every objective was met. It does not allow for the loss of a server.", By: ByBoth,
			Worry: "fewer are enough on every day of the week: the rest is for failures, or spare.",
			Queries: []Query{
				{Expr: recorded("endpoint:inference_server_up:count") + " and on (endpoint, model) " + ofRecorded.of("endpoint:inference_servers_enough:count1d")},
				{Expr: recorded("endpoint:inference_servers_enough:count1d")},
				{Expr: "max by (endpoint, model) (max_over_time(" + ofRecorded.of("endpoint:inference_probe_burst_max_good_tokens_per_second:used_ratio") + "[1d])) and on (endpoint, model) " + ofRecorded.of("endpoint:inference_servers_enough:count1d")},
				{Expr: "max by (endpoint, model) (max_over_time(" + ofRecorded.of("endpoint:inference_server_kv_cache_usage_ratio:mean") + "[1d])) and on (endpoint, model) " + ofRecorded.of("endpoint:inference_servers_enough:count1d")},
			},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint"},
				{Label: "model", Title: "Model"},
				{Query: 0, Title: "Servers"},
				{Query: 1, Title: "Enough"},
				{Query: 2, Title: "Peak load", Unit: "percentunit"},
				{Query: 3, Title: "Peak KV cache", Unit: "percentunit"},
			},
			Sort: []Order{{Title: "Servers", Desc: true}}, NoValue: "no endpoint has all that it takes",
		},
		{
			Title: "Cost of a million output tokens, by the speed of probes", Viz: TimeSeries, Unit: "suffix: $", Width: 12, Height: 8, Log: true,
			What: "Price of the GPUs of an endpoint for an hour over the tokens that one stream gets in it, and over those of a burst. One stream alone is the upper end; the largest burst is near the lower one.", By: ByBoth,
			Worry: "the burst costs more than a service charges.",
			Queries: []Query{
				{Expr: "max by (endpoint, model) (" + ofRecorded.of("module:inference_usd_per_million_output_tokens:single_stream") + ")", Legend: "one stream " + name},
				{Expr: "min by (endpoint, model) (" + ofRecorded.of("module:inference_usd_per_million_output_tokens:bursts") + ")", Legend: "best burst " + name},
			},
			Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no price by the hour",
		},
	}
}

// capacityFrontier is what models give for their time and money.
func capacityFrontier() []Panel {
	frontier := func(against string) string {
		return "max by (endpoint, model, module) (" + ofRecorded.of("module:inference_quality_frontier:bool", `against="`+against+`"`) + ")"
	}
	seconds := func(name string) string { return "max by (endpoint, model, module) (" + ofRecorded.of(name) + ")" }
	right := ofRecorded.of("module:inference_probe_checks_right:ratio1d")
	states := []State{{"0", "beaten", "orange"}, {"1", "frontier", "green"}}
	return []Panel{{
		Title: "Quality against speed and cost, 24 hours", Viz: Table, Width: 24, Height: 10,
		What: "Share of the right answers of each endpoint to a module that checks them, the 99th percentile of TTFT and TPOT in the same module, and what a million output tokens cost, by the price list or else by the load. A model is on the frontier if no other one that the module asks has answers as good or better and is faster, or cheaper. Whole hours, of 30 answers at least; the best 16 of a module. Tokens of different models are not alike: beside them are the characters a second of one answer, on average, and the cost of a request.", By: ByBoth,
		Worry: "a model is beaten in all: another one is better for the same questions.", Alerts: []string{"InferenceQualityDrop"},
		Queries: []Query{
			{Expr: seconds("module:inference_probe_checks_right:ratio1d")},
			{Expr: seconds("module:inference_probe_ttft_seconds:p99_1d") + " and on (endpoint, model, module) " + right},
			{Expr: frontier("ttft")},
			{Expr: seconds("module:inference_probe_tpot_seconds:p99_1d") + " and on (endpoint, model, module) " + right},
			{Expr: frontier("tpot")},
			{Expr: "max by (endpoint, model, module) (" + ofRecorded.of("module:inference_quality_frontier:axis", `against="cost"`) + ")"},
			{Expr: frontier("cost")},
			{Expr: "max by (endpoint, model, module) (avg_over_time(" + ofProbes.of("inference_probe_last_output_characters_per_second") + "[1d])) and on (endpoint, model, module) " + right},
			{Expr: "(" + seconds("module:inference_probe_checks_right:ratio1d") + " >= bool 0) * on (endpoint, model) group_left () " + recorded("endpoint:inference_usd_per_request:offered")},
		},
		Columns: []Column{
			{Label: "endpoint", Title: "Endpoint"},
			{Label: "model", Title: "Model"},
			{Label: "module", Title: "Module"},
			{Query: 0, Title: "Right", Unit: "percentunit"},
			{Query: 1, Title: "TTFT p99", Unit: "s"},
			{Query: 2, Title: "for TTFT", States: states},
			{Query: 3, Title: "TPOT p99", Unit: "s"},
			{Query: 4, Title: "for TPOT", States: states},
			{Query: 7, Title: "Characters/s"},
			{Query: 5, Title: "$/M output", Unit: "suffix: $"},
			{Query: 6, Title: "for cost", States: states},
			{Query: 8, Title: "$/request", Unit: "suffix: $"},
		},
		Sort: []Order{{Title: "Right", Desc: true}}, NoValue: "no answers are checked",
	}}
}
