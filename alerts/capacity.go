package alerts

import (
	"fmt"
	"strings"
)

// capacityGroup has the work of one GPU, what becomes of it where a model has more of
// them, and how many servers the load of a day needed.
func capacityGroup() Group {
	g := Group{Name: "inference-recorded-capacity", Interval: "1m", Rules: []Rule{
		record("endpoint:inference_server_up:count", "count by ($K) (group by ($K, server) (inference_server_up == 1))"),
		// An endpoint without pages is taken for one server; one whose pages fail has
		// no number.
		record(gpus, `max by ($K) (inference_endpoint_gpus) * on ($K) endpoint:inference_server_up:count
or
max by ($K) (inference_endpoint_gpus) unless on ($K) group by ($K) (inference_server_up)`),
		record("endpoint:inference_server_prompt_tokens:rate5m",
			"sum by ($K) (max by ($K, server) (rate(inference_server_prompt_tokens_total[5m])))"),
	}}
	for _, kind := range []string{"prompt", "generation"} {
		tokens := "inference_server_" + kind + "_tokens"
		g.Rules = append(g.Rules,
			record("endpoint:"+tokens+":rate5m_per_gpu", "endpoint:%s:rate5m / on ($K) %s", tokens, gpus),
			record("model:"+tokens+":rate5m_per_gpu", `sum by (model) (endpoint:%[1]s:rate5m{model!=""} and on ($K) %[2]s)
/ on (model)
sum by (model) (%[2]s and on ($K) endpoint:%[1]s:rate5m)`, tokens, gpus))
	}
	g.Rules = append(g.Rules, scalingRecorded()...)
	return Group{Name: g.Name, Interval: g.Interval, Rules: append(g.Rules, enoughRecorded()...)}
}

// gpus is how many GPUs the servers of an endpoint have together.
const gpus = "endpoint:inference_endpoint_gpus:sum"

// arrivals is there for modules whose bursts start one after the other: how many tokens a
// second they yield follows from the rate of the requests, not from the endpoint alone.
const arrivals = "inference_probe_arrivals_per_second"

// scalingRecorded compares deployments of one model by bursts, which ask the same of each:
// what servers generate for users depends on how much these ask.
func scalingRecorded() []Rule {
	const (
		perGPU = "module:inference_probe_burst_output_tokens_per_second:avg1h_per_gpu"
		burst  = "$K, module, concurrency"
		fewest = "min by (model) (" + gpus + " and on ($K) " + perGPU + ")"
	)
	return []Rule{
		record(perGPU, `(
  avg by (%[1]s) (avg_over_time(inference_probe_burst_output_tokens_per_second[1h]))
  unless on (%[1]s)
  max by (%[1]s) (max_over_time(inference_probe_burst_failed[1h])) > 0
  unless on ($K, module)
  max by ($K, module) (max_over_time(%[3]s[1h]))
)
/ on ($K) group_left
%[2]s`, burst, gpus, arrivals),
		record("module:inference_probe_burst_output_tokens_per_second:scaling_efficiency", `(
  %[1]s{model!=""}
  / on (model, module, concurrency) group_left
  avg by (model, module, concurrency) (%[1]s and on ($K) (%[2]s == on (model) group_left %[3]s))
)
and on (model)
(max by (model) (%[2]s and on ($K) %[1]s) > on (model) %[3]s)`, perGPU, gpus, fewest),
	}
}

// mostUsed is the share of what a server was seen to carry that it may use. A day is judged
// where at least fewestMinutes of it are known.
const (
	mostUsed      = "0.8"
	fewestMinutes = 1200
)

// enoughRecorded is how many servers would have carried the load of the last day: by the
// tokens per second of the largest burst that met the objectives, and by the KV cache. It
// needs both, no queue that lasted five minutes, and objectives that were met: else more
// servers than there were may have been necessary.
func enoughRecorded() []Rule {
	const (
		servers = "endpoint:inference_server_up:count"
		load    = "endpoint:inference_probe_burst_carried_tokens_per_second:used_ratio"
		kv      = "endpoint:inference_server_kv_cache_usage_ratio:mean"
		needed  = "endpoint:inference_servers_needed:count"
		queue   = "endpoint:inference_server_requests_waiting:min5m"
	)
	return []Rule{
		record(kv, "avg by ($K) (max by ($K, server) (inference_server_kv_cache_usage_ratio))"),
		record(queue, "sum by ($K) (max by ($K, server) (min_over_time(inference_server_requests_waiting[5m])))"),
		record(load, `endpoint:inference_server_generation_tokens:rate5m
/ on ($K)
(max by ($K) (inference_probe_burst_carried_tokens_per_second) > 0)`),
		record(needed, `%[1]s
* on ($K)
((%[2]s >= on ($K) %[3]s or on ($K) %[3]s and on ($K) %[2]s) / %[4]s)`, servers, load, kv, mostUsed),
		record("endpoint:inference_servers_enough:count1d", `clamp_min(ceil(max_over_time(%[1]s[1d])), 1)
and on ($K)
count_over_time(%[1]s[1d]) >= %[2]d
and on ($K)
max_over_time(%[3]s[1d]) == 0
unless on ($K)
(
  max by (%[4]s) (module:inference_probe_slo_bad:ratio_rate1d)
  > on (%[4]s)
  1 - module:inference_slo_objective:ratio
)`, needed, fewestMinutes, queue, ofModule),
	}
}

// moneyGroup has what a million output tokens cost where no page counts them: by the speed
// of the probes. One stream is the most expensive way to use a GPU.
func moneyGroup() Group {
	const price = "max by ($K) (inference_endpoint_price_usd_per_hour)"
	cost := func(name, speed string) Rule {
		return record("module:inference_usd_per_million_output_tokens:"+name, "1e6 / 3600 / (%s > 0)\n* on ($K) group_left\n%s", speed, price)
	}
	return Group{Name: "inference-recorded-money", Interval: "1m", Rules: []Rule{
		cost("single_stream", `avg by ($K, module) (avg_over_time(inference_probe_last_output_tokens_per_second{concurrency=""}[1h]))`),
		cost("bursts", `(
  avg by ($K, module, concurrency) (avg_over_time(inference_probe_burst_output_tokens_per_second[1h]))
  unless on ($K, module)
  max by ($K, module) (max_over_time(`+arrivals+`[1h]))
)`),
	}}
}

// mostRanks is how many of the best qualities are looked at for the frontier.
const mostRanks = 16

// frontierGroup has which models no other one beats in quality and speed, or in quality
// and cost. Only what the same module asked is compared.
func frontierGroup() Group {
	const (
		quality = "module:inference_probe_checks_right:ratio1d"
		point   = "$K, module"
		axis    = "module:inference_quality_frontier:axis"
		offered = "endpoint:inference_usd_per_million_output_tokens:offered"
	)
	// Of two that are equal the one with the better answers counts.
	against := func(name, expr string) string {
		return fmt.Sprintf(`label_replace(%s + on (%s) 1e-9 * (1 - %s), "against", %q, "", "")`, expr, point, quality, name)
	}
	p99 := func(name string) Rule {
		return record("module:"+name+":p99_1d", `histogram_quantile(0.99, sum by (%[1]s) (sum_over_time(module:%[2]s:increase_each_hour[1d]))) > 0
or
histogram_quantile(0.99, sum by (%[1]s, le) (sum_over_time(module:%[2]s_bucket:increase_each_hour[1d]))) > 0`, point, name)
	}
	return Group{Name: "inference-recorded-frontier", Interval: "3m", Rules: []Rule{
		record(quality, `1 -
sum_over_time(module:inference_probe_checks_missed:increase_each_hour[1d])
/ on (%[1]s)
(sum_over_time(module:inference_probe_checks:increase_each_hour[1d]) >= %[2]d)`, point, fewestChecks),
		// What a million output tokens cost a user: by the price list, or by the load.
		record(offered, `1e6 * max by ($K) (inference_endpoint_price_usd_per_token{kind="output"})
or on ($K)
endpoint:inference_usd_per_million_output_tokens:rate1h`),
		p99("inference_probe_ttft_seconds"),
		p99("inference_probe_tpot_seconds"),
		record(axis, "%s\nor\n%s\nor\n%s",
			against("ttft", "module:inference_probe_ttft_seconds:p99_1d"),
			against("tpot", "module:inference_probe_tpot_seconds:p99_1d"),
			against("cost", "("+quality+" >= bool 0) * on ($K) group_left "+offered)),
		onFrontier("module:inference_quality_frontier:bool", quality, axis),
	}}
}

// onFrontier is 1 for what nothing of at least its quality is below: the lowest of those
// with the best quality, of those with the two best, and so on, and the lowest of all. It
// is 0 for the rest, but for what is lower than all that was looked at before.
func onFrontier(name, quality, axis string) Rule {
	lowest := func(of string) string { return "min by (module, against) " + of }
	var best []string
	var among string
	for n := range mostRanks {
		among = fmt.Sprintf("(%[1]s and on ($K, module) (%[2]s >= on (module) group_left min by (module) (topk by (module) (%[3]d, %[2]s))))", axis, quality, n+1)
		best = append(best, among+" == on (module, against) group_left "+lowest(among))
	}
	best = append(best, axis+" == on (module, against) group_left "+lowest("("+axis+")"))
	return record(name, `(
%[1]s
) >= bool 0
or
(%[2]s unless on ($K, module, against)
  ((%[2]s unless on ($K, module, against) %[3]s) < on (module, against) group_left %[4]s)) < bool 0`,
		strings.Join(best, "\nor\n"), axis, among, lowest(among))
}

// histogramsOfHour are the latencies of an hour of the modules that check answers.
func histogramsOfHour() []Rule {
	var all []Rule
	for _, name := range []string{"inference_probe_ttft_seconds", "inference_probe_tpot_seconds"} {
		const checked = "\nand on ($K, module)\nmodule:inference_probe_checks:increase_each_hour"
		all = append(all,
			record("module:"+name+":increase_each_hour", `sum by ($K, module) (increase(%s{concurrency=""}[1h]))`+checked, name),
			record("module:"+name+"_bucket:increase_each_hour", `sum by ($K, module, le) (increase(%s_bucket{concurrency=""}[1h]))`+checked, name))
	}
	return all
}
