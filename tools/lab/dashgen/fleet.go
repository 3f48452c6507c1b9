package main

import "fmt"

// perProbe reminds what a share of probes means.
const perProbe = " A share of probes is a share of the moments at which a request like the probe was served well, not of the users' requests."

func fleet() Board {
	return Board{
		UID: uidFleet, Title: "Inference / Fleet",
		Question:  "One endpoint or all of them, since when, and how bad is it?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(false)},
		Marks:     off(alertMark(), changeMark(), exporterMark(), reloadMark()),
		From:      "now-3h",
		Rows: []Row{
			{Panels: append(fleetNow(), fleetStates()...)},
			{Title: "Figures", Panels: []Panel{fleetTable()}},
			{Title: "What is common, and what is slower", Panels: fleetCauses()},
			{Title: "Several probers", Collapsed: true, Panels: fleetDisagreement()},
		},
	}
}

// fleetNow are the numbers of the first line, with the alerts beside them.
func fleetNow() []Panel {
	ran := "sum(increase(" + ofProbes.of("inference_probe_results_total") + "[15m]))"
	// A compact page has no counter of skipped probes before the first one.
	skipped := "(sum(increase(" + ofProbes.of("inference_probe_skipped_total") + "[15m])) / " + ran + " or 0 * " + ran + ")"
	some := func(color string) []Step { return []Step{{1, color}} }
	return []Panel{
		{
			Title: "Endpoints", Viz: Stat, Width: 6, Height: 8,
			What: "Endpoints by their state, as the exporter judges it. Not probed are those whose exporters Prometheus cannot read.", By: ByExporter,
			Worry: "any is down; or many changed at once, which points to what they share, or to the prober.", Alerts: []string{"InferenceEndpointDown"},
			Queries: []Query{
				{Expr: countOf("flapping", "down"), Legend: "down or flapping", Steps: some("red")},
				{Expr: countOf("slow", "degraded"), Legend: "degraded or slow", Steps: some("orange")},
				{Expr: countOf("up", "asleep"), Legend: "up or asleep", Steps: some("green")},
				{Expr: countOf("stale", "waiting"), Legend: "stale or waiting", Steps: some("purple")},
				{Expr: countOf("muted", "muted"), Legend: "muted", Steps: some("blue")},
				{Expr: countOf(notProbed, notProbed), Legend: notProbed, Steps: some("purple")},
			},
			NoValue: "no endpoint",
		},
		{
			Title: "Prober coverage", Viz: Stat, Unit: "percentunit", Width: 3, Height: 8,
			What: "Probes that ran, of those that were due in the last 15 minutes, times the share of the endpoints whose exporter Prometheus reads: what a dead exporter should probe is not covered.", By: ByRules,
			Worry: "it is under 80 %: the other panels then rest on too few probes. The board Prober shows which exporter is down, and why probes did not run.", Alerts: []string{"InferenceExporterDown", "InferenceExporterLacksResources", "InferenceProbeStale"},
			Queries: []Query{{Expr: "1 / (1 + " + skipped + ") * (" + readShare() + " or vector(1)) >= 0", Legend: "coverage"}},
			NoValue: "no probe was due",
			Steps:   []Step{{0, "red"}, {0.8, "yellow"}, {0.95, "green"}}, Min: ptr(0.0),
			Links: []Link{{"Prober", "/d/" + uidSelf + "?" + kept}},
		},
		{
			Title: "Firing alerts", Viz: Table, Width: 15, Height: 8,
			What: "Alerts of this exporter's rules that fire, except the watchdog, which always does: those of the chosen endpoints and models, and those of exporters and GPUs. Scope is what the endpoint shared with others when the alert began.", By: ByPrometheus,
			Worry:   "the severity of any is critical. An empty table is good news only while rules are evaluated: the board Prober shows that.",
			Queries: []Query{{Expr: firing()}},
			Columns: []Column{
				{Label: "rank", Title: "Severity", Width: 95, States: []State{{"3", "critical", "red"}, {"2", "warning", "yellow"}, {"1", "info", "blue"}}},
				{Label: "alert", Title: "Alert", Width: 260, Links: []Link{{"Runbook", runbooks + "Inference${__data.fields.alert}.md"}}},
				{Label: "of", Title: "Of", Links: []Link{{"Board", "/d/ie-${__data.fields.board}?" + kept + "&var-endpoint=${__data.fields.endpoint}"}}},
				{Label: "scope", Title: "Scope", Width: 160},
				{Query: 0, Title: "Since", Unit: "dateTimeFromNow", Width: 140},
				{Label: "board", Hidden: true},
				{Label: "endpoint", Hidden: true},
			},
			Sort: []Order{{Title: "Severity", Desc: true}, {Title: "Since", Desc: true}}, NoValue: "no alert fires, or no rules are loaded",
		},
	}
}

// firing is when each alert that fires became active, in milliseconds. The label
// rank sorts by severity, as Grafana sorts words by their letters; of is the
// endpoint, or else the exporter or GPU, and board the board that shows it.
func firing() string {
	const by = "severity, alertname, scope, endpoint, instance, gpu"
	const matchers = `alertname=~"Inference.*",alertname!="InferenceWatchdog",endpoint=~"|$endpoint"`
	alerts := "1000 * min by (" + by + ") (ALERTS_FOR_STATE{" + matchers + "}) and on (" + by + `) ALERTS{alertstate="firing",` + matchers + "}" +
		" unless on (endpoint) (" + ofState.of("instance:inference_endpoint_info:last") + " unless on (endpoint) " + remembered() + ")"
	replace := func(label, by, from, match string) {
		alerts = fmt.Sprintf(`label_replace(%s, %q, %q, %q, %q)`, alerts, label, by, from, match)
	}
	for i, severity := range []string{"info", "warning", "critical"} {
		replace("rank", fmt.Sprint(i+1), "severity", severity)
	}
	replace("alert", "$1", "alertname", "Inference(.*)")
	alerts = `label_join(` + alerts + `, "of", " ", "instance", "gpu")`
	replace("of", "$1", "endpoint", "(.+)")
	for _, b := range [][2]string{{"self", "alertname"}, {"gpu", "gpu"}, {"endpoint", "endpoint"}} {
		replace("board", b[0], b[1], ".+")
	}
	return alerts
}

// readShare is the share of the endpoints of all exporters whose exporter
// Prometheus reads.
func readShare() string {
	return "avg(" + remembered() + " * on (job, instance) group_left () " + ofJob.of("up") + ")"
}

// fleetStates are who is not up and who changed, the latest first.
func fleetStates() []Panel {
	const rows = 10
	queries, columns := stateColumns(notUp())
	latest := "topk(10, last_over_time(" + stateSince(endpointState()) + "[1m:15s] @ end()))"
	return []Panel{
		{
			Title: "Not up: who, since when, why", Viz: Table, Width: 24, Height: 8,
			What: "Each endpoint that is not up: its state, as the exporter judges it, since when, the likeliest cause, and, if it pages, the incident with what it shares with others. The latest change is first.",
			By:   ByExporter, Worry: "there is any. Several with the same scope are one incident.", Alerts: []string{"InferenceEndpointDown", "InferenceEndpointNoLongerProbed"},
			Queries: queries, Columns: columns,
			Sort: []Order{{Title: "Since", Desc: true}}, NoValue: "every endpoint is up, or none is known",
		},
		{
			Title: "State over time", Viz: StateTimeline, Width: 24, Height: 9, MaxRows: rows,
			What: "The state of the ten endpoints that changed last, as the exporter judges it; the table above has all that are not up.", By: ByExporter,
			Worry: "several endpoints change at the same time: look for what they share.", Alerts: []string{"InferenceEndpointDown"},
			Queries: []Query{{Expr: endpointState() + " and on (endpoint) " + latest, Legend: "{{endpoint}}"}},
			NoValue: "no endpoint", States: endpointStates,
			Links: []Link{fromSeries(uidEndpoint, "Endpoint"), fromSeries(uidEngine, "Servers")},
		},
	}
}

func fleetTable() Panel {
	const by = "endpoint, module, slo"
	bad := func(slo string) string {
		return "max by (endpoint) (" + sumIncrease(by, "1h", "inference_probe_slo_bad_total", ofProbes, slo) +
			" / (" + sumIncrease(by, "1h", "inference_probe_slo_eligible_total", ofProbes, slo) + " > 0))"
	}
	ttft := func(stat string) string {
		return "max by (endpoint) (" + ofProbes.of("inference_probe_ttft_window_seconds", `stat="`+stat+`"`) + ")"
	}
	const checks = "inference_probe_checks_total"
	return Panel{
		Title: "Endpoints in detail", Viz: Table, Width: 24, Height: 10,
		What: "The figures of the last hour, those with most failures first. Failed and Late: the share of probes that failed, and that missed a latency objective, of the worst module and objective. TTFT: the highest median over modules and prompt lengths. p99 ≥ and p99 ≤: the bounds between which the p99 of TTFT lies, each with 95 % confidence; the upper one needs 299 probes. Queue and KV used: requests waiting and share of the KV cache in use, as the servers report. Right: the share of right answers, of the worst module that checks them.",
		By:   ByBoth, Worry: "one endpoint is far from the others that serve the same model. A dash is unknown, not good.", Alerts: []string{"InferenceEndpointFailing"},
		Queries: []Query{
			{Expr: endpointState()},
			{Expr: bad(`slo="availability"`)},
			{Expr: bad(`slo!="availability"`)},
			{Expr: ttft("p50")},
			{Expr: ttft("p99_lower")},
			{Expr: ttft("p99_upper")},
			{Expr: mean("endpoint", "1h", "inference_probe_tpot_seconds", ofProbes)},
			{Expr: perServer("endpoint", ofEndpoint.of("inference_server_requests_waiting"))},
			{Expr: "max by (endpoint) (" + ofEndpoint.of("inference_server_kv_cache_usage_ratio") + ")"},
			{Expr: "min by (endpoint) (" + sumIncrease("endpoint, module", "1h", checks, ofProbes, `verdict=~"correct|valid"`) +
				" / (" + sumIncrease("endpoint, module", "1h", checks, ofProbes) + " > 0))"},
			{Expr: "topk by (endpoint) (1, " + sumIncrease("endpoint, outcome", "1h", "inference_probe_results_total", ofProbes, `outcome!~"success|canceled"`) + " > 0)"},
			{Expr: "topk by (endpoint) (1, max by (endpoint, model) (max_over_time(timestamp(" + ofEndpoint.of("inference_endpoint_info", `model!=""`) + ")[1h:1m])))"},
		},
		Columns: []Column{
			{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint"), fromRow(uidEngine, "Servers")}},
			{Label: "model", Title: "Model"},
			{Query: 0, Title: "State", States: endpointStates, Width: 100},
			{Query: 1, Title: "Failed", Unit: "percentunit"},
			{Query: 2, Title: "Late", Unit: "percentunit"},
			{Query: 3, Title: "TTFT", Unit: "s"},
			{Query: 4, Title: "p99 ≥", Unit: "s"},
			{Query: 5, Title: "p99 ≤", Unit: "s"},
			{Query: 6, Title: "TPOT", Unit: "s"},
			{Query: 7, Title: "Queue"},
			{Query: 8, Title: "KV used", Unit: "percentunit"},
			{Query: 9, Title: "Right", Unit: "percentunit"},
			{Label: "outcome", Title: "Most failures", Width: 150},
			{Query: 10, Title: "Times"},
		},
		Sort: []Order{{Title: "Failed", Desc: true}, {Title: "Late", Desc: true}}, NoValue: "no endpoint",
	}
}

// fleetCauses are what many endpoints may have in common.
func fleetCauses() []Panel {
	const series = "endpoint, " + byModule
	slowest := "max by (" + series + ") (" + ofProbes.of("inference_probe_ttft_window_seconds", `stat="p50"`)
	ratio := slowest + ") / on (" + series + ") (" + slowest + " offset 1w) > 0)"
	return []Panel{
		{
			Title: "Endpoints by probable cause", Viz: TimeSeries, Width: 8, Height: 8, Stacked: true,
			What: "Endpoints that are not up, by the likeliest cause, as the exporter explains it.", By: ByExporter,
			Worry:   "many have the same cause at once: it is what they share.",
			Queries: []Query{{Expr: "count by (title) (group by (endpoint, title) (" + ofState.of("inference_endpoint_cause_info") + ") and on (endpoint) " + notUp() + ")", Legend: "{{title}}"}},
			Min:     ptr(0.0), NoValue: "every endpoint is up, or none is known",
		},
		{
			Title: "Endpoints that miss an objective", Viz: TimeSeries, Width: 8, Height: 8, Stacked: true,
			What: "Endpoints whose failed or late probes are more than chance explains, by objective.", By: ByExporter,
			Worry:   "many miss the same one at once: it is what they share.",
			Queries: []Query{{Expr: "sum by (slo) (min by (endpoint, slo) (" + lately(ofState.of("inference_endpoint_objective_missed")) + ") and on (endpoint) " + lately(ofEndpoint.of("inference_endpoint_info")) + ") > 0", Legend: "{{slo}}"}},
			Min:     ptr(0.0), NoValue: "none is missed, or none is configured",
		},
		{
			Title: "Median TTFT against last week", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Median time to first token of an hour, over that of the same time a week ago: 1 is as usual, 2 is twice as slow; the ten slowest. Endpoints that were added less than a week ago are left out.",
			By:   ByProbe, Worry: "it stays over 1.5, the dashed line.", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{
				{Expr: worst(10, series, ratio, "avg_over_time(("+ratio+")[$__range:$__interval] @ end())"), Legend: "{{endpoint}} " + module},
			},
			Steps: []Step{{1.5, "red"}}, Min: ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no baseline yet: it takes a week",
		},
	}
}

// fleetDisagreement shows the share of each prober and not the result of a vote:
// which of them is right, only a person can find out.
func fleetDisagreement() []Panel {
	const series = "endpoint, module"
	share := failedByProber(series+", instance", "30m")
	return []Panel{
		{
			Title: "Probers that disagree", Viz: Table, Width: 16, Height: 8,
			What: "Share of failed probes of the last 30 minutes by each prober, for the endpoints and modules at which two of them are more than a fifth apart.",
			By:   ByProbe, Worry: "one prober fails at many endpoints: its own network or credentials are broken. At one endpoint only, users near that prober may have the same trouble.", Alerts: []string{"InferenceProbersDisagree"},
			Queries: []Query{{Expr: share + " and on (" + series + ") (max by (" + series + ") (" + share + ") - min by (" + series + ") (" + share + ") > 0.2)"}},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint")}},
				{Label: "module", Title: "Module"},
				{Label: "instance", Title: "Prober"},
				{Query: 0, Title: "Failed 30m", Unit: "percentunit"},
			},
			Sort:    []Order{{Title: "Failed 30m", Desc: true}},
			NoValue: "no two probers disagree, or each endpoint has one",
		},
		{
			Title: "Failed probes by endpoint and prober", Viz: Table, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of failed probes in the last hour, one row for each endpoint and one column for each prober. A high column is one prober or its network; a high row is the endpoint.",
			By:   ByProbe, Worry: "a row is high in every column.", Alerts: []string{"InferenceEndpointFailing"},
			Queries: []Query{{Expr: failedByProber("endpoint, instance", "1h")}},
			Matrix:  &Matrix{Row: "endpoint", Column: "instance"}, NoValue: "no probe ended in this hour",
		},
	}
}
