package alerts

// ofEach stands in expressions for the labels of what a module tells of an
// endpoint.
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
