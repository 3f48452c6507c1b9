package alerts

import "fmt"

// Recording returns the recording rules, for alerts and dashboards.
func Recording(o Options) []Group {
	return identify(o, []Group{
		shortSLOGroup(),
		middleSLOGroup(),
		hourlySLOGroup(),
		longSLOGroup(),
		ttftGroup(o),
		probesGroup(),
		serverRatesGroup(),
		hourlyWorkloadsGroup(),
		workloadsRecordedGroup(),
	})
}

// record returns a recording rule.
func record(name, format string, args ...any) Rule {
	return Rule{Record: name, Expr: fmt.Sprintf(format, args...)}
}

// ofModule is the labels by which objectives are judged:
// an endpoint's modules differ in what they ask and in what they allow, so each
// is judged by itself. Its prefixes and lengths are added up.
const ofModule = "$K, module, slo"

// badRatio is the share of bad probes in a window.
func badRatio(window string) Rule {
	return record("module:inference_probe_slo_bad:ratio_rate"+window,
		`sum by (%[1]s) (rate(inference_probe_slo_bad_total[%[2]s]))
/ on (%[1]s)
(sum by (%[1]s) (rate(inference_probe_slo_eligible_total[%[2]s])) > 0)`, ofModule, window)
}

// badIncrease is the number of bad probes in a window.
func badIncrease(window string) Rule {
	return record("module:inference_probe_slo_bad:increase"+window,
		"sum by (%s) (increase(inference_probe_slo_bad_total[%s]))", ofModule, window)
}

// shortSLOGroup has what pages soon.
func shortSLOGroup() Group {
	return Group{Name: "inference-recorded-slo-short", Interval: "30s", Rules: append([]Rule{
		// Exporters may disagree: the most lenient one counts.
		record("module:inference_slo_objective:ratio", "min by (%s) (inference_slo_objective_ratio)", ofModule),
		badRatio("5m"),
		badRatio("30m"),
		badRatio("1h"),
		badIncrease("5m"),
		badIncrease("1h"),
	}, badMinutesRecorded()...)}
}

// badMinutesRecorded counts bad minutes. Each series is compared with itself a
// minute ago, so that no probe is missed between two windows and no exporter
// that comes and goes looks like a bad minute.
func badMinutesRecorded() []Rule {
	const expected = "module:inference_probe_slo_bad_minutes:expected30m"
	return []Rule{
		record("module:inference_probe_slo_bad_minutes:count30m",
			`count_over_time(
  (sum by (%s) (
    (inference_probe_slo_bad_total - inference_probe_slo_bad_total offset 1m) > 0
  ))[%dm:1m]
)`, ofModule, badMinuteWindow),
		record(expected,
			`%[2]d * (1 -
  module:inference_slo_objective:ratio
  ^ on (%[1]s)
  (sum by (%[1]s) (increase(inference_probe_slo_eligible_total[%[2]dm])) / %[2]d)
)`, ofModule, badMinuteWindow),
		record("module:inference_probe_slo_bad_minutes:enough30m",
			"%[1]s + %[2]d * sqrt(%[1]s * (1 - %[1]s / %[3]d)) + %[4]d",
			expected, badMinuteSigmas, badMinuteWindow, badMinuteExtra),
	}
}

// middleSLOGroup has the windows of hours.
func middleSLOGroup() Group {
	return Group{Name: "inference-recorded-slo-middle", Interval: "1m", Rules: []Rule{
		badRatio("2h"),
		badRatio("6h"),
		badIncrease("6h"),
	}}
}

// hourlySLOGroup has the probes of each hour once, so that those of many days
// can be added up: a month of the counters would be 172,800 samples of each.
func hourlySLOGroup() Group {
	hour := func(counter string) Rule {
		return record("module:"+counter+":increase_each_hour", "sum by (%s) (increase(%s_total[1h]))", ofModule, counter)
	}
	return Group{Name: "inference-recorded-slo-hourly", Interval: "1h", Rules: []Rule{
		hour("inference_probe_slo_bad"),
		hour("inference_probe_slo_eligible"),
	}}
}

// longSLOGroup has the windows of days, which are costly and change slowly. Its
// interval leaves two minutes for an evaluation before what was recorded the
// time before is too old to be seen.
func longSLOGroup() Group {
	return Group{Name: "inference-recorded-slo-long", Interval: "3m", Rules: []Rule{
		badRatio("1d"),
		badRatio("3d"),
		badIncrease("1d"),
		badIncrease("3d"),
		record("module:inference_probe_slo_bad:ratio30d",
			`sum_over_time(module:inference_probe_slo_bad:increase_each_hour[30d])
/ on (%s)
(sum_over_time(module:inference_probe_slo_eligible:increase_each_hour[30d]) > 0)`, ofModule),
	}}
}

// alike is the labels of probes that ask the same.
const alike = "$K, module, prefix, input_tokens, output_tokens"

// ttftGroup has medians, from native histograms or else from classic ones.
// Modules, prefixes and lengths stay apart: their prompts differ, and a median
// over two kinds lies anywhere between them. Bursts overload on purpose.
func ttftGroup(o Options) Group {
	windows := []string{"30m"}
	if w := duration(o.medianWindow()); w != windows[0] {
		windows = append(windows, w)
	}
	g := Group{Name: "inference-recorded-ttft", Interval: "1m"}
	for _, w := range windows {
		g.Rules = append(g.Rules,
			record("module:inference_probe_ttft_seconds:median"+w,
				`histogram_quantile(0.5, sum by (%[1]s) (rate(inference_probe_ttft_seconds{concurrency=""}[%[2]s]))) > 0
or
histogram_quantile(0.5, sum by (%[1]s, le) (rate(inference_probe_ttft_seconds_bucket{concurrency=""}[%[2]s]))) > 0`, alike, w),
			record("module:inference_probe_ttft_seconds:increase"+w,
				`sum by (%[1]s) (histogram_count(increase(inference_probe_ttft_seconds{concurrency=""}[%[2]s])))
or
sum by (%[1]s) (increase(inference_probe_ttft_seconds_count{concurrency=""}[%[2]s]))`, alike, w))
	}
	// Two exporters that ask the same at the same endpoint should agree.
	const byExporter = "job, instance, " + alike
	g.Rules = append(g.Rules, record("instance:inference_probe_ttft_seconds:median30m",
		`histogram_quantile(0.5, sum by (%[1]s) (rate(inference_probe_ttft_seconds{concurrency=""}[30m]))) > 0
or
histogram_quantile(0.5, sum by (%[1]s, le) (rate(inference_probe_ttft_seconds_bucket{concurrency=""}[30m]))) > 0`, byExporter))
	return g
}

// probesGroup has what dashboards show of all probes: each module has a counter
// for every outcome.
func probesGroup() Group {
	return Group{Name: "inference-recorded-probes", Interval: "30s", Rules: []Rule{
		record("endpoint:inference_probe_failures:rate5m",
			`sum by ($K, outcome) (rate(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[5m])) > 0`),
		record("instance:inference_probe_results:rate5m",
			"sum by (job, instance) (rate(inference_probe_results_total[5m]))"),
		rememberedEndpoints(),
		// An endpoint that carries all bursts has its knee nowhere, also if only one
		// of two exporters saw it do so.
		record("module:inference_probe_burst_knee_concurrency:max",
			`max by (%[1]s) (
  max by (%[2]s) (inference_probe_burst_knee_concurrency)
  or
  max by (%[2]s) (inference_probe_burst_failed) * 0 + Inf
)`, ofEach, ofProber),
	}}
}

// serverRatesGroup has what is compared with the past, and what dashboards
// show of many servers. A server that two exporters read counts once.
func serverRatesGroup() Group {
	return Group{Name: "inference-recorded-servers", Interval: "1m", Rules: []Rule{
		record("endpoint:inference_server_prefix_cache_queries:increase30m",
			"sum by ($K) (max by ($K, server) (increase(inference_server_prefix_cache_queries_total[30m])))"),
		record("endpoint:inference_server_prefix_cache_hits:ratio_increase30m",
			`sum by ($K) (max by ($K, server) (increase(inference_server_prefix_cache_hits_total[30m])))
/ on ($K)
(endpoint:inference_server_prefix_cache_queries:increase30m > 0)`),
		record("endpoint:inference_server_requests_running:avg10m",
			"sum by ($K) (max by ($K, server) (avg_over_time(inference_server_requests_running[10m])))"),
		record("endpoint:inference_server_generation_tokens:rate10m_per_running",
			`sum by ($K) (max by ($K, server) (rate(inference_server_generation_tokens_total[10m])))
/ on ($K)
(endpoint:inference_server_requests_running:avg10m > 0)`),
		record("endpoint:inference_server_ttft_seconds:mean10m",
			`sum by ($K) (max by ($K, server) (rate(inference_server_ttft_seconds_sum[10m])))
/ on ($K)
(sum by ($K) (max by ($K, server) (rate(inference_server_ttft_seconds_count[10m]))) > 0)`),
		record("endpoint:inference_server_generation_tokens:rate5m",
			"sum by ($K) (max by ($K, server) (rate(inference_server_generation_tokens_total[5m])))"),
		record("endpoint:inference_server_requests_running:sum",
			"sum by ($K) (max by ($K, server) (inference_server_requests_running))"),
		record("endpoint:inference_server_kv_cache_usage_ratio:max1h",
			"max by ($K) (max_over_time(inference_server_kv_cache_usage_ratio[1h]))"),
	}}
}

// ofEach is the labels of a module of an endpoint.
const ofEach = "$K, module"

// Answers that fail their check are compared with the share of them in the seven
// days before. How many are expected follows from that share and from how many
// checks there were; checkSigmas standard deviations more, and checkExtra on top
// because so few are not normally distributed, are beyond chance. They must also
// be enough to matter.
const (
	checkSigmas         = 4
	checkExtra          = 2
	smallestQualityDrop = "0.05"
	fewestChecks        = 30  // in the window
	fewestUsualChecks   = 100 // in the days before
)

// fewestBurstHours is how many hours with bursts make a usual size.
const fewestBurstHours = 24

// hourlyWorkloadsGroup has each hour once, so that those of many days can be
// looked at.
func hourlyWorkloadsGroup() Group {
	return Group{Name: "inference-recorded-workloads-hourly", Interval: "1h", Rules: []Rule{
		record("module:inference_probe_checks:increase_each_hour",
			`sum by (%s) (increase(inference_probe_checks_total{concurrency=""}[1h]))`, ofEach),
		record("module:inference_probe_checks_missed:increase_each_hour",
			`sum by (%s) (increase(inference_probe_checks_total{verdict!="correct",concurrency=""}[1h]))`, ofEach),
		record("module:inference_probe_burst_knee_concurrency:max_each_hour",
			"max_over_time(module:inference_probe_burst_knee_concurrency:max[1h])"),
	}}
}

// workloadsRecordedGroup has what alerts compare with the past, and what
// endpoints and their probes cost.
func workloadsRecordedGroup() Group {
	g := Group{Name: "inference-recorded-workloads", Interval: "1m", Rules: []Rule{
		// As if one more check of two had failed: a share of 0 would make the first
		// failure a surprise.
		record("module:inference_probe_checks_missed:usual7d",
			`(sum_over_time(module:inference_probe_checks_missed:increase_each_hour[7d]) + 1)
/ on (%s)
((sum_over_time(module:inference_probe_checks:increase_each_hour[7d]) >= %d) + 2)`, ofEach, fewestUsualChecks),
	}}
	for _, window := range []string{"1h", "6h"} {
		g.Rules = append(g.Rules, checksRecorded(window)...)
	}
	g.Rules = append(g.Rules,
		record("endpoint:inference_usd_per_million_output_tokens:rate1h",
			`1e6 * max by ($K) (inference_endpoint_price_usd_per_hour) / 3600
/ on ($K)
(sum by ($K) (max by ($K, server) (rate(inference_server_generation_tokens_total[1h]))) > 0)`),
		record("endpoint:inference_probe_cost_usd:increase1d",
			"sum by ($K) (increase(inference_probe_cost_usd_total[1d]))"),
	)
	return g
}

// checksRecorded has the checks of a window.
func checksRecorded(window string) []Rule {
	checks := "module:inference_probe_checks:increase" + window
	missed := "module:inference_probe_checks_missed:increase" + window
	return []Rule{
		record(checks, `sum by (%s) (increase(inference_probe_checks_total{concurrency=""}[%s]))`, ofEach, window),
		record(missed, `sum by (%s) (increase(inference_probe_checks_total{verdict!="correct",concurrency=""}[%s]))`, ofEach, window),
		record("module:inference_probe_checks_missed:ratio"+window, "%s / on (%s) (%s > 0)", missed, ofEach, checks),
	}
}
