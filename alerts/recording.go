package alerts

import "fmt"

// Recording returns the recording rules, for alerts and dashboards.
func Recording(o Options) []Group {
	return finish(o, []Group{
		resultsGroup(),
		minutesGroup(),
		hourlySLOGroup(),
		longSLOGroup(),
		middleSLOGroup(),
		shortSLOGroup(),
		latencyRecordedGroup(o),
		probesGroup(),
		serverRatesGroup(),
		hourlyWorkloadsGroup(),
		workloadsRecordedGroup(),
		capacityGroup(),
		moneyGroup(),
		frontierGroup(),
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

// badRatio is the share of bad probes in a window, of counts recorded before.
func badRatio(window string) Rule {
	return record("module:inference_probe_slo_bad:ratio_rate"+window,
		`module:inference_probe_slo_bad:increase%[2]s
/ on (%[1]s)
(module:inference_probe_slo_eligible:increase%[2]s > 0)`, ofModule, window)
}

// increases are the numbers of bad and of all probes in a window, and the share of
// the bad ones.
func increases(window string) []Rule {
	return []Rule{
		record("module:inference_probe_slo_bad:increase"+window, "sum by (%s) (increase(inference_probe_slo_bad_total[%s]))", ofModule, window),
		record("module:inference_probe_slo_eligible:increase"+window, "sum by (%s) (increase(inference_probe_slo_eligible_total[%s]))", ofModule, window),
		badRatio(window),
	}
}

// daysOf are the same for a window of days, of what each hour recorded.
func daysOf(window string) []Rule {
	sum := func(counter string) Rule {
		return record("module:"+counter+":increase"+window, "sum_over_time(module:%s:increase_each_hour[%s])", counter, window)
	}
	return []Rule{sum("inference_probe_slo_bad"), sum("inference_probe_slo_eligible"), badRatio(window)}
}

// resultsGroup counts results once, for all that goes by them.
func resultsGroup() Group {
	return Group{Name: "inference-recorded-results", Interval: "1m", Rules: []Rule{
		record("endpoint:inference_probe_results:increase30m",
			`sum by ($K, outcome) (increase(inference_probe_results_total{outcome!="canceled",concurrency=""}[30m])) > 0`),
		record("endpoint:inference_endpoint_info:model", `group by ($K) (inference_endpoint_info{model!=""})`),
	}}
}

// minutesGroup has the minutes in which a probe was bad. Each series is compared
// with itself a minute ago, so that no probe is missed between two windows and no
// exporter that comes and goes looks like a bad minute.
func minutesGroup() Group {
	const expected = "module:inference_probe_slo_bad_minutes:expected30m"
	return Group{Name: "inference-recorded-slo-minutes", Interval: "1m", Rules: []Rule{
		// Exporters may disagree: the most lenient one counts.
		record("module:inference_slo_objective:ratio", "min by (%s) (inference_slo_objective_ratio)", ofModule),
		record(badMinute, `sum by (%s) (
  (inference_probe_slo_bad_total - inference_probe_slo_bad_total offset 1m) > bool 0
) > bool 0`, ofModule),
		record("module:inference_probe_slo_bad_minutes:count30m", "sum_over_time(%s[%dm])", badMinute, badMinuteWindow),
		record(expected,
			`%[2]d * (1 -
  module:inference_slo_objective:ratio
  ^ on (%[1]s)
  (sum by (%[1]s) (increase(inference_probe_slo_eligible_total[%[2]dm])) / %[2]d)
)`, ofModule, badMinuteWindow),
		record("module:inference_probe_slo_bad_minutes:enough30m",
			"%[1]s + %[2]d * sqrt(%[1]s * (1 - %[1]s / %[3]d)) + %[4]d",
			expected, badMinuteSigmas, badMinuteWindow, badMinuteExtra),
	}}
}

// badMinute is 1 for a minute with a bad probe and else 0.
const badMinute = "module:inference_probe_slo_bad_minutes:bool"

// shortSLOGroup has what pages soon.
func shortSLOGroup() Group {
	g := Group{Name: "inference-recorded-slo-short", Interval: "30s"}
	for _, window := range []string{"5m", "30m", "1h"} {
		g.Rules = append(g.Rules, increases(window)...)
	}
	for _, window := range []string{"2m", "3m30s", "10m"} {
		g.Rules = append(g.Rules, ownBad(window))
	}
	g.Rules = append(g.Rules, serversHungRecorded()...)
	g.Rules = append(g.Rules, degradedRecorded()...)
	return g
}

// middleSLOGroup has the windows of hours.
func middleSLOGroup() Group {
	g := Group{Name: "inference-recorded-slo-middle", Interval: "1m"}
	for _, window := range []string{"2h", "6h"} {
		g.Rules = append(g.Rules, increases(window)...)
	}
	return g
}

// hourlySLOGroup has the probes of each hour once, so that those of many days
// can be added up: a month of the counters would be 172,800 samples of each. Of
// the bad minutes it has how many there were, in how many stretches, and whether
// one of these lasted longer than a minute. An hour with more than usualBadMinutes of them
// is that of an incident and says nothing about noise.
func hourlySLOGroup() Group {
	hour := func(counter string) Rule {
		return record("module:"+counter+":increase_each_hour", "sum by (%s) (increase(%s_total[1h]))", ofModule, counter)
	}
	usual := func(name, expr string) Rule {
		return record("module:inference_probe_slo_bad_minutes:"+name+"_each_hour",
			"%s\nand on (%s)\nsum_over_time(%s[1h]) <= %d", expr, ofModule, badMinute, usualBadMinutes)
	}
	return Group{Name: "inference-recorded-slo-hourly", Interval: "1h", Rules: []Rule{
		hour("inference_probe_slo_bad"),
		hour("inference_probe_slo_eligible"),
		usual("count", "sum_over_time("+badMinute+"[1h])"),
		usual("stretches", "resets("+badMinute+"[1h])"),
		usual("long_stretches", fmt.Sprintf("clamp_max(resets((%[1]s * on (%[2]s) %[1]s offset 1m)[1h:1m]), 1)", badMinute, ofModule)),
	}}
}

// longSLOGroup has the windows of days, which change slowly. Its interval leaves
// two minutes for an evaluation before what was recorded the time before is too
// old to be seen.
func longSLOGroup() Group {
	g := Group{Name: "inference-recorded-slo-long", Interval: "3m", Rules: append(daysOf("1d"), daysOf("3d")...)}
	g.Rules = append(g.Rules,
		record("module:inference_probe_slo_bad:ratio30d",
			`sum_over_time(module:inference_probe_slo_bad:increase_each_hour[30d])
/ on (%s)
(sum_over_time(module:inference_probe_slo_eligible:increase_each_hour[30d]) > 0)`, ofModule),
		togetherRecorded(),
	)
	return g
}

// alike is the labels of probes that ask the same.
const alike = "$K, module, prefix, input_tokens, output_tokens"

// median is the median of a histogram in a window, from native histograms or else
// from classic ones, of the probes that ask the same. Bursts overload on purpose.
// Matchers begin with a comma.
func median(metric, by, window, matchers string) string {
	return fmt.Sprintf(`histogram_quantile(0.5, sum by (%[1]s) (rate(%[2]s{concurrency=""%[4]s}[%[3]s]))) > 0
or
histogram_quantile(0.5, sum by (%[1]s, le) (rate(%[2]s_bucket{concurrency=""%[4]s}[%[3]s]))) > 0`, by, metric, window, matchers)
}

// observations is how many probes a median rests on.
func observations(metric, window, matchers string) string {
	return fmt.Sprintf(`sum by (%[1]s) (histogram_count(increase(%[2]s{concurrency=""%[4]s}[%[3]s])))
or
sum by (%[1]s) (increase(%[2]s_count{concurrency=""%[4]s}[%[3]s]))`, alike, metric, window, matchers)
}

// latencyRecordedGroup has medians. Modules, prefixes and lengths stay apart:
// their prompts differ, and a median over two kinds lies anywhere between them.
// Boards show that of half an hour of all modules; a longer one is that of the
// modules that need it.
func latencyRecordedGroup(o Options) Group {
	const ttft, tpot = "inference_probe_ttft_seconds", "inference_probe_tpot_seconds"
	g := Group{Name: "inference-recorded-latency", Interval: "1m"}
	for _, w := range o.medianWindows() {
		modules := w.only
		g.Rules = append(g.Rules,
			record("module:"+ttft+":median"+w.length, "%s", median(ttft, alike, w.length, modules)),
			record("module:"+ttft+":increase"+w.length, "%s", observations(ttft, w.length, modules)))
	}
	// Two exporters that ask the same at the same endpoint should agree.
	return Group{Name: g.Name, Interval: g.Interval, Rules: append(
		g.Rules,
		record("instance:"+ttft+":median30m", "%s", median(ttft, "job, instance, "+alike, "30m", "")),
		record("module:"+tpot+":median10m", "%s", median(tpot, alike, "10m", "")),
		record("module:"+tpot+":increase10m", "%s", observations(tpot, "10m", "")),
		record("module:"+tpot+":usual1d", `quantile_over_time(0.75, module:%[1]s:median10m[1d])
and on (%[2]s)
count_over_time(module:%[1]s:median10m[1d]) >= %[3]d`, tpot, alike, fewestUsualTPOTs),
		tpotRisenRecorded(),
	)}
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
	return Group{Name: "inference-recorded-servers", Interval: "1m", Rules: append([]Rule{
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
		record("server:inference_server_estimated_memory_bandwidth_use:ratio_rate5m",
			`(
  max by ($K, server) (rate(inference_server_estimated_read_bytes_per_gpu_total[5m]))
  + on ($K, server)
  max by ($K, server) (rate(inference_server_estimated_write_bytes_per_gpu_total[5m]))
)
/ on ($K) group_left ()
max by ($K) (inference_endpoint_gpu_memory_bandwidth_bytes_per_second)`),
	}, memoryRecorded()...)}
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

// A drop pages where it is large in half an hour, and beyond what whole hours of the
// seven days before were apart. Their standard deviation knows whether wrong answers
// come together: where it is mostSpread times that of independent ones, half an hour
// says too little. Else that of half hours is at most the square root of two times as
// large, so that brokenSpreads are six.
const (
	brokenDrop    = "0.25"
	brokenSpreads = "8.5"
	mostSpread    = "2"
	stillBroken   = "0.2" // over the share that is usual, in the last five minutes
	fewestHours   = 24    // for their deviation
)

// missedEachHour is the share of answers that are not right in each hour.
const missedEachHour = "module:inference_probe_checks_missed:ratio_each_hour"

// fewestBurstHours is how many hours with bursts make a usual size.
const fewestBurstHours = 24

// hourlyWorkloadsGroup has each hour once, so that those of many days can be
// looked at.
func hourlyWorkloadsGroup() Group {
	return Group{Name: "inference-recorded-workloads-hourly", Interval: "1h", Rules: append([]Rule{
		record("module:inference_probe_checks:increase_each_hour",
			`sum by (%s) (increase(inference_probe_checks_total{concurrency=""}[1h]))`, ofEach),
		record("module:inference_probe_checks_missed:increase_each_hour",
			`sum by (%s) (increase(inference_probe_checks_total{verdict!~"correct|valid",concurrency=""}[1h]))`, ofEach),
		record(missedEachHour, `module:inference_probe_checks_missed:increase_each_hour
/ on (%s)
(module:inference_probe_checks:increase_each_hour > 0)`, ofEach),
		record("module:inference_probe_burst_knee_concurrency:max_each_hour",
			"max_over_time(module:inference_probe_burst_knee_concurrency:max[1h])"),
	}, histogramsOfHour()...)}
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
		record("module:inference_probe_checks_missed:spread7d", `stddev_over_time(%[1]s[7d])
and on (%[2]s)
count_over_time(%[1]s[7d]) >= %[3]d`, missedEachHour, ofEach, fewestHours),
	}}
	for _, window := range []string{"5m", "30m", "1h", "6h"} {
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
		record(missed, `sum by (%s) (increase(inference_probe_checks_total{verdict!~"correct|valid",concurrency=""}[%s]))`, ofEach, window),
		record("module:inference_probe_checks_missed:ratio"+window, "%s / on (%s) (%s > 0)", missed, ofEach, checks),
	}
}
