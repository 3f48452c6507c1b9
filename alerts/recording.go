package alerts

import "fmt"

// Recording returns the recording rules, for alerts and dashboards.
func Recording(o Options) []Group {
	return identify(o, []Group{
		shortSLOGroup(),
		middleSLOGroup(),
		longSLOGroup(),
		ttftGroup(o),
		serverRatesGroup(),
	})
}

// record returns a recording rule.
func record(name, format string, args ...any) Rule {
	return Rule{Record: name, Expr: fmt.Sprintf(format, args...)}
}

// badRatio is the share of bad probes in a window.
func badRatio(window string) Rule {
	return record("endpoint:inference_probe_slo_bad:ratio_rate"+window,
		`sum by ($K, slo) (rate(inference_probe_slo_bad_total[%[1]s]))
/ on ($K, slo)
(sum by ($K, slo) (rate(inference_probe_slo_eligible_total[%[1]s])) > 0)`, window)
}

// badIncrease is the number of bad probes in a window.
func badIncrease(window string) Rule {
	return record("endpoint:inference_probe_slo_bad:increase"+window,
		"sum by ($K, slo) (increase(inference_probe_slo_bad_total[%s]))", window)
}

// shortSLOGroup has what pages soon.
func shortSLOGroup() Group {
	return Group{Name: "inference-recorded-slo-short", Interval: "30s", Rules: []Rule{
		// The most lenient of the endpoint's modules.
		record("endpoint:inference_slo_objective:ratio", "min by ($K, slo) (inference_slo_objective_ratio)"),
		badRatio("5m"),
		badRatio("30m"),
		badRatio("1h"),
		badIncrease("5m"),
		badIncrease("1h"),
		// Each series is compared with itself a minute ago, so that no probe is
		// missed between two windows and no exporter that comes and goes looks
		// like a bad minute.
		record("endpoint:inference_probe_slo_bad_minutes:count30m",
			`count_over_time(
  (sum by ($K, slo) (
    (inference_probe_slo_bad_total - inference_probe_slo_bad_total offset 1m) > 0
  ))[%dm:1m]
)`, badMinuteWindow),
		record("endpoint:inference_probe_slo_bad_minutes:expected30m",
			`%[1]d * (1 -
  endpoint:inference_slo_objective:ratio
  ^ on ($K, slo)
  (sum by ($K, slo) (increase(inference_probe_slo_eligible_total[%[1]dm])) / %[1]d)
)`, badMinuteWindow),
		record("endpoint:inference_probe_slo_bad_minutes:enough30m",
			"%[1]s + %[2]d * sqrt(%[1]s * (1 - %[1]s / %[3]d)) + %[4]d",
			"endpoint:inference_probe_slo_bad_minutes:expected30m", badMinuteSigmas, badMinuteWindow, badMinuteExtra),
	}}
}

// middleSLOGroup has the windows of hours.
func middleSLOGroup() Group {
	return Group{Name: "inference-recorded-slo-middle", Interval: "1m", Rules: []Rule{
		badRatio("2h"),
		badRatio("6h"),
		badIncrease("6h"),
	}}
}

// longSLOGroup has the windows of days, which are costly and change slowly.
func longSLOGroup() Group {
	return Group{Name: "inference-recorded-slo-long", Interval: "5m", Rules: []Rule{
		badRatio("1d"),
		badRatio("3d"),
		badIncrease("1d"),
		badIncrease("3d"),
	}}
}

// ttftGroup has medians, from native histograms or else from classic ones.
// Modules and prefixes stay apart: their prompts differ, and a median over
// two kinds lies anywhere between them.
func ttftGroup(o Options) Group {
	windows := []string{"30m"}
	if w := duration(o.medianWindow()); w != windows[0] {
		windows = append(windows, w)
	}
	g := Group{Name: "inference-recorded-ttft", Interval: "1m"}
	for _, w := range windows {
		g.Rules = append(g.Rules,
			record("endpoint:inference_probe_ttft_seconds:median"+w,
				`histogram_quantile(0.5, sum by ($K, module, prefix) (rate(inference_probe_ttft_seconds[%[1]s]))) > 0
or
histogram_quantile(0.5, sum by ($K, module, prefix, le) (rate(inference_probe_ttft_seconds_bucket[%[1]s]))) > 0`, w),
			record("endpoint:inference_probe_ttft_seconds:increase"+w,
				`sum by ($K, module, prefix) (histogram_count(increase(inference_probe_ttft_seconds[%[1]s])))
or
sum by ($K, module, prefix) (increase(inference_probe_ttft_seconds_count[%[1]s]))`, w))
	}
	return g
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
