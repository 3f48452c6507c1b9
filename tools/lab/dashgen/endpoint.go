package main

import "slices"

// byModule groups probes by what they ask.
const byModule = "module, prefix, input_tokens, output_tokens"

// module names a series of probes of one endpoint.
const module = "{{module}} {{prefix}} {{input_tokens}} {{output_tokens}}"

func endpoint() Board {
	return Board{
		UID: uidEndpoint, Title: "Inference / Endpoint",
		Question:  "Is this endpoint up for users, is it slow, and which part is slow?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(true)},
		Marks:     []Mark{alertMark(), stepMark(), changeMark(), serverMark(), exporterMark(), reloadMark()},
		From:      "now-3h",
		Rows: []Row{
			{Panels: endpointNow()},
			{Title: "Time to first token", Panels: endpointTTFT()},
			{Title: "Where the time goes", Panels: append(endpointParts(), endpointTTFTParts()...)},
			{Title: "Tokens after the first", Panels: slices.Concat(endpointTokens(), endpointSmoothness(), endpointMemory())},
			{Title: "Failures", Panels: endpointFailures()},
			{Title: "Objectives", Panels: endpointObjectives()},
			{Title: "Prompts: length and prefix cache", Collapsed: true, Panels: endpointPrompts()},
			{Title: "Conversations and traffic", Collapsed: true, Panels: slices.Concat(endpointConversations(), endpointTraffic())},
			{Title: "Bursts", Collapsed: true, Panels: endpointBursts()},
			{Title: "Quality and changes", Collapsed: true, Panels: slices.Concat(endpointQuality(), endpointCalls(), endpointDrift(), endpointIntegrity())},
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
			What: "Whether the latest probe succeeded, for each module, by the prober with the best result.", By: ByProbe,
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
			Worry: "there is any; the row Failures shows when.", Alerts: []string{"InferenceProbeFailing"},
			Queries: []Query{{Expr: "topk(1, " + sumIncrease("outcome", "1h", "inference_probe_results_total", ofProbes, `outcome!~"success|canceled"`) + " > 0)", Legend: "{{outcome}}"}},
			NoValue: noneOfProbes,
		},
		{
			Title: "Error budget left, 30 days", Viz: BarGauge, Unit: "percentunit", Width: 5, Height: 5,
			What: "What is left of the error budget of 30 days, for each objective. Below 0 the objective is missed." + budgetLag,
			By:   ByRules, Worry: "it is under a quarter.", Alerts: []string{"InferenceAvailabilitySlowBurn", "InferenceTTFTSlowBurn"},
			Queries: []Query{{Expr: "min by (slo) (" + budgetLeft() + ")", Legend: "{{slo}}"}},
			Steps:   budgetSteps(), Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Certificate expires in", Viz: Stat, Unit: "s", Width: 4, Height: 5,
			What: "Time until the first certificate of the server's chain expires.", By: ByProbe,
			Worry: "it is under 14 days.", Alerts: []string{"InferenceCertificateExpiring"},
			Queries: []Query{{Expr: "min(" + ofEndpoint.of("inference_probe_tls_cert_not_after_timestamp_seconds") + ") - time()", Legend: "expires"}},
			Steps:   []Step{{lowest, "red"}, {3 * 86400, "yellow"}, {14 * 86400, "green"}}, NoValue: "no TLS",
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
			Sort: []Order{{Title: "Endpoint"}, {Title: "Model"}}, NoValue: noProber,
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
			By:   ByProbe, Worry: "the median is over the dashed line. Single peaks over it are what the objective allows for.", Alerts: []string{"InferenceTTFTDegradedNow"},
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
			Worry: "the whole band moves up (everything is slower), or a second band appears (one of several replicas, or a cache that is missed).", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{{Expr: distribution("inference_probe_ttft_seconds", ofProbes), Legend: "{{le}}"}},
			NoValue: noProber,
		},
		{
			Title: "What is proven of the p99 of TTFT", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "The p99 over the last hour lies between p99_lower and p99_upper, each with 95 % confidence; p50 is the median. p99 itself is the estimate and jumps; it needs 100 probes, and the upper bound 299. Failures before the first token count as infinitely slow.",
			By:   ByProbe, Worry: "p99_lower is over the objective: it is then proven that the objective is missed.", Alerts: []string{"InferenceTTFTDegradedNow"},
			Queries: []Query{window("p50"), window("p99_lower"), window("p99"), window("p99_upper"), threshold("ttft")},
			Min:     ptr(0.0), NoValue: "too few probes, or no prober",
		},
		{
			Title: "Probes in that hour", Viz: Stat, Width: 4, Height: 8,
			What: "Number of probes behind the panel to the left, for each module.", By: ByProbe,
			Worry:   "it is under 299: the p99 then has no upper bound.",
			Queries: []Query{{Expr: "max by (" + byModule + ") (" + ofProbes.of("inference_probe_ttft_window_samples") + ")", Legend: module}},
			Steps:   []Step{{0, "yellow"}, {299, "green"}}, NoValue: noProber,
		},
		{
			Title: "Median TTFT against last week", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token over 30 minutes, now and at the same time a week ago.", By: ByRules,
			Worry: "it is more than 1.5 times as long as a week ago.", Alerts: []string{"InferenceLatencyRegression"},
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
			Worry: "dns, connect or tls grow: that is the network. first_byte and first_token: that is the server or a gateway. decode: see the row below.", Alerts: []string{"InferenceTTFTDegradedNow"},
			Queries: []Query{{Expr: classicMean("phase", "5m", "inference_probe_phase_seconds", ofProbes), Legend: "{{phase}}"}}, Named: phaseColors,
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "TTFT outside and inside", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Mean time to first token as the probes see it, and as the servers report it for all requests.", By: ByBoth,
			Worry: "the two lines diverge: the time is lost between the user and the engine, in a gateway, a balancer or the server's front end.", Alerts: []string{"InferenceClientServerGap"},
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
			NoValue: "the servers do not report their TTFT",
		},
		{
			Title: "The server's own account", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8, Stacked: true,
			What: "Mean time of the probes in the server's queue, in prefill and in decode, as the replies report it.", By: ByServer,
			Worry: "queue grows: the server is saturated.", Alerts: []string{"InferenceQueueGrowing"},
			Queries: []Query{{Expr: classicMean("phase", "5m", "inference_probe_server_time_seconds", ofProbes), Legend: "{{phase}}"}}, Named: phaseColors,
			Min: ptr(0.0), NoValue: "the replies do not report it",
		},
		{
			Title: "Whole probe", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Median duration of the probes that succeeded over 30 minutes, from the request to the end of the reply, connection set-up included, and the objective.",
			By:   ByProbe, Worry: "it comes close to the dashed line.",
			Queries: []Query{
				{Expr: quantile(0.5, byModule, "30m", "inference_probe_duration_seconds", ofProbes), Legend: "median " + module},
				threshold("e2e"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
	}
}

func endpointTokens() []Panel {
	return []Panel{
		{
			Title: "TPOT", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Time per output token after the first: the median over 30 minutes, one observation for each probe, and the objective.", By: ByProbe,
			Worry: "it comes close to the dashed line.", Alerts: []string{"InferenceTPOTDegradedNow", "InferenceTPOTRegression"},
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
				{Expr: ceilingByPrecision(), Legend: "ceiling of one sequence {{weights_precision}}/{{compute_precision}}", Limit: true},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Time to first visible output", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median over 30 minutes of TTFO: to the first event that a user sees, reasoning left out. Equal to TTFT for a model that does not reason.", By: ByProbe,
			Worry: "it grows while TTFT does not: the model reasons longer.",
			Queries: []Query{{Expr: "(" + quantile(0.5, byModule, "30m", "inference_probe_ttfo_seconds", ofProbes) + ") or (" +
				quantile(0.5, byModule, "30m", "inference_probe_ttft_seconds", ofProbes) + ")", Legend: module}}, // which alone a compact page has of equal ones
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Prompt tokens from the prefix cache", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the probes' prompt tokens that came from the prefix cache, as the replies report it. Near 0 for cold probes, near 1 for warm ones.", By: ByServer,
			Worry: "it falls for warm probes: the cache is lost, or requests go to another replica each time.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{
				Expr: sumRate(byModule, "15m", "inference_probe_cached_prompt_tokens_total", ofProbes) + " / " +
					sumRate(byModule, "15m", "inference_probe_prompt_tokens_total", ofProbes), Legend: module,
			}},
			Min: ptr(0.0), NoValue: "the replies do not report it",
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
			Named:   outcomeColors, Min: ptr(0.0), NoValue: noneOfProbes,
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
			Min: ptr(0.0), SoftMax: ptr(0.1), NoValue: noneOfProbes,
		},
		{
			Title: "Successes with a flaw", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the good probes of 15 minutes whose answer came in one burst (buffered), without the protocol's end marker or a finish reason, with more events than tokens or with more tokens than max_tokens allows, and of those that are in no latency: the exporter could not measure them well (imprecise), or ran a burst at the same time (disturbed).", By: ByProbe,
			Worry: "buffered is not 0: a proxy holds streams back, and TTFT is the whole answer. more events than tokens: a gateway adds text of its own, and there is no TTFT. imprecise: the exporter has too little CPU.", Alerts: []string{"InferenceStreamsBuffered", "InferenceMeasurementSuspect"},
			Queries: []Query{
				{Expr: share("inference_probe_buffered_total"), Legend: "buffered {{module}}"},
				{Expr: share("inference_probe_no_end_marker_total"), Legend: "no end marker {{module}}"},
				{Expr: share("inference_probe_no_finish_reason_total"), Legend: "no finish reason {{module}}"},
				{Expr: share("inference_probe_more_events_than_tokens_total"), Legend: "more events than tokens {{module}}"},
				{Expr: share("inference_probe_max_tokens_ignored_total"), Legend: "max_tokens ignored {{module}}"},
				{Expr: share("inference_probe_imprecise_total"), Legend: "imprecise {{module}}"},
				{Expr: share("inference_probe_disturbed_total"), Legend: "disturbed {{module}}"},
			},
			Min: ptr(0.0), SoftMax: ptr(0.1), NoValue: noProber,
		},
		{
			Title: "Quota left", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "Requests and tokens that the account may still use, as the replies report it.", By: ByServer,
			Worry: "it is close to 0: the next answers are 429.", Alerts: []string{"InferenceProbeFailing"},
			Queries: []Query{{Expr: "min by (resource) (" + ofEndpoint.of("inference_probe_rate_limit_remaining") + ")", Legend: "{{resource}}"}},
			Min:     ptr(0.0), NoValue: "the replies do not report it",
		},
		{
			Title: "Probes that did not run", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 7, Stacked: true,
			What: "Probes a minute that were due and did not run: the one before still ran (overrun), the server asked to wait or let two probes in a row time out (backoff), too many were in flight (limit), a budget was spent (budget), the prompt has no room in the context (context_length), the server has several models and the configuration names none (model_not_set), the server truncates the prompt (prompt_truncated), a secret, file or credential that the requests need is missing or cannot be used (secret_missing), or the exporter lacks descriptors, memory or ports (resources).", By: ByExporter,
			Worry: "it lasts: what is not probed is not watched.", Alerts: []string{"InferenceScheduleLag", "InferenceProbeStale", "InferenceProbeBudgetExhausted", "InferenceExporterLacksResources"},
			Queries: []Query{{Expr: "60 * " + sumRate("reason", "$__rate_interval", "inference_probe_skipped_total", ofEndpoint), Legend: "{{reason}}"}},
			Min:     ptr(0.0), NoValue: noneOfProbes,
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
			By:   ByRules, Worry: "both windows of one objective are over the line.", Alerts: []string{"InferenceAvailabilityDegradedNow", "InferenceTTFTDegradedNow", "InferenceTPOTDegradedNow"},
			Queries: []Query{burn("5m"), burn("1h")},
			Steps:   []Step{{14.4, "red"}}, Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Burn rate, 6 hours and 3 days", Viz: TimeSeries, Unit: "suffix: x", Width: 12, Height: 8,
			What: "As in the panel to the left, over windows that show slow losses: 1 uses up all of the error budget in 30 days, and 6 in five." + perProbe,
			By:   ByRules, Worry: "it stays over 1 for days.", Alerts: []string{"InferenceAvailabilitySlowBurn", "InferenceTTFTSlowBurn", "InferenceTPOTSlowBurn"},
			Queries: []Query{burn("6h"), burn("3d")},
			Steps:   []Step{{1, "yellow"}, {6, "red"}}, Min: ptr(0.0), NoValue: noProber,
		},
	}
}

// bestProber is whether the latest probe of each module succeeded, by the prober
// with the best result: an endpoint that one of them reaches is not down.
func bestProber() string {
	return "max by (endpoint, model, " + byModule + ") (" + ofProbes.of("inference_probe_success") + ")"
}

// failedByProber is the share of failed probes over a window. by holds instance. It goes
// by the successes, whose counter a compact page has at zero too.
func failedByProber(by, window string) string {
	const name = "inference_probe_results_total"
	return "(1 - " + sumIncrease(by, window, name, ofProbes, `outcome="success"`) +
		" / (" + sumIncrease(by, window, name, ofProbes, `outcome!="canceled"`) + " > 0))"
}

// endpointProbers shows each prober of one endpoint; all other panels add them
// up.
func endpointProbers() []Panel {
	const (
		by     = byModule + ", instance"
		legend = "{{instance}} " + module
		rows   = 10
	)
	success := ofProbes.of("inference_probe_success")
	return []Panel{
		{
			Title: "State by prober", Viz: StateTimeline, Width: 8, Height: 8, MaxRows: rows,
			What: "Whether the latest probe of each prober succeeded, for each module; the ten that failed most in the time range.", By: ByProbe,
			Worry: "one prober is failed and another one is not.", Alerts: []string{"InferenceProbersDisagree"},
			Queries: []Query{{Expr: worst(rows, by, "min by ("+by+") ("+success+")", "1 - avg_over_time("+success+"[$__range] @ end())"), Legend: legend}},
			States:  upStates, NoValue: noProber,
		},
		{
			Title: "Failed probes by prober", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of failed probes over 30 minutes, of each prober.", By: ByProbe,
			Worry: "one prober is far above the others: it is its own path, or that of the users at its place.", Alerts: []string{"InferenceProbersDisagree"},
			Queries: []Query{{Expr: failedByProber("module, instance", "30m"), Legend: "{{instance}} {{module}}"}},
			Min:     ptr(0.0), NoValue: noProber,
		},
		{
			Title: "TTFT by prober", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token over 30 minutes, of each prober, and the objective.", By: ByRules,
			Worry: "the lines diverge by more than usual: one prober measures badly, or its network path has become longer.", Alerts: []string{"InferenceMeasurementSuspect", "InferenceLatencyRegression"},
			Queries: []Query{
				{Expr: "max by (" + by + ") (" + ofEndpoint.of("instance:inference_probe_ttft_seconds:median30m") + ")", Legend: legend},
				threshold("ttft"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
	}
}

// ceilingByPrecision is the ceiling of one sequence with the precisions of weights
// and arithmetic, as far as these are configured.
func ceilingByPrecision() string {
	ceiling := ofEndpoint.of("inference_endpoint_decode_ceiling_tokens_per_second")
	precision := "max by (endpoint, model, weights_precision, compute_precision) (" + ofEndpoint.of("inference_endpoint_precision_info") + ")"
	return "max by (weights_precision, compute_precision) (max by (endpoint, model) (" + ceiling + ")" +
		" * on (endpoint, model) group_left (weights_precision, compute_precision) " + precision + ") or on () max(" + ceiling + ")"
}
