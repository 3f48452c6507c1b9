package main

import "fmt"

// perProbe reminds what a share of probes means.
const perProbe = " A share of probes is a share of the moments at which a request like the probe was served well, not of the users' requests."

// states of an endpoint as the boards count them.
var endpointStates = []State{{"1", "ok", "green"}, {"0.5", "degraded", "yellow"}, {"0", "down", "red"}}

// upStates are those of a gauge that is 1 where all is well.
var upStates = []State{{"1", "ok", "green"}, {"0", "failed", "red"}}

// endpointState is 0 where the endpoint is down or no probe of the last 5
// minutes succeeded, 0.5 where one missed any objective, else 1. For the first
// the best module counts, for the second the worst.
func endpointState() string {
	success := ofProbes.of("inference_probe_success")
	recent := "1 - 0.5 * (max by (endpoint, model) (" + badRatio("5m") + ") > bool 0)" +
		" - on (endpoint, model) 0.5 * (min by (endpoint, model) (" + badRatio("5m", `slo="availability"`) + ") == bool 1)"
	return downNow(success) + " or ((" + recent + ") and on (endpoint, model) " + success + ")"
}

// downNow is 0 for each endpoint that is down: the latest probe of every module
// failed, and none succeeded within two minutes. The alert pages by the same,
// minutes before the share of failed probes is 1. An endpoint that never
// answered has no last success.
func downNow(success string) string {
	return "(max by (endpoint, model) (" + success + ") == 0 unless on (endpoint, model)" +
		" time() - max by (endpoint, model) (" + ofProbes.of("inference_probe_last_success_timestamp_seconds") + ") <= 120)"
}

func fleet() Board {
	return Board{
		UID: uidFleet, Title: "Inference / Fleet",
		Question:  "One endpoint or all of them, since when, and how bad is it?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(false)},
		Marks:     off(alertMark(), changeMark(), exporterMark(), reloadMark()),
		From:      "now-3h",
		Rows: []Row{
			{Panels: append(fleetStats(), fleetTable(), fleetStates())},
			{Title: "Objectives", Panels: fleetObjectives()},
			{Title: "Failures and latency", Panels: append(fleetCauses(), fleetDisagreement())},
		},
	}
}

// fleetStats are the numbers of the first line, with the alerts beside them.
func fleetStats() []Panel {
	state := endpointState()
	ran := "sum(increase(" + ofProbes.of("inference_probe_results_total") + "[15m]))"
	// A compact page has no counter of skipped probes before the first one.
	share := ran + " / (" + ran + " + (sum(increase(" + ofProbes.of("inference_probe_skipped_total") + "[15m])) or 0 * " + ran + "))"
	return []Panel{
		{
			Title: "Endpoints", Viz: Stat, Width: 7, Height: 6,
			What:  "Endpoints by state: down (no probe succeeded for two minutes and the latest of every module failed, or all of 5 minutes failed), degraded (a probe of the last 5 minutes failed or was slower than its objective), ok, or without a probe that ended, for which there is no verdict." + perProbe,
			By:    ByRules,
			Worry: "any is down; or many are degraded at once, which points to the network or to the prober.", Alerts: []string{"InferenceEndpointDown"},
			Queries: []Query{
				{Expr: "sum((" + state + ") == bool 0)", Legend: "down", Steps: []Step{{1, "red"}}},
				{Expr: "sum((" + state + ") == bool 0.5)", Legend: "degraded", Steps: []Step{{1, "yellow"}}},
				{Expr: "sum((" + state + ") == bool 1)", Legend: "ok", Steps: []Step{{1, "green"}}},
				{Expr: "sum(" + sumIncrease("endpoint, model", "5m", "inference_probe_results_total", ofProbes, `outcome!="canceled"`) + " == bool 0)", Legend: "no probe"},
			},
			NoValue: noProber,
		},
		{
			Title: "Prober coverage", Viz: Stat, Unit: "percentunit", Width: 4, Height: 6,
			What: "Probes that ran, of those that were due in the last 15 minutes, times the share of the endpoints whose exporter Prometheus reads: what a dead exporter should probe is not covered.", By: ByRules,
			Worry: "it is under 80 %: the other panels then rest on too few probes. The board Prober shows which exporter is down, and why probes did not run.", Alerts: []string{"InferenceExporterDown", "InferenceScheduleLag", "InferenceProbeStale"},
			Queries: []Query{{Expr: share + " * (" + readShare() + ") or " + share, Legend: "coverage"}},
			NoValue: noProber,
			Steps:   []Step{{0, "red"}, {0.8, "yellow"}, {0.95, "green"}}, Min: ptr(0.0),
			Links: []Link{{"Prober", "/d/" + uidSelf + "?" + kept}},
		},
		{
			Title: "Firing alerts", Viz: Table, Width: 13, Height: 6,
			What: "Alerts of this exporter's rules that fire, except the watchdog, which always does.", By: ByPrometheus,
			Worry: "the severity of any is critical. An empty table is good news only while rules are evaluated: the board Prober shows that.",
			Queries: []Query{{
				Expr: ranked(`max by (severity, alertname, category, endpoint, model, instance) (ALERTS{alertstate="firing",alertname=~"Inference.*",alertname!="InferenceWatchdog",model=~"|$model",endpoint=~"|$endpoint"})`),
			}},
			Columns: []Column{
				{Label: "rank", Title: "Severity", Width: 95, States: []State{{"1", "critical", "red"}, {"2", "warning", "yellow"}, {"3", "info", "blue"}}},
				{Label: "alertname", Title: "Alert", Links: []Link{runbookFromRow()}},
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint")}},
				{Label: "model", Title: "Model"},
				{Label: "category", Title: "Category", Width: 100},
				{Label: "instance", Title: "Instance"},
			},
			Sort: []Order{{Title: "Severity"}}, NoValue: "no alert fires, or no rules are loaded",
		},
	}
}

// readShare is the share of the endpoints of all exporters whose exporter
// Prometheus reads. The rules remember those of an exporter that is down.
func readShare() string {
	return "avg(" + ofEndpoint.of("instance:inference_endpoint_info:last") + " * on (job, instance) group_left () " + ofJob.of("up") + ")"
}

// ranked gives alerts a label rank that sorts by severity: Grafana sorts words
// by their letters.
func ranked(alerts string) string {
	for i, severity := range []string{"critical", "warning", "info"} {
		alerts = fmt.Sprintf(`label_replace(%s, "rank", "%d", "severity", "%s")`, alerts, i+1, severity)
	}
	return alerts
}

func fleetTable() Panel {
	good, bad := budgetSteps(), []Step{{0.01, "yellow"}, {0.1, "red"}}
	return Panel{
		Title: "Endpoints in detail", Viz: Table, Width: 24, Height: 8,
		What: "Each endpoint as it is now, failed ones first. State: the latest probe of the worst module, by the prober with the best result. Bad 1h: the share of failed probes of the worst module in the last hour. Budget: what is left of the error budget of 30 days for the worst objective, up to 1 h late. TTFT: the highest of the medians of 30 minutes over modules and prompt lengths. p99 ≥ and p99 ≤: the bounds between which the p99 of TTFT of the last hour lies, each with 95 % confidence; the upper one needs 299 probes. Queue and KV used: requests waiting and share of the KV cache in use, as the servers report. Right: the share of right answers of the last hour, of the worst module that checks them.",
		By:   ByBoth, Worry: "the state is failed, or the budget is red. A dash is unknown, not good.", Alerts: []string{"InferenceEndpointDown", "InferenceManyEndpointsDown", "InferenceManyEndpointsDegraded", "InferenceEndpointNoLongerProbed"},
		Queries: []Query{
			{Expr: "min by (endpoint, model) (" + bestProber() + ")"},
			{Expr: "max by (endpoint, model) (" + badRatio("1h", `slo="availability"`) + ")"},
			{Expr: "min by (endpoint, model) (" + budgetLeft() + ")"},
			{Expr: "max by (endpoint, model) (" + ofRecorded.of("module:inference_probe_ttft_seconds:median30m") + ")"},
			{Expr: "max by (endpoint, model) (" + ofProbes.of("inference_probe_ttft_window_seconds", `stat="p99_lower"`) + ")"},
			{Expr: "max by (endpoint, model) (" + ofProbes.of("inference_probe_ttft_window_seconds", `stat="p99_upper"`) + ")"},
			{Expr: mean("endpoint, model", "30m", "inference_probe_tpot_seconds", ofProbes)},
			{Expr: perServer("endpoint, model", ofEndpoint.of("inference_server_requests_waiting"))},
			{Expr: "max by (endpoint, model) (" + ofEndpoint.of("inference_server_kv_cache_usage_ratio") + ")"},
			{Expr: "topk by (endpoint, model) (1, " + sumIncrease("endpoint, model, outcome", "1h", "inference_probe_results_total", ofProbes, `outcome!~"success|canceled"`) + " > 0)"},
			{Expr: "1 - max by (endpoint, model) (" + ofRecorded.of("module:inference_probe_checks_missed:ratio1h") + ")"},
		},
		Columns: []Column{
			{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint"), fromRow(uidEngine, "Servers")}},
			{Label: "model", Title: "Model"},
			{Query: 0, Title: "State", States: upStates},
			{Query: 1, Title: "Bad 1h", Unit: "percentunit", Steps: bad},
			{Query: 2, Title: "Budget", Unit: "percentunit", Steps: good},
			{Query: 3, Title: "TTFT", Unit: "s"},
			{Query: 4, Title: "p99 ≥", Unit: "s"},
			{Query: 5, Title: "p99 ≤", Unit: "s"},
			{Query: 6, Title: "TPOT", Unit: "s"},
			{Query: 7, Title: "Queue"},
			{Query: 8, Title: "KV used", Unit: "percentunit"},
			{Query: 10, Title: "Right", Unit: "percentunit"},
			{Label: "outcome", Title: "Failure 1h", Width: 150},
			{Query: 9, Title: "Times"},
		},
		Sort: []Order{{Title: "State"}, {Title: "Bad 1h", Desc: true}}, NoValue: noProber,
	}
}

func fleetStates() Panel {
	const rows = 10
	now := "2 * max_over_time((1 - (" + endpointState() + "))[5m:1m] @ end())"
	before := "max by (endpoint, model) (avg_over_time(" + badRatio("5m") + "[$__range] @ end()))"
	return Panel{
		Title: "State by endpoint", Viz: StateTimeline, Width: 24, Height: 9, MaxRows: rows,
		What: "The ten worst endpoints: those that are down or degraded now, then those with most bad probes in the time range; the table above has all. Down where no probe succeeded for two minutes and the latest of every module failed, or where all of 5 minutes failed; degraded where one of the last 5 minutes failed or missed a latency objective; else ok. A gap is no verdict." + perProbe,
		By:   ByRules, Worry: "several endpoints change at the same time: look for what they share.", Alerts: []string{"InferenceEndpointDown", "InferenceProbeFailing"},
		Queries: []Query{{Expr: worst(rows, "endpoint, model", "("+endpointState()+")", now+" + on (endpoint, model) "+before), Legend: "{{endpoint}} {{model}}"}},
		NoValue: noProber,
		States:  endpointStates,
		Links:   []Link{fromSeries(uidEndpoint, "Endpoint"), fromSeries(uidEngine, "Servers")},
	}
}

func fleetObjectives() []Panel {
	shown := func(window string) string {
		choice := "avg_over_time(" + badRatio("1h") + "[$__range] @ end())"
		return worst(10, "endpoint, model", "max by (endpoint, model) ("+badRatio(window)+")", choice)
	}
	return []Panel{
		{
			Title: "Bad probes, 5 minutes", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of bad probes over 5 minutes, for the module and objective that each endpoint misses most; the ten worst endpoints of the time range. The dashed line is 14.4 times the error budget: with the same over an hour it pages." + perProbe,
			By:   ByRules, Worry: "a line stays over the dashed one.", Alerts: []string{"InferenceAvailabilityDegradedNow", "InferenceTTFTDegradedNow"},
			Queries: []Query{
				{Expr: shown("5m"), Legend: "{{endpoint}} {{model}}"},
				{Expr: "14.4 * (1 - max(" + ofRecorded.of("module:inference_slo_objective:ratio") + "))", Legend: "14.4 x budget", Limit: true},
			},
			Min: ptr(0.0), SoftMax: ptr(0.1), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noProber,
		},
		{
			Title: "Bad probes, 1 hour", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "As in the panel to the left, over one hour. The dashed lines are 14.4 and 6 times the error budget." + perProbe,
			By:   ByRules, Worry: "a line is over the upper dashed one, and in the panel to the left as well.", Alerts: []string{"InferenceAvailabilityDegradedNow", "InferenceAvailabilitySlowBurn"},
			Queries: []Query{
				{Expr: shown("1h"), Legend: "{{endpoint}} {{model}}"},
				{Expr: "14.4 * (1 - max(" + ofRecorded.of("module:inference_slo_objective:ratio") + "))", Legend: "14.4 x budget", Limit: true},
				{Expr: "6 * (1 - max(" + ofRecorded.of("module:inference_slo_objective:ratio") + "))", Legend: "6 x budget", Limit: true},
			},
			Min: ptr(0.0), SoftMax: ptr(0.1), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noProber,
		},
		{
			Title: "Error budget left, 30 days", Viz: BarGauge, Unit: "percentunit", Width: 8, Height: 8,
			What: "What is left of the error budget of 30 days, for the module and objective that each endpoint misses most; the twenty worst endpoints. Below 0 the objective is missed." + budgetLag,
			By:   ByRules, Worry: "it is under a quarter: no risky deployment then.", Alerts: []string{"InferenceAvailabilitySlowBurn", "InferenceTTFTSlowBurn"},
			Queries: []Query{{Expr: "bottomk(20, min by (endpoint, model) (" + budgetLeft() + "))", Legend: "{{endpoint}} {{model}}"}},
			Steps:   budgetSteps(), Min: ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: noProber,
		},
	}
}

// budgetSteps colour what is left of an error budget.
func budgetSteps() []Step { return []Step{{lowest, "red"}, {0.25, "yellow"}, {0.5, "green"}} }

// fleetDisagreement shows the share of each prober and not the result of a vote:
// which of them is right, only a person can find out.
func fleetDisagreement() Panel {
	const series = "endpoint, model, module"
	share := failedByProber(series+", instance", "30m")
	return Panel{
		Title: "Probers that disagree", Viz: Table, Width: 24, Height: 7,
		What: "Share of failed probes of the last 30 minutes by each prober, for the endpoints and modules at which two of them are more than a fifth apart.",
		By:   ByProbe, Worry: "one prober fails at many endpoints: its own network or credentials are broken. At one endpoint only, users near that prober may have the same trouble.", Alerts: []string{"InferenceProbersDisagree"},
		Queries: []Query{{Expr: share + " and on (" + series + ") (max by (" + series + ") (" + share + ") - min by (" + series + ") (" + share + ") > 0.2)"}},
		Columns: []Column{
			{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint")}},
			{Label: "model", Title: "Model"},
			{Label: "module", Title: "Module"},
			{Label: "instance", Title: "Prober"},
			{Query: 0, Title: "Failed 30m", Unit: "percentunit", Steps: []Step{{0.05, "yellow"}, {0.25, "red"}}},
		},
		Sort:    []Order{{Title: "Failed 30m", Desc: true}},
		NoValue: "no two probers disagree, or each endpoint has one",
	}
}

func fleetCauses() []Panel {
	median := ofRecorded.of("module:inference_probe_ttft_seconds:median30m")
	const series = "endpoint, model, " + byModule
	slowest := "max by (" + series + ") (" + median
	ratio := slowest + ") / on (" + series + ") " + slowest + " offset 1w)"
	return []Panel{
		{
			Title: "Failures by outcome", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8, Stacked: true,
			What: "Failed probes a minute over 5 minutes, by how they ended.", By: ByRules,
			Worry: "one outcome dominates: dns, connect and tls point to the network, unauthorized and rate_limited to the account, overloaded and timeouts to the load.", Alerts: []string{"InferenceProbeFailing"},
			Queries: []Query{{Expr: "60 * sum by (outcome) (" + ofRecorded.of("endpoint:inference_probe_failures:rate5m") + ")", Legend: "{{outcome}}"}},
			Named:   outcomeColors, Min: ptr(0.0), NoValue: noneOfProbes,
		},
		{
			Title: "Median TTFT against last week", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Median time to first token of 30 minutes, over that of the same time a week ago: 1 is as usual, 2 is twice as slow; the ten slowest. Endpoints that were added less than a week ago are left out.",
			By:   ByRules, Worry: "it stays over 1.5, the dashed line.", Alerts: []string{"InferenceLatencyRegression"},
			Queries: []Query{
				{Expr: worst(10, series, ratio, "avg_over_time(("+ratio+")[$__range:$__interval] @ end())"), Legend: "{{endpoint}} {{model}} " + module},
			},
			Steps: []Step{{1.5, "red"}}, Min: ptr(0.0), Links: []Link{fromSeries(uidEndpoint, "Endpoint")}, NoValue: "no baseline yet: it takes a week",
		},
		{
			Title: "Failed probes by model and prober", Viz: Table, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of failed probes in the last hour, one row for each model and one column for each prober. A red column is one prober or its network; a red row is the model.",
			By:   ByProbe, Worry: "a row is red in every column.", Alerts: []string{"InferenceProbeFailing"},
			Queries: []Query{{
				Expr: sumIncrease("model, instance", "1h", "inference_probe_slo_bad_total", ofEndpoint, `slo="availability"`) + " / " + sumIncrease("model, instance", "1h", "inference_probe_slo_eligible_total", ofEndpoint, `slo="availability"`),
			}},
			Matrix: &Matrix{Row: "model", Column: "instance"}, Steps: []Step{{0, "green"}, {0.01, "yellow"}, {0.1, "red"}}, NoValue: noProber,
		},
	}
}
