package main

// capacityKnee is what bursts tell of the load that an endpoint carries.
func capacityKnee() []Panel {
	knee := func(name string) string {
		return "max by (endpoint, model, module) (" + ofEndpoint.of(name) + ")"
	}
	return []Panel{
		{
			Title: "Load against the knee", Viz: BarGauge, Unit: "percentunit", Width: 12, Height: 8,
			What: "Tokens a second that the servers generate now, of those that they generated in the smallest burst that missed the objectives; the twenty nearest to it. Endpoints that carry all bursts have no knee and are not here.", By: ByBoth,
			Worry: "it is near 100 %: users are at the load at which probes were too slow.", Alerts: []string{"InferenceBurstKneeFell", "InferenceQueueGrowing"},
			Queries: []Query{{
				Expr: "topk(20, " + recorded("endpoint:inference_server_generation_tokens:rate5m") +
					" / max by (endpoint, model) (" + ofEndpoint.of("inference_probe_burst_knee_tokens_per_second") + "))", Legend: name,
			}},
			Steps: []Step{{0, "green"}, {0.7, "yellow"}, {0.9, "red"}}, Min: ptr(0.0), Max: ptr(1.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no knee, or no bursts",
		},
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
			Title: "Cost of a million output tokens", Viz: TimeSeries, Unit: "suffix: $", Width: 8, Height: 8,
			What: "Price of the GPUs of an endpoint over what its servers generated in an hour, for all requests. It falls with load, for an idle GPU costs the same.", By: ByBoth,
			Worry:   "it is above what a service would charge, day and night.",
			Queries: []Query{{Expr: recorded("endpoint:inference_usd_per_million_output_tokens:rate1h"), Legend: name}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no price by the hour, or no page of the servers",
		},
		{
			Title: "Prices", Viz: Table, Width: 8, Height: 8,
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
			NoValue: "no price is configured",
		},
		{
			Title: "Spent on probes in 24 hours", Viz: BarGauge, Unit: "suffix: $", Width: 8, Height: 8,
			What: "What the tokens of the probes of the last 24 hours cost, where tokens have a price; the twenty highest.", By: ByProbe,
			Worry: "it is more than the watching is worth: lengthen intervals or shorten prompts.", Alerts: []string{"InferenceProbeBudgetExhausted"},
			Queries: []Query{{Expr: "topk(20, " + recorded("endpoint:inference_probe_cost_usd:increase1d") + ")", Legend: name}},
			Min:     ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no price of tokens is configured",
		},
		{
			Title: "Budget used", Viz: BarGauge, Unit: "percentunit", Width: 12, Height: 7,
			What: "Share of their budgets that probes have used: tokens over the last hour, US dollars over the last 24. The twenty highest of the endpoints' own, and that of all together.", By: ByExporter,
			Worry: "it is at 100 %: probes do not run, and nobody watches.", Alerts: []string{"InferenceProbeBudgetExhausted"},
			Queries: []Query{
				{Expr: "topk(20, max by (endpoint, model, resource) (" + ofEndpoint.of("inference_endpoint_budget_used_ratio") + "))", Legend: "{{resource}} " + name},
				{Expr: "max by (instance, resource) (" + ofJob.of("inference_exporter_budget_used_ratio") + ")", Legend: "{{resource}} of all, {{instance}}"},
			},
			Steps: []Step{{0, "green"}, {0.8, "yellow"}, {0.95, "red"}}, Min: ptr(0.0), Max: ptr(1.0), NoValue: "no budget is configured",
		},
		{
			Title: "Probes left out for the budget", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 7, Stacked: true,
			What: "Probes a minute that were due and would have exceeded a budget.", By: ByExporter,
			Worry: "it is not 0: the endpoint is not watched meanwhile.", Alerts: []string{"InferenceProbeBudgetExhausted"},
			Queries: []Query{{
				Expr: "60 * " + sumRate("endpoint, model, module", "15m", "inference_probe_skipped_total", ofEndpoint, `reason="budget"`) + " > 0", Legend: name + " {{module}}",
			}},
			Min: ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "none, if there was a probe",
		},
	}
}

// pricePerMillion is the price of a million tokens of a kind.
func pricePerMillion(kind string) string {
	return "1e6 * max by (endpoint, model) (" + ofEndpoint.of("inference_endpoint_price_usd_per_token", `kind="`+kind+`"`) + ")"
}
