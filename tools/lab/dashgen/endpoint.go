package main

import (
	"fmt"
	"slices"
	"strings"
)

// byModule groups probes by what they ask.
const byModule = "module, prefix, input_tokens, output_tokens"

// module names a series of probes of one endpoint.
const module = "{{module}} {{prefix}} {{input_tokens}} {{output_tokens}}"

func endpoint() Board {
	return Board{
		UID: uidEndpoint, Title: "Inference / Endpoint",
		Question:  "Is this endpoint up for users, is it slow, and which part is slow?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(true)},
		Marks:     append([]Mark{alertMark(), serverMark(), changeMark()}, off(stepMark(), proberMark(), reloadMark())...),
		From:      "now-3h",
		Rows: []Row{
			{Panels: endpointNow()},
			{Title: "Time to first token", Panels: endpointTTFT()},
			{Title: "Where the time goes", Panels: append(endpointTTFTParts(), endpointParts()...)},
			{Title: "Tokens after the first", Panels: endpointTokens()},
			{Title: "Failures", Panels: endpointFailures()},
			{Title: "Objectives", Panels: endpointObjectives()},
			{Title: "What is proven of TTFT, last week, burn rate", Collapsed: true, Panels: endpointProof()},
			{Title: "Whole probes, and what the servers say", Collapsed: true, Panels: endpointWhole()},
			{Title: "Gaps, visible output and cached tokens", Collapsed: true, Panels: slices.Concat(endpointGaps(), endpointSmoothness(), endpointMemory())},
			{Title: "Refusals, flaws and quota", Collapsed: true, Panels: endpointFlaws()},
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

// quantiles are those of a latency over the chosen range, for each series of
// probes: beside a chart, as figures that one can quote.
func quantiles(title, name string, height uint32) Panel {
	p := Panel{
		Title: title, Viz: Table, Unit: "s", Width: 6, Height: height,
		What: "Median, 90th and 99th percentile of all probes in the chosen range that succeeded, by their histogram.", By: ByProbe,
		Worry:   "p99 is far from p90: few probes are much slower than the others.",
		Columns: []Column{{Label: "probes", Title: "Probes"}},
		NoValue: noProber,
	}
	for i, q := range []float64{0.5, 0.9, 0.99} {
		joined := fmt.Sprintf(`label_join(%s, "probes", " ", "module", "prefix", "input_tokens", "output_tokens")`, quantile(q, byModule, "$__range", name, ofProbes))
		p.Queries = append(p.Queries, Query{Expr: joined})
		p.Columns = append(p.Columns, Column{Query: i, Title: fmt.Sprintf("p%v", 100*q), Unit: "s"})
	}
	p.Sort = []Order{{Title: "p99", Desc: true}}
	return p
}

// badShare is the share of probes that missed an objective, by module and
// objective, and objective the share that may not.
func badShare(window string) string {
	return sumIncrease("module, slo", window, "inference_probe_slo_bad_total", ofEndpoint) +
		" / (" + sumIncrease("module, slo", window, "inference_probe_slo_eligible_total", ofEndpoint) + " > 0)"
}

func objective() string {
	return "min by (module, slo) (" + ofEndpoint.of("inference_slo_objective_ratio") + ")"
}

// burnRate is how many times what its objective allows the share of bad probes
// is.
func burnRate(window string) string {
	return badShare(window) + " / on (module, slo) (1 - " + objective() + ")"
}

func endpointNow() []Panel {
	queries, why := stateColumns(endpointState())
	why = append(why[2:], Column{Label: "do", Title: "First thing to do", Width: 560}) // without endpoint and state
	failed := func(window string) string {
		return "1 - sum(rate(" + ofProbes.of("inference_probe_results_total", `outcome="success"`) + "[" + window + "]))" +
			" / (sum(rate(" + ofProbes.of("inference_probe_results_total", `outcome!="canceled"`) + "[" + window + "])) > 0)"
	}
	return []Panel{
		{
			Title: "State", Viz: Stat, Width: 4, Height: 4,
			What: "The state of the endpoint, as the exporter judges it.", By: ByExporter,
			Worry: "it is down or flapping.", Alerts: []string{"InferenceEndpointDown"},
			Queries: []Query{{Expr: endpointState(), Legend: "{{endpoint}}"}},
			States:  endpointStates, NoValue: noEndpoint,
		},
		{
			Title: "Since when, and why", Viz: Table, Width: 20, Height: 4,
			What: "When the state began, while it is not up the likeliest cause and the first thing to do, and the incident, if it pages, with what it shares with others.", By: ByExporter,
			Worry:   "the state is not up.",
			Queries: queries, Columns: why,
			Sort: []Order{{Title: "Since", Desc: true}}, NoValue: noEndpoint,
		},
		{
			Title: "State over time", Viz: StateTimeline, Width: 24, Height: 4, MaxRows: 1,
			What: "The state of the endpoint, as the exporter judges it.", By: ByExporter,
			Worry: "it changes again and again.", Alerts: []string{"InferenceEndpointDown"},
			Queries: []Query{{Expr: endpointState(), Legend: "{{endpoint}}"}},
			States:  endpointStates, NoValue: noEndpoint,
		},
		{
			Title: "Failed probes, last 30 minutes", Viz: Stat, Unit: "percentunit", Width: 5, Height: 4, Spark: true,
			What: "Share of the probes of 30 minutes that failed, now and over the chosen range." + perProbe, By: ByProbe,
			Worry: "it is not 0; the row Failures has how they ended.", Alerts: []string{"InferenceEndpointFailing"},
			Queries: []Query{{Expr: failed("30m"), Legend: "failed"}},
			Min:     ptr(0.0), NoValue: "no probe ended in this time",
		},
		{
			Title: "Since the last success", Viz: Stat, Unit: "s", Width: 4, Height: 4,
			What: "Time since the start of the latest probe that succeeded, of any module.", By: ByProbe,
			Worry: "it is longer than a few intervals of the module.", Alerts: []string{"InferenceEndpointDown", "InferenceProbeStale"},
			Queries: []Query{{Expr: "time() - max(" + ofProbes.of("inference_probe_last_success_timestamp_seconds") + " > 0)", Legend: "ago"}},
			NoValue: "never succeeded, or not probed",
		},
		{
			Title: "Expires in", Viz: Stat, Unit: "s", Width: 4, Height: 4,
			What: "Time until the first certificate of the server's chain expires, and until the model or the API is retired, where the provider announces that.", By: ByProbe,
			Worry: "it is under 14 days, or under 30 for a retirement.", Alerts: []string{"InferenceCertificateExpiring", "InferenceEndpointRetiring"},
			Queries: []Query{
				{Expr: "min(" + ofEndpoint.of("inference_probe_tls_cert_not_after_timestamp_seconds") + ") - time()", Legend: "certificate"},
				{Expr: "min(" + ofState.of("inference_endpoint_retirement_timestamp_seconds") + ") - time()", Legend: "retirement"},
			},
			Steps: []Step{{lowest, "red"}, {3 * 86400, "yellow"}, {30 * 86400, "green"}}, NoValue: "no TLS, no announced end",
		},
		{
			Title: "What answers", Viz: Table, Width: 11, Height: 4,
			What: "The model that the endpoint serves, the API it speaks and its engine, as far as they are known; and the usual model where another one answers, with since when.", By: ByConfig,
			Worry: "it is not what was deployed.", Alerts: []string{"InferenceModelChanged"},
			Queries: []Query{
				{Expr: "max by (endpoint, model, api, engine, url) (" + ofEndpoint.of("inference_endpoint_info") + ")"},
				{Expr: "1000 * bottomk by (endpoint) (1, min by (endpoint, from) (" + ofState.of("inference_endpoint_model_changed_timestamp_seconds") + "))"},
			},
			Columns: []Column{
				{Label: "model", Title: "Model"},
				{Label: "from", Title: "Instead of"},
				{Query: 1, Title: "Another since", Unit: "dateTimeFromNow"},
				{Label: "api", Title: "API"},
				{Label: "engine", Title: "Engine"},
				{Label: "url", Title: "URL"},
			},
			NoValue: noEndpoint,
		},
	}
}

func endpointTTFT() []Panel {
	last := ofProbes.of("inference_probe_last_ttft_seconds") + "[$__rate_interval]"
	return []Panel{
		{
			Title: "TTFT of the probes", Viz: TimeSeries, Unit: "s", Width: 10, Height: 9,
			What: "Time to first token of the probes that succeeded: the highest and the median of each step, and the objective. It starts when the request is sent on a ready connection, so that connection set-up is not in it.",
			By:   ByProbe, Worry: "the median is over the dashed line. Single peaks over it are what the objective allows for.",
			Queries: []Query{
				{Expr: "max by (" + byModule + ") (max_over_time(" + last + "))", Legend: "max " + module},
				{Expr: "max by (" + byModule + ") (quantile_over_time(0.5, " + last + "))", Legend: "median " + module},
				threshold("ttft"),
			},
			Min: ptr(0.0), Links: []Link{fromBoard(uidEngine, "Servers")}, NoValue: noProber,
		},
		quantiles("TTFT, chosen range", "inference_probe_ttft_seconds", 9),
		{
			Title: "TTFT distribution", Viz: Heatmap, Unit: "s", Width: 8, Height: 9,
			What: "How many probes had which time to first token.", By: ByProbe,
			Worry: "the whole band moves up (everything is slower), or a second band appears (one of several replicas, or a cache that is missed).", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{{Expr: distribution("inference_probe_ttft_seconds", ofProbes), Legend: "{{le}}"}},
			NoValue: noProber,
		},
		endpointUsers(),
	}
}

// endpointUsers is the time to first token of users' own requests, beside that of the probes.
func endpointUsers() Panel {
	bound := func(stat, legend string) Query {
		return Query{
			Expr:   "max(" + ofEndpoint.of("inference_users_ttft_window_seconds", `stat="`+stat+`"`) + ")",
			Legend: legend, Reference: strings.HasSuffix(stat, "_lower"),
		}
	}
	return Panel{
		Title: "TTFT of users' requests, last hour", Viz: TimeSeries, Unit: "s", Width: 24, Height: 7,
		What: "Time to first token of all requests of the last hour, as the servers' histograms show it: the p50 and the p99 lie between their two lines, which are bounds of the histogram.", By: ByServer,
		Worry:   "the p99 of users is at least the objective while that of the probes is not: long prompts, or one tenant, wait for longer than the probes.",
		Queries: []Query{bound("p99_upper", "p99 at most"), bound("p99_lower", "p99 at least"), bound("p50_upper", "p50 at most"), bound("p50_lower", "p50 at least"), threshold("ttft")},
		Min:     ptr(0.0), NoValue: "no page shows it, or too few requests",
	}
}

// endpointProof is what is certain of TTFT and of the objectives, over hours and
// a week.
func endpointProof() []Panel {
	window := func(stat, legend string, reference bool) Query {
		return Query{
			Expr:   "max by (" + byModule + ") (" + ofProbes.of("inference_probe_ttft_window_seconds", `stat="`+stat+`"`) + ")",
			Legend: legend + " " + module, Reference: reference,
		}
	}
	return []Panel{
		{
			Title: "What is proven of the p99 of TTFT", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "The p99 over the last hour lies between the two grey lines, each with 95 % confidence; the line between is its median. The upper one needs 299 probes. Failures before the first token count as infinitely slow.",
			By:   ByProbe, Worry: "the lower grey line is over the objective: it is then proven that the objective is missed.",
			Queries: []Query{window("p50", "median", false), window("p99_lower", "p99 at least", true), window("p99_upper", "p99 at most", true), threshold("ttft")},
			Min:     ptr(0.0), NoValue: "too few probes",
		},
		{
			Title: "Probes in that hour", Viz: Stat, Width: 4, Height: 8,
			What: "Number of probes behind the panel to the left, for each module.", By: ByProbe,
			Worry:   "it is under 299: the p99 then has no upper bound.",
			Queries: []Query{{Expr: "max by (" + byModule + ") (" + ofProbes.of("inference_probe_ttft_window_samples") + ")", Legend: module}},
			NoValue: noProber,
		},
		{
			Title: "Median TTFT against last week", Viz: TimeSeries, Unit: "s", Width: 6, Height: 8,
			What: "Median time to first token of an hour, now and at the same time a week ago.", By: ByProbe,
			Worry: "it is more than 1.5 times as long as a week ago.", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{
				window("p50", "now", false),
				{Expr: "max by (" + byModule + ") (" + ofProbes.of("inference_probe_ttft_window_seconds", `stat="p50"`) + " offset 1w)", Legend: "a week ago " + module, Reference: true},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Burn rate, 1 hour and 6 hours", Viz: TimeSeries, Unit: "suffix: x", Width: 6, Height: 8,
			What: "How many times faster than allowed the error budget is used up: 1 uses all of it in the time of the objective, such as 30 days." + perProbe,
			By:   ByProbe, Worry: "it stays over 1 for days.",
			Queries: []Query{
				{Expr: burnRate("1h"), Legend: "{{module}} {{slo}}, 1h"},
				{Expr: burnRate("6h"), Legend: "{{module}} {{slo}}, 6h"},
			},
			Steps: []Step{{1, "yellow"}}, Min: ptr(0.0), NoValue: "no objective is configured",
		},
	}
}

func endpointParts() []Panel {
	return []Panel{
		{
			Title: "Phases of a probe", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8, Stacked: true,
			What: "Mean duration of the consecutive parts of the probes that succeeded; together they are the whole probe.", By: ByProbe,
			Worry:   "dns, connect or tls grow: that is the network. first_byte and first_token: that is the server or a gateway. decode: see the row below.",
			Queries: []Query{{Expr: classicMean("phase", "5m", "inference_probe_phase_seconds", ofProbes), Legend: "{{phase}}"}}, Named: phaseColors,
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "TTFT outside and inside", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Mean time to first token as the probes see it, and as the servers report it for all requests.", By: ByBoth,
			Worry: "the two lines diverge: the time is lost between the user and the engine, in a gateway, a balancer or the server's front end.", Alerts: []string{"InferenceClientServerGap"},
			Queries: []Query{
				{Expr: mean("endpoint", "5m", "inference_probe_ttft_seconds", ofProbes), Legend: "probes"},
				{Expr: classicMean("endpoint", "5m", "inference_server_ttft_seconds", ofEndpoint), Legend: "servers"},
			},
			Min: ptr(0.0), Links: []Link{fromBoard(uidEngine, "Servers")}, NoValue: noProber,
		},
	}
}

// endpointWhole is the probe as a whole, and what of it the servers account for.
func endpointWhole() []Panel {
	return []Panel{
		{
			Title: "Whole probe", Viz: TimeSeries, Unit: "s", Width: 10, Height: 8,
			What: "Median duration of the probes that succeeded over 30 minutes, from the request to the end of the reply, connection set-up included, and the objective.",
			By:   ByProbe, Worry: "it comes close to the dashed line.",
			Queries: []Query{
				{Expr: quantile(0.5, byModule, "30m", "inference_probe_duration_seconds", ofProbes), Legend: "median " + module},
				threshold("e2e"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		quantiles("Whole probe, chosen range", "inference_probe_duration_seconds", 8),
		{
			Title: "What lies between", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Time to first token as the probes see it, less what the server says: network, gateway and client. reply compares one and the same request; histogram compares means, and is negative where other requests are slower than the probes. Each prober has its own.",
			By:   ByBoth, Worry: "it grows against its own past.", Alerts: []string{"InferenceClientServerGap"},
			Queries: []Query{{Expr: "max by (source, instance) (" + ofEndpoint.of("inference_endpoint_ttft_overhead_seconds") + ")", Legend: "{{source}} {{instance}}"}},
			NoValue: "the servers do not report their TTFT",
		},
		{
			Title: "The server's own account", Viz: TimeSeries, Unit: "s", Width: 24, Height: 7, Stacked: true,
			What: "Mean time of the probes in the server's queue, in prefill and in decode, as the replies report it.", By: ByServer,
			Worry: "queue grows: the server is saturated.", Alerts: []string{"InferenceQueueSaturated"},
			Queries: []Query{{Expr: classicMean("phase", "5m", "inference_probe_server_time_seconds", ofProbes), Legend: "{{phase}}"}}, Named: phaseColors,
			Min: ptr(0.0), NoValue: "the replies do not report it",
		},
	}
}

func endpointTokens() []Panel {
	return []Panel{
		{
			Title: "TPOT", Viz: TimeSeries, Unit: "s", Width: 10, Height: 8,
			What: "Time per output token after the first: the median over 30 minutes, one observation for each probe, and the objective.", By: ByProbe,
			Worry: "it comes close to the dashed line.", Alerts: []string{"InferenceTPOTRegression"},
			Queries: []Query{
				{Expr: quantile(0.5, byModule, "30m", "inference_probe_tpot_seconds", ofProbes), Legend: "median " + module},
				threshold("tpot"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		quantiles("TPOT, chosen range", "inference_probe_tpot_seconds", 8),
		{
			Title: "Output speed", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 8, Height: 8,
			What: "Tokens per second that one user sees after the first token. Models with different tokenizers compare by characters per second: the board Capacity has both.", By: ByProbe,
			Worry: "it halves: the batch has grown, or clocks are down. The board Capacity has the most that the memory bandwidth of the GPUs allows.", Alerts: []string{"InferenceDecodeSpeedCollapse"},
			Queries: []Query{{Expr: "min by (" + byModule + ") (" + ofProbes.of("inference_probe_last_output_tokens_per_second") + ")", Legend: module}},
			Min:     ptr(0.0), NoValue: noProber,
		},
	}
}

// endpointGaps is how the tokens after the first come.
func endpointGaps() []Panel {
	return []Panel{
		{
			Title: "Longest gap in an answer", Viz: TimeSeries, Unit: "s", Width: 10, Height: 8,
			What: "The longest silence between two tokens of a probe: median and highest tenth over 30 minutes.", By: ByProbe,
			Worry: "it grows while TPOT does not: decoding stalls now and then, for prefills of others or for preemption.", Alerts: []string{"InferencePreemptionsHigh"},
			Queries: []Query{
				{Expr: quantile(0.5, byModule, "30m", "inference_probe_max_gap_seconds", ofProbes), Legend: "median " + module},
				{Expr: quantile(0.9, byModule, "30m", "inference_probe_max_gap_seconds", ofProbes), Legend: "p90 " + module},
			},
			Min: ptr(0.0), NoValue: noProber,
		},
		quantiles("Longest gap, chosen range", "inference_probe_max_gap_seconds", 8),
		{
			Title: "Gaps between tokens", Viz: Heatmap, Unit: "s", Width: 8, Height: 8,
			What: "Times between neighbouring token events of all probes.", By: ByProbe,
			Worry: "a second band far above the first: the stream comes in bursts.", Alerts: []string{"InferenceStreamsBuffered"},
			Queries: []Query{{Expr: distribution("inference_probe_inter_chunk_seconds", ofProbes), Legend: "{{le}}"}},
			NoValue: noProber,
		},
		{
			Title: "Time to first visible output", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Median over 30 minutes of TTFO: to the first event that a user sees, reasoning left out. Equal to TTFT for a model that does not reason.", By: ByProbe,
			Worry: "it grows while TTFT does not: the model reasons longer.",
			Queries: []Query{{Expr: "(" + quantile(0.5, byModule, "30m", "inference_probe_ttfo_seconds", ofProbes) + ") or (" +
				quantile(0.5, byModule, "30m", "inference_probe_ttft_seconds", ofProbes) + ")", Legend: module}}, // which alone a compact page has of equal ones
			Min: ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Prompt tokens from the prefix cache", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the probes' prompt tokens that came from the prefix cache, as the replies report it. Near 0 for cold probes, near 1 for warm ones.", By: ByServer,
			Worry: "it falls for warm probes: the cache is lost, or requests go to another replica each time.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{
				Expr: sumRate(byModule, "15m", "inference_probe_cached_prompt_tokens_total", ofProbes) + " / (" +
					sumRate(byModule, "15m", "inference_probe_prompt_tokens_total", ofProbes) + " > 0)", Legend: module,
			}},
			Min: ptr(0.0), NoValue: "the replies do not report it",
		},
	}
}

func endpointFailures() []Panel {
	return []Panel{
		{
			Title: "Failures by outcome", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8, Stacked: true,
			What: "Failed probes a minute, by how they ended. The table of outcomes is in docs/metrics.md.", By: ByProbe,
			Worry: "any outcome lasts.", Alerts: []string{"InferenceEndpointFailing", "InferenceEndpointDown"},
			Queries: []Query{{Expr: "60 * " + sumRate("outcome", "$__rate_interval", "inference_probe_results_total", ofProbes, `outcome!~"success|canceled"`) + " > 0", Legend: "{{outcome}}"}},
			Named:   outcomeColors, Min: ptr(0.0), NoValue: noneOfProbes,
		},
		{
			Title: "Stalls by side", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8, Stacked: true,
			What: "Replies a minute that stalled, by the side that the longest silence was on: segments were lost or late on the way (network), the host acknowledged and sent nothing (server), the host or the way to it did not acknowledge (host), data waited to be read (exporter), or too little was seen (unknown).", By: ByExporter,
			Worry: "any side lasts: network and host are for those who run the network, server for those who run the engine.", Alerts: []string{"InferenceEndpointFailing", "InferenceEndpointDown"},
			Queries: []Query{{Expr: "60 * " + sumRate("side", "$__rate_interval", "inference_probe_stalls_total", ofProbes) + " > 0", Legend: "{{side}}"}},
			Min:     ptr(0.0), NoValue: "none, if probes ran on Linux",
		},
		{
			Title: "Probes that did not run", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8, Stacked: true,
			What: "Probes a minute that were due and did not run: the one before still ran (overrun), the server asked to wait or let two probes in a row time out (backoff), too many were in flight (limit), a budget was spent (budget), the prompt has no room in the context (context_length), the server has several models and the configuration names none (model_not_set), the server truncates the prompt (prompt_truncated), a secret, file or credential that the requests need is missing or cannot be used (secret_missing), or the exporter lacks descriptors, memory or ports (resources).", By: ByExporter,
			Worry: "it lasts: what is not probed is not watched.", Alerts: []string{"InferenceExporterLacksResources", "InferenceProbeStale", "InferenceProbeBudgetExhausted"},
			Queries: []Query{{Expr: "60 * " + sumRate("reason", "$__rate_interval", "inference_probe_skipped_total", ofEndpoint) + " > 0", Legend: "{{reason}}"}},
			Min:     ptr(0.0), NoValue: "none, if probes were due",
		},
	}
}

// endpointFlaws are answers that were refused, cut or odd.
func endpointFlaws() []Panel {
	share := func(name string) string {
		return sumRate("module", "15m", name, ofProbes) + " / (" + sumRate("module", "15m", "inference_probe_results_total", ofProbes, `outcome="success"`) + " > 0)"
	}
	outcome := func(o string) string {
		return sumRate("module", "15m", "inference_probe_results_total", ofProbes, `outcome="`+o+`"`) + " / (" +
			sumRate("module", "15m", "inference_probe_results_total", ofProbes, `outcome!="canceled"`) + " > 0)"
	}
	return []Panel{
		{
			Title: "Limited, overloaded, cut, empty", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the probes of 15 minutes that were refused with 429 or 503, or whose answer was cut or empty.", By: ByProbe,
			Worry: "truncated or empty are not 0: users get broken answers.", Alerts: []string{"InferenceEndpointFailing"},
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
			Min: ptr(0.0), SoftMax: ptr(0.1), NoValue: noneOfProbes,
		},
		{
			Title: "Quota left", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Requests and tokens that the account may still use, as the replies report it.", By: ByServer,
			Worry: "it is close to 0: the next answers are 429.", Alerts: []string{"InferenceRateLimitRunningOut", "InferenceEndpointFailing"},
			Queries: []Query{{Expr: "min by (resource) (" + ofEndpoint.of("inference_probe_rate_limit_remaining") + ")", Legend: "{{resource}}"}},
			Min:     ptr(0.0), NoValue: "the replies do not report it",
		},
	}
}

func endpointObjectives() []Panel {
	return []Panel{
		{
			Title: "Objectives that are missed", Viz: StateTimeline, Width: 12, Height: 7, MaxRows: 5,
			What: "Whether more probes miss an objective than chance explains, as the exporter judges it. Availability without an objective is 99 %.", By: ByExporter,
			Worry:   "one is missed.",
			Queries: []Query{{Expr: "min by (slo) (" + ofState.of("inference_endpoint_objective_missed") + ")", Legend: "{{slo}}"}},
			States:  []State{{"0", "met", "green"}, {"1", "missed", "red"}}, NoValue: noEndpoint,
		},
		{
			Title: "Objectives in the chosen range", Viz: Table, Width: 12, Height: 7,
			What: "The share of probes that an objective asks for, the share that missed it in the chosen range, and how much of what it allows for that range is used." + perProbe,
			By:   ByProbe, Worry: "over weeks, more than 100 % are used.",
			Queries: []Query{{Expr: objective()}, {Expr: badShare("$__range")}, {Expr: burnRate("$__range")}},
			Columns: []Column{
				{Label: "slo", Title: "Objective"},
				{Label: "module", Title: "Module"},
				{Query: 0, Title: "Wanted", Unit: "percentunit"},
				{Query: 1, Title: "Missed", Unit: "percentunit"},
				{Query: 2, Title: "Budget used", Unit: "percentunit"},
			},
			Sort: []Order{{Title: "Budget used", Desc: true}}, NoValue: "no objective is configured",
		},
	}
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
	return []Panel{
		{
			Title: "State by prober", Viz: StateTimeline, Width: 8, Height: 8, MaxRows: 10,
			What: "The state of the endpoint, as each of its exporters judges it.", By: ByExporter,
			Worry: "it is up for one prober and down for another one.", Alerts: []string{"InferenceProbersDisagree"},
			Queries: []Query{{Expr: stateOfProber(ofState), Legend: "{{instance}}"}},
			States:  endpointStates, NoValue: noEndpoint,
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
			What: "Median time to first token over 30 minutes, of each prober, and the objective.", By: ByProbe,
			Worry: "the lines diverge by more than usual: one prober measures badly, or its network path has become longer.", Alerts: []string{"InferenceMeasurementSuspect", "InferenceLatencyRegression"},
			Queries: []Query{
				{Expr: quantile(0.5, byModule+", instance", "30m", "inference_probe_ttft_seconds", ofProbes), Legend: "{{instance}} " + module},
				threshold("ttft"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
	}
}
