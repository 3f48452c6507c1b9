package main

// name is the legend of a series of one endpoint.
const name = "{{endpoint}} {{model}}"

func capacity() Board {
	return Board{
		UID: uidCapacity, Title: "Inference / Capacity",
		Question:  "Can traffic move here, are more or fewer replicas needed, which model is worth its cost, and what does probing cost?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(false)},
		Marks:     off(alertMark(), changeMark()),
		From:      "now-24h", Refresh: "5m",
		Rows: []Row{
			{Title: "Load and room", Panels: capacityNow()},
			{Title: "Trend", Panels: capacityTrend()},
			{Title: "Bursts", Panels: capacityKnee()},
			{Title: "Load tests", Collapsed: true, Panels: capacityLoad()},
			{Title: "Work of a GPU", Panels: capacityGPUs()},
			{Title: "Money", Panels: capacityMoney()},
			{Title: "Quality, speed and cost", Collapsed: true, Panels: capacityFrontier()},
			{Title: "Providers of a model", Collapsed: true, Panels: capacityProviders()},
			{Title: "What probing costs", Collapsed: true, Panels: capacityProbing()},
		},
	}
}

// recorded takes the highest of a recorded series for each endpoint.
func recorded(name string) string {
	return "max by (endpoint, model) (" + ofRecorded.of(name) + ")"
}

// ranking makes a panel a table of one value for each series, as a bar with its
// number: worst first, and with room for each name. Value is the heading of the
// values.
func ranking(p Panel, value string, labels ...Column) Panel {
	lowest := len(p.Steps) > 0 && p.Steps[0].Color == "red" // is the worst
	p.Viz, p.Sort = Table, []Order{{Title: value, Desc: !lowest}}
	p.Columns = append(labels, Column{Title: value, Steps: p.Steps, Gauge: true, Width: 200})
	p.Steps = nil
	return p
}

// endpointRanking is a ranking of endpoints, whose names lead to a board.
func endpointRanking(p Panel, value string, to Link) Panel {
	return ranking(p, value, Column{Label: "endpoint", Title: "Endpoint", Links: []Link{to}}, Column{Label: "model", Title: "Model"})
}

// generated is the tokens a second that the servers of each endpoint generate.
func generated(window string) string {
	return perServer("endpoint, model", "rate("+ofEndpoint.of("inference_server_generation_tokens_total")+"["+window+"])")
}

func capacityNow() []Panel {
	tokens := "endpoint:inference_server_generation_tokens:rate5m"
	kv := ofEndpoint.of("inference_server_kv_cache_usage_ratio")
	probes := sumRate("endpoint, model", "5m", "inference_probe_output_tokens_total", ofEndpoint)
	return []Panel{
		{
			Title: "Tokens a second", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 12, Height: 8, Stacked: true,
			What: "Tokens that the servers of each endpoint generate. Those that generate none are left out.", By: ByServer,
			Worry:   "it is flat while requests wait: the servers are at their limit.",
			Queries: []Query{{Expr: generated("5m") + " > 0", Legend: name}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEngine, "Servers")}, NoValue: noPage,
		},
		endpointRanking(Panel{
			Title: "Load against its own peak of 7 days", Unit: "percentunit", Width: 12, Height: 8,
			What: "Tokens a second now, without those of the probes, of the most that each endpoint generated in 7 days; the twenty nearest to it. The peak is the highest demand, not the capacity.", By: ByBoth,
			Worry:   "it was less at this time of other days. A steady load is always near 100 %.",
			Queries: []Query{{Expr: "topk(20, clamp_min(" + recorded(tokens) + " - on (endpoint, model) " + probes + ", 0) / (max by (endpoint, model) (max_over_time(" + ofRecorded.of(tokens) + "[7d])) > 0))"}},
			Min:     ptr(0.0), NoValue: noPage,
		}, "Of the peak", fromRow(uidEngine, "Servers")),
		ranking(Panel{
			Title: "Room in the KV cache", Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the KV cache that is free on the fullest server of each model; the twenty with least.", By: ByServer,
			Worry: "it is under 10 %.", Alerts: []string{"InferenceKVCacheSaturated"},
			Queries: []Query{{Expr: "bottomk(20, 1 - max by (model) (" + kv + "))"}},
			Steps:   []Step{{lowest, "red"}, {0.1, "yellow"}, {0.3, "green"}}, Min: ptr(0.0), NoValue: noPage,
		}, "Free", Column{Label: "model", Title: "Model"}),
		{
			Title: "One user's speed against the ceiling", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Tokens per second that a probe gets, of the most that the memory bandwidth of the configured GPUs allows to one sequence. 60 to 85 % can be reached on an idle server; speculative decoding goes beyond.", By: ByProbe,
			Worry: "it falls as load grows: the batch takes its share.", Alerts: []string{"InferenceDecodeSpeedCollapse"},
			Queries: []Query{{
				Expr: "max by (endpoint, model) (avg_over_time(" + ofProbes.of("inference_probe_last_output_tokens_per_second") + "[15m]))" +
					" / max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_decode_ceiling_tokens_per_second") + ")", Legend: name,
			}},
			Min: ptr(0.0), SoftMax: ptr(1.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no hardware is configured",
		},
		{
			Title: "Prefill against the ceiling", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Of the arithmetic of the configured GPUs: what the prefill of probes reaches, by the slope of TTFT over the length of prompts, and what all requests together use, as servers estimate it (use). Long prompts can reach a half and more; use is small in decode, which the memory bounds.", By: ByBoth,
			Worry: "prefill falls at the same load: clocks are lower, or the GPU converts numbers that it does not multiply natively.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{
				{Expr: "max by (endpoint, model) (avg_over_time(" + ofEndpoint.of("inference_probe_prefill_tokens_per_second", `stat="estimate"`) + "[15m]))" +
					" / max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_prefill_ceiling_tokens_per_second") + ")", Legend: name},
				{Expr: "max by (endpoint, model) (rate(" + ofEndpoint.of("inference_server_estimated_flops_per_gpu_total") + "[5m]))" +
					" / max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_gpu_peak_flops") + ")", Legend: "use " + name, Reference: true},
			},
			Min: ptr(0.0), SoftMax: ptr(1.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no hardware, or no precision of it, is configured",
		},
		endpointRanking(Panel{
			Title: "GPU-hours idle in 24 hours", Unit: "h", Width: 12, Height: 8,
			What: "GPUs of each endpoint's servers, as configured, times the hours of the last 24 in which the server was seen without a request; the twenty highest. Minutes without data are not counted, so that it grows through the first day.", By: ByServer,
			Worry: "many hours are idle every day: fewer replicas are enough.",
			Queries: []Query{{
				Expr: "topk(20, sum by (endpoint, model) (sum_over_time((max by (endpoint, model, server) (" + ofEndpoint.of("inference_server_requests_running") + ") == bool 0)[1d:1m])) / 60" +
					" * max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_gpus") + "))",
			}},
			Min: ptr(0.0), NoValue: "no GPUs are configured",
		}, "Idle", fromRow(uidEngine, "Servers")),
		ranking(Panel{
			Title: "Error budget left, 30 days, by model", Unit: "percentunit", Width: 12, Height: 8,
			What: "Mean over the endpoints of a model of what is left of the error budget of 30 days, for each objective; the twenty worst." + budgetLag, By: ByRules,
			Worry: "a model is under a quarter.", Alerts: []string{"InferenceErrorBudgetSlowBurn"},
			Queries: []Query{{Expr: "bottomk(20, avg by (model, slo) (" + budgetLeft() + "))"}},
			Steps:   budgetSteps(), Min: ptr(0.0), NoValue: noProber,
		}, "Left", Column{Label: "model", Title: "Model"}, Column{Label: "slo", Title: "Objective", Width: 130}),
	}
}

func capacityTrend() []Panel {
	peak := "max_over_time(" + ofRecorded.of("endpoint:inference_server_kv_cache_usage_ratio:max1h") + "[1d:1h])"
	running := "endpoint:inference_server_requests_running:sum"
	return []Panel{
		{
			Title: "Peak concurrency each hour, 7 days", Viz: TimeSeries, Unit: "none", Width: 24, Height: 8, TimeFrom: "7d",
			What: "The most requests that ran at once in each hour on all servers of a model, over the last 7 days.", By: ByServer,
			Worry: "the peaks of the day grow from week to week.", Alerts: []string{"InferenceQueueSaturated"},
			Queries: []Query{
				{Expr: "sum by (model) (max_over_time(" + ofRecorded.of(running) + "[1h]))", Legend: "{{model}}"},
				{Expr: "sum by (model) (max_over_time(" + ofRecorded.of(running) + "[1h] offset 1w))", Legend: "a week before {{model}}", Reference: true},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		endpointRanking(Panel{
			Title: "KV cache: peak in 7 days' time", Unit: "percentunit", Width: 12, Height: 8,
			What: "Where the daily peak of the KV cache will be in 7 days by a straight line through the last 14; the twenty highest. It needs some days of data.", By: ByServer,
			Worry: "it is over 100 %: add replicas before.", Alerts: []string{"InferenceKVCacheSaturated"},
			Queries: []Query{{Expr: "topk(20, max by (endpoint, model) (predict_linear(" + peak + "[14d:1d], 604800)))"}},
			Steps:   []Step{{0, "green"}, {0.85, "yellow"}, {1, "red"}}, Min: ptr(0.0), NoValue: "no past yet",
		}, "Peak then", fromRow(uidEngine, "Servers")),
		endpointRanking(Panel{
			Title: "Days until the KV cache is full", Unit: "suffix: d", Width: 12, Height: 8,
			What: "Days until the daily peak of the KV cache reaches 95 % by the straight line of the last 14 days; the twenty soonest of those where it rises.", By: ByServer,
			Worry: "it is shorter than new hardware takes.", Alerts: []string{"InferenceKVCacheSaturated"},
			Queries: []Query{{Expr: "bottomk(20, max by (endpoint, model) ((0.95 - " + peak + ") / (86400 * deriv(" + peak + "[14d:1d]) > 0)))"}},
			Steps:   []Step{{lowest, "red"}, {14, "yellow"}, {60, "green"}}, Min: ptr(0.0), Max: ptr(90.0), NoValue: "it does not rise, or no past yet",
		}, "Days", fromRow(uidEngine, "Servers")),
	}
}

func capacityProbing() []Panel {
	output := func(window string) string {
		return sumRate("endpoint, model", window, "inference_probe_output_tokens_total", ofEndpoint)
	}
	return []Panel{
		{
			Title: "Tokens an hour that probes use", Viz: TimeSeries, Unit: "short", Width: 8, Height: 8, Stacked: true,
			What: "Prompt and output tokens an hour of the probes of each endpoint; the ten highest.", By: ByProbe,
			Worry: "it is more than you want to pay for: lengthen intervals or shorten prompts.",
			Queries: []Query{
				{Expr: worst(10, "endpoint, model", "3600 * "+sumRate("endpoint, model", "15m", "inference_probe_prompt_tokens_total", ofEndpoint), "increase("+ofEndpoint.of("inference_probe_prompt_tokens_total")+"[$__range] @ end())"), Legend: "prompt " + name},
				{Expr: worst(10, "endpoint, model", "3600 * "+output("15m"), "increase("+ofEndpoint.of("inference_probe_output_tokens_total")+"[$__range] @ end())"), Legend: "output " + name},
			},
			Min: ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noProber,
		},
		endpointRanking(Panel{
			Title: "Tokens of the last 24 hours", Unit: "short", Width: 8, Height: 8,
			What: "Prompt and output tokens of the probes of the last 24 hours; the twenty highest.", By: ByProbe,
			Worry: "one endpoint uses far more than the others.",
			Queries: []Query{{
				Expr: "topk(20, sum by (endpoint, model) (increase(" + ofEndpoint.of("inference_probe_prompt_tokens_total") + "[1d])) + sum by (endpoint, model) (increase(" + ofEndpoint.of("inference_probe_output_tokens_total") + "[1d])))",
			}},
			Min: ptr(0.0), NoValue: noProber,
		}, "Tokens", fromRow(uidEndpoint, "Endpoint")),
		endpointRanking(Panel{
			Title: "Share of the load that is probes", Unit: "percentunit", Width: 8, Height: 8,
			What: "Output tokens of the probes, of all tokens that the servers generated in the same 15 minutes; the twenty highest.", By: ByBoth,
			Worry:   "it is more than a few percent on a busy server: the probes are part of the problem.",
			Queries: []Query{{Expr: "topk(20, clamp_max(" + output("15m") + " / (" + generated("15m") + " > 0), 1))"}},
			Steps:   []Step{{0, "green"}, {0.05, "yellow"}, {0.2, "red"}}, Min: ptr(0.0), NoValue: noPage,
		}, "Of the load", fromRow(uidEndpoint, "Endpoint")),
	}
}

// capacityKnee is the load that an endpoint carries, by its bursts.
func capacityKnee() []Panel {
	knee := func(name string) string {
		return "max by (endpoint, model, module) (" + ofEndpoint.of(name) + ")"
	}
	return []Panel{
		endpointRanking(Panel{
			Title: "Load against the knee", Unit: "percentunit", Width: 12, Height: 8,
			What: "Tokens a second that the servers generate now, of those that the smallest burst got that missed the objectives, or 100 % where they are more; the twenty nearest to it. Endpoints that carry all bursts have no knee and are not here.", By: ByBoth,
			Worry: "it is near 100 %: users are at the load at which probes were too slow.", Alerts: []string{"InferenceBurstKneeFell", "InferenceQueueSaturated"},
			Queries: []Query{{
				Expr: "topk(20, clamp_max(" + generated("5m") +
					" / max by (endpoint, model) (" + ofEndpoint.of("inference_probe_burst_knee_tokens_per_second") + "), 1))",
			}},
			Steps: []Step{{0, "green"}, {0.7, "yellow"}, {0.9, "red"}}, Min: ptr(0.0), NoValue: "no knee, or no bursts",
		}, "Of the knee", fromRow(uidEndpoint, "Endpoint")),
		{
			Title: "Knee, 30 days", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8, TimeFrom: "30d",
			What: "Size of the smallest burst that missed the objectives over the last 30 days. A gap means that all of them met them.", By: ByProbe,
			Worry: "it falls from week to week.", Alerts: []string{"InferenceBurstKneeFell"},
			Queries: []Query{{Expr: knee("inference_probe_burst_knee_concurrency"), Legend: name + " {{module}}"}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no knee, or no bursts",
		},
	}
}

// capacityMoney is what endpoints and their probes cost.
func capacityMoney() []Panel {
	return []Panel{
		{
			Title: "Cost of a million output tokens", Viz: TimeSeries, Unit: "suffix: $", Width: 12, Height: 8, Log: true,
			What: "Price of the GPUs of an endpoint over what its servers generated in an hour, for all requests. It falls with load, as an idle GPU costs the same: the axis is logarithmic, as that of an idle endpoint has no end.", By: ByBoth,
			Worry:   "it is above what a service would charge, day and night.",
			Queries: []Query{{Expr: "1e6 / 3600 * max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_price_usd_per_hour") + ") / on (endpoint, model) (" + generated("1h") + " > 0)", Legend: name}},
			Links:   []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no price by the hour, or no page of the servers",
		},
		{
			Title: "Prices", Viz: Table, Width: 12, Height: 8,
			What: "What each endpoint costs, as configured: its GPUs by the hour, or a million tokens of the prompt, of the cached part of it, and of the answer.", By: ByConfig,
			Worry: "it is not what the bill says.",
			Queries: []Query{
				{Expr: "max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_price_usd_per_hour") + ")"},
				{Expr: pricePerMillion("input")},
				{Expr: pricePerMillion("cached_input")},
				{Expr: pricePerMillion("output")},
			},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint"},
				{Label: "model", Title: "Model"},
				{Query: 0, Title: "$/h"},
				{Query: 1, Title: "$/M input"},
				{Query: 2, Title: "$/M cached"},
				{Query: 3, Title: "$/M output"},
			},
			Sort: []Order{{Title: "$/M output", Desc: true}, {Title: "$/h", Desc: true}}, NoValue: "no price is configured",
		},
		endpointRanking(Panel{
			Title: "Spent on probes in 24 hours", Unit: "suffix: $", Width: 8, Height: 8,
			What: "What the tokens of the probes of the last 24 hours cost, where tokens have a price; the twenty highest.", By: ByProbe,
			Worry: "it is more than you want to pay: lengthen intervals or shorten prompts.", Alerts: []string{"InferenceProbeBudgetExhausted"},
			Queries: []Query{{Expr: "topk(20, " + sumIncrease("endpoint, model", "1d", "inference_probe_cost_usd_total", ofEndpoint) + " > 0)"}},
			Min:     ptr(0.0), NoValue: "no price of tokens is configured",
		}, "Spent", fromRow(uidEndpoint, "Endpoint")),
		ranking(Panel{
			Title: "Budget used", Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of their budgets that probes have used: tokens over the last hour, US dollars over the last 24. The twenty highest of the endpoints' own and of whole exporters.", By: ByExporter,
			Worry: "it is at 100 %: probes do not run.", Alerts: []string{"InferenceProbeBudgetExhausted"},
			Queries: []Query{{
				Expr: "topk(20, max by (endpoint, resource) (" + ofEndpoint.of("inference_endpoint_budget_used_ratio") + ")" +
					" or max by (instance, resource) (" + ofJob.of("inference_exporter_budget_used_ratio") + "))",
			}},
			Steps: []Step{{0, "green"}, {0.8, "yellow"}, {0.95, "red"}}, Min: ptr(0.0), NoValue: "no budget is configured",
		}, "Used", Column{Label: "resource", Title: "Of", Width: 80}, Column{Label: "endpoint", Title: "Endpoint"}, Column{Label: "instance", Title: "Exporter"}),
		{
			Title: "Probes left out for the budget", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8, Stacked: true,
			What: "Probes a minute that were due and would have exceeded a budget.", By: ByExporter,
			Worry: "it is not 0: the endpoint is not watched meanwhile.", Alerts: []string{"InferenceProbeBudgetExhausted"},
			Queries: []Query{{
				Expr: "60 * " + sumRate("endpoint, model, module", "15m", "inference_probe_skipped_total", ofEndpoint, `reason="budget"`) + " > 0", Legend: name + " {{module}}",
			}},
			Min: ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noneOfProbes,
		},
	}
}

// pricePerMillion is the price of a million tokens of a kind.
func pricePerMillion(kind string) string {
	return "1e6 * max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_price_usd_per_token", `kind="`+kind+`"`) + ")"
}
