package main

// byModule tells probes apart by what they ask.
const byModule = "module, prefix, input_tokens, output_tokens"

// module names a series of probes of one endpoint.
const module = "{{module}} {{prefix}} {{input_tokens}} {{output_tokens}}"

func endpoint() Board {
	return Board{
		UID: uidEndpoint, Title: "Inference / Endpoint",
		Question:  "Is this endpoint up for users, is it slow, and which part is slow?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(true)},
		Marks:     []Mark{alertMark(), changeMark(), serverMark(), exporterMark(), reloadMark()},
		From:      "now-3h",
		Rows: []Row{
			{Panels: endpointNow()},
			{Title: "Time to first token", Panels: endpointTTFT()},
			{Title: "Where the time goes", Panels: endpointParts()},
			{Title: "Tokens after the first", Panels: endpointTokens()},
			{Title: "Failures", Panels: endpointFailures()},
			{Title: "Objectives", Panels: endpointObjectives()},
			{Title: "Prompts: length and prefix cache", Collapsed: true, Panels: endpointPrompts()},
			{Title: "Bursts", Collapsed: true, Panels: endpointBursts()},
			{Title: "Quality and changes", Collapsed: true, Panels: endpointQuality()},
			{Title: "Probers", Collapsed: true, Panels: endpointProbers()},
		},
	}
}

// threshold draws the objective of a latency beside its readings.
func threshold(slo string) Query {
	return Query{
		Expr:   "max by (" + byModule + ") (" + ofEndpoint.of("inference_slo_threshold_seconds", `slo="`+slo+`"`) + ")",
		Legend: "objective " + module, Limit: true,
	}
}

func endpointNow() []Panel {
	return []Panel{
		{
			Title: "State", Viz: Stat, Width: 5, Height: 5,
			What: "Whether the latest probe succeeded, for each module, by the prober that gets on best.", By: ByProbe,
			Worry: "it is failed for more than a minute: a first failure is confirmed within seconds.", Alerts: []string{"InferenceEndpointDown"},
			Queries: []Query{{Expr: "max by (" + byModule + ") (" + ofProbes.of("inference_probe_success") + ")", Legend: module}},
			States:  upStates, NoValue: noProber,
		},
		{
			Title: "Since the last success", Viz: Stat, Unit: "s", Width: 5, Height: 5,
			What: "Time since the start of the latest probe that succeeded, for each module.", By: ByProbe,
			Worry: "it is longer than a few intervals of the module.", Alerts: []string{"InferenceEndpointDown", "InferenceProbeStale"},
			Queries: []Query{{Expr: "time() - max by (" + byModule + ") (" + ofProbes.of("inference_probe_last_success_timestamp_seconds") + " > 0)", Legend: module}},
			NoValue: "never succeeded, or no prober",
		},
		{
			Title: "Main failure of the last hour", Viz: Stat, Width: 5, Height: 5, Names: true,
			What: "How most of the probes that failed in the last hour ended.", By: ByProbe,
			Worry: "there is one at all; the row Failures shows when.", Alerts: []string{"InferenceProbeFailing"},
			Queries: []Query{{Expr: "topk(1, " + sumIncrease("outcome", "1h", "inference_probe_results_total", ofProbes, `outcome!~"success|canceled"`) + " > 0)", Legend: "{{outcome}}"}},
			NoValue: "none, if there was a probe",
		},
		{
			Title: "Error budget left, 30 days", Viz: BarGauge, Unit: "percentunit", Width: 5, Height: 5,
			What: "What is left of the error budget of 30 days, for each objective. Below 0 the objective is missed." + budgetLag,
			By:   ByRules, Worry: "it is under a quarter.", Alerts: []string{"InferenceAvailabilitySlowBurn", "InferenceTTFTSlowBurn"},
			Queries: []Query{{Expr: "min by (slo) (" + budgetLeft() + ")", Legend: "{{slo}}"}},
			Steps:   []Step{{0, "red"}, {0.25, "yellow"}, {0.5, "green"}}, Min: ptr(0.0), Max: ptr(1.0), NoValue: noProber,
		},
		{
			Title: "Certificate expires in", Viz: Stat, Unit: "s", Width: 4, Height: 5,
			What: "Time until the first certificate of the server's chain expires.", By: ByProbe,
			Worry: "it is under 14 days.", Alerts: []string{"InferenceCertificateExpiring"},
			Queries: []Query{{Expr: "min(" + ofEndpoint.of("inference_probe_tls_cert_not_after_timestamp_seconds") + ") - time()", Legend: "expires"}},
			Steps:   []Step{{0, "red"}, {3 * 86400, "yellow"}, {14 * 86400, "green"}}, NoValue: "no TLS",
		},
		{
			Title: "What answers", Viz: Table, Width: 24, Height: 4,
			What: "The model that the endpoint serves, the API it speaks and its engine, as far as they are known.", By: ByConfig,
			Worry:   "it is not what was deployed.",
			Queries: []Query{{Expr: "max by (endpoint, model, api, engine, url) (" + ofEndpoint.of("inference_endpoint_info") + ")"}},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEngine, "Servers")}},
				{Label: "model", Title: "Model"},
				{Label: "api", Title: "API"},
				{Label: "engine", Title: "Engine"},
				{Label: "url", Title: "URL"},
			},
			NoValue: noProber,
		},
	}
}

func endpointTTFT() []Panel {
	last := ofProbes.of("inference_probe_last_ttft_seconds") + "[$__rate_interval]"
	window := func(stat string) Query {
		return Query{Expr: "max by (" + byModule + ") (" + ofProbes.of("inference_probe_ttft_window_seconds", `stat="`+stat+`"`) + ")", Legend: stat + " " + module}
	}
	return []Panel{
		{
			Title: "TTFT of the probes", Viz: TimeSeries, Unit: "s", Width: 12, Height: 9,
			What: "Time to first token of the probes that succeeded: the highest and the median of each step, and the objective. It starts when the request is sent on a ready connection, so that connection set-up is not in it.",
			By:   ByProbe, Worry: "the median is over the dashed line. Single peaks over it are what the objective allows for.", Alerts: []string{"InferenceTTFTDegradedNow", "InferenceTTFTFastBurn"},
			Queries: []Query{
				{Expr: "max by (" + byModule + ") (max_over_time(" + last + "))", Legend: "max " + module},
				{Expr: "max by (" + byModule + ") (quantile_over_time(0.5, " + last + "))", Legend: "median " + module},
				threshold("ttft"),
			},
			Min: ptr(0.0), Links: []Link{fromBoard(uidEngine, "Servers")}, NoValue: noProber,
		},
		{
			Title: "TTFT distribution", Viz: Heatmap, Unit: "s", Width: 12, Height: 9,
			What: "How many probes had which time to first token.", By: ByProbe,
			Worry: "all of it moves up (everything is slower), or a second band appears (one of several replicas, or a cache that is missed).", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{{Expr: distribution("inference_probe_ttft_seconds", ofProbes), Legend: "{{le}}"}},
			NoValue: noProber,
		},
		{
			Title: "What is proven of the p99 of TTFT", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "The p99 over the last hour lies between p99_lower and p99_upper, each with 95 % confidence; p50 is the median. p99 itself is the estimate and jumps; it needs 100 probes, and the upper bound 299. Failures before the first token count as infinitely slow.",
			By:   ByProbe, Worry: "p99_lower is over the objective: that it is missed is proven then.", Alerts: []string{"InferenceTTFTFastBurn"},
			Queries: []Query{window("p50"), window("p99_lower"), window("p99"), window("p99_upper"), threshold("ttft")},
			Min:     ptr(0.0), NoValue: "too few probes, or no prober",
		},
		{
			Title: "Probes in that hour", Viz: Stat, Width: 4, Height: 8,
			What: "How many probes the panel beside rests on, for each module.", By: ByProbe,
			Worry:   "it is under 299: nothing bounds the p99 from above then.",
			Queries: []Query{{Expr: "max by (" + byModule + ") (" + ofProbes.of("inference_probe_ttft_window_samples") + ")", Legend: module}},
			Steps:   []Step{{0, "yellow"}, {299, "green"}}, NoValue: noProber,
		},
		{
			Title: "Median TTFT against last week", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token over 30 minutes, now and at the same time a week ago.", By: ByRules,
			Worry: "now is more than half as much again as then.", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{
				{Expr: "max by (" + byModule + ") (" + ofRecorded.of("module:inference_probe_ttft_seconds:median30m") + ")", Legend: "now " + module},
				{Expr: "max by (" + byModule + ") (" + ofRecorded.of("module:inference_probe_ttft_seconds:median30m") + " offset 1w)", Legend: "a week ago " + module, Limit: true},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
	}
}

func endpointParts() []Panel {
	return []Panel{
		{
			Title: "Phases of a probe", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8, Stacked: true,
			What: "Mean duration of the consecutive parts of the probes that succeeded; together they are the whole probe.", By: ByProbe,
			Worry: "dns, connect or tls grow: that is the network. first_byte and first_token: that is the server or a gateway. decode: see the row below.", Alerts: []string{"InferenceE2EFastBurn"},
			Queries: []Query{{Expr: classicMean("phase", "5m", "inference_probe_phase_seconds", ofProbes), Legend: "{{phase}}"}},
			Min:     ptr(0.0), NoValue: noProber,
		},
		{
			Title: "TTFT outside and inside", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Mean time to first token as the probes see it, and as the servers tell of all requests.", By: ByBoth,
			Worry: "the two part: the time is lost between the user and the engine, in a gateway, a balancer or the server's front end.", Alerts: []string{"InferenceClientServerGap"},
			Queries: []Query{
				{Expr: mean("model", "5m", "inference_probe_ttft_seconds", ofProbes), Legend: "probes {{model}}"},
				{Expr: classicMean("model", "5m", "inference_server_ttft_seconds", ofEndpoint), Legend: "servers {{model}}"},
			},
			Min: ptr(0.0), Links: []Link{fromBoard(uidEngine, "Servers")}, NoValue: noProber,
		},
		{
			Title: "What lies between", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Time to first token as the probes see it, less what the server says: network, gateway and client. reply compares one and the same request; histogram compares means, and is negative where other requests are slower than the probes. Each prober has its own.",
			By:   ByBoth, Worry: "it grows against its own past.", Alerts: []string{"InferenceClientServerGap"},
			Queries: []Query{{Expr: "max by (source, instance) (" + ofEndpoint.of("inference_endpoint_ttft_overhead_seconds") + ")", Legend: "{{source}} {{instance}}"}},
			NoValue: "the servers do not tell their TTFT",
		},
		{
			Title: "The server's own account", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8, Stacked: true,
			What: "Mean time of the probes in the server's queue, in prefill and in decode, as the replies tell.", By: ByServer,
			Worry: "queue grows: the server is saturated.", Alerts: []string{"InferenceQueueGrowing"},
			Queries: []Query{{Expr: classicMean("phase", "5m", "inference_probe_server_time_seconds", ofProbes), Legend: "{{phase}}"}},
			Min:     ptr(0.0), NoValue: "the replies do not tell",
		},
		{
			Title: "Whole probe", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Median duration of the probes that succeeded over 30 minutes, from the request to the end of the reply, connection set-up included, and the objective.",
			By:   ByProbe, Worry: "it nears the dashed line.", Alerts: []string{"InferenceE2EFastBurn", "InferenceE2ESlowBurn"},
			Queries: []Query{
				{Expr: quantile(0.5, byModule, "30m", "inference_probe_duration_seconds", ofProbes), Legend: "median " + module},
				threshold("e2e"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
	}
}
