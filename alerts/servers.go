package alerts

// serversGroup has the alerts on what the servers report: most are causes, and
// therefore warnings.
func serversGroup() Group {
	return Group{Name: "inference-servers", Interval: "30s", Rules: rules(
		kvCacheSaturated(),
		queueGrowing(),
		queueSaturated(),
		preemptionsHigh(),
		prefixCacheHitRateCollapse(),
		decodeSpeedCollapse(),
		serverHung(),
		replicaLost(),
		replicaLossSlowsSurvivors(),
		allReplicasLost(),
		serverPageUnreadable(),
		serverQuantityMissing(),
		kvTransfersFailing(),
		requestsCorrupted(),
		gatewayLost(),
		gatewayWithoutBackends(),
		gatewayBackendFailing(),
	)}
}

// kvCacheSaturated asks for a queue as well, since a full cache is normal
// where prefixes are kept for reuse. Not every engine counts preemptions. Half of
// five minutes, and not all: a cache that preempts has room for moments. Bursts of
// this exporter end sooner.
func kvCacheSaturated() alert {
	return alert{
		name: "InferenceKVCacheSaturated", severity: Warning, category: Saturation,
		expr: `max by ($E, server) (quantile_over_time(0.5, inference_server_kv_cache_usage_ratio[5m])) > 0.9
and on ($E, server)
max by ($E, server) (quantile_over_time(0.5, inference_server_requests_waiting[5m])) > 0
and on ($E, server)
(
  max by ($E, server) (increase(inference_server_preemptions_total[10m])) > 0
  or
  max by ($E, server) (deriv(inference_server_requests_waiting[10m])) > 0
)` + unlessDown(soon),
		lasting: "5m",
		summary: "The KV cache of {{ $labels.server }} ({{ $labels.endpoint }}) is {{ $value | humanizePercentage }} full and requests queue for it.",
		description: "The server reports that its KV cache has been nearly full for most of five minutes while requests wait and are preempted or accumulate: it takes no more load, and TTFT grows. " +
			"Look first at the length of the requests: a few long ones fill it as well as many short ones.",
		board: engineBoard,
	}
}

// waiting is how many requests wait at the servers of an endpoint, by the median
// of a window: a burst of this exporter is over before half of it.
func waiting(window string) string {
	return "sum by ($E) (max by ($E, server) (quantile_over_time(0.5, inference_server_requests_waiting[" + window + "])))"
}

// longWait is the endpoints at which a new request waits longer than a part of
// the objective for TTFT, in seconds: a length says nothing of how fast a queue
// moves. Without an objective ten seconds are long.
func longWait(window, part string) string {
	wait := `(
  ` + waiting(window) + `
  / on ($E)
  sum by ($E) (max by ($E, server) (sum by ($E, server, instance, job) (rate(inference_server_requests_total[` + window + `]))))
)`
	return `(
  ` + wait + `
  > on ($E)
  ` + part + ` * min by ($E) (inference_slo_threshold_seconds{slo="ttft"})
  or
  ` + wait + `
  > 10
  unless on ($E)
  inference_slo_threshold_seconds{slo="ttft"}
)
and on ($E)
` + waiting(window) + ` >= 1`
}

func queueGrowing() alert {
	return alert{
		name: "InferenceQueueGrowing", severity: Warning, category: Saturation,
		expr: longWait("5m", "0.5") + `
and on ($E)
sum by ($E) (max by ($E, server) (deriv(inference_server_requests_waiting[15m]))) > 0` + unlessDown(soon),
		lasting: "5m",
		summary: "A request to {{ $labels.endpoint }} waits about {{ $value | humanizeDuration }} in the queue, and longer by the minute.",
		description: "Waiting requests over those that the servers finish in a second give the time that a new request waits. It is more than half of the objective for TTFT (or 10 s without one) and grows. " +
			"Look first at whether more requests come or fewer are finished.",
		board: engineBoard,
	}
}

// queueSaturated is a queue that has grown as far as it can: it stays full, and
// no longer grows.
func queueSaturated() alert {
	return alert{
		name: "InferenceQueueSaturated", severity: Warning, category: Saturation,
		expr:    longWait("10m", "1") + unlessDown(soon),
		lasting: "5m",
		summary: "A request to {{ $labels.endpoint }} waits about {{ $value | humanizeDuration }} in a queue that stays full.",
		description: "For ten minutes requests have waited longer than the objective for TTFT allows (or 10 s without one), by those that wait and those that the servers finish in a second. " +
			"More requests come than are served, and some are probably refused. Look first at whether a replica is missing, and else add one or shed load.",
		board: engineBoard,
	}
}

func preemptionsHigh() alert {
	return alert{
		name: "InferencePreemptionsHigh", severity: Warning, category: Saturation,
		expr: `(
  max by ($E, server) (increase(inference_server_preemptions_total[10m]))
  / on ($E, server)
  max by ($E, server) (sum by ($E, server, instance, job) (increase(inference_server_requests_total[10m])))
) > 0.05
and on ($E, server)
max by ($E, server) (increase(inference_server_preemptions_total[10m])) > 5` + unlessDown(soon),
		lasting: "10m",
		summary: "{{ $labels.server }} ({{ $labels.endpoint }}) preempts {{ $value | humanizePercentage }} as many requests as it finishes.",
		description: "Requests are evicted from the KV cache and computed again, which delays their answers and lowers the throughput of the server. " +
			"Look first at the use of the KV cache and the number of requests that may run at once.",
		board: engineBoard,
	}
}

// prefixCacheHitRateCollapse asks for 100 queries in either half hour,
// whatever unit the engine counts in.
func prefixCacheHitRateCollapse() alert {
	return alert{
		name: "InferencePrefixCacheHitRateCollapse", severity: Warning, category: Saturation,
		expr: "max by ($E) (\n" + `endpoint:inference_server_prefix_cache_hits:ratio_increase30m
< on ($K)
0.5 * endpoint:inference_server_prefix_cache_hits:ratio_increase30m offset 1d
and on ($K)
endpoint:inference_server_prefix_cache_hits:ratio_increase30m offset 1d > 0.2
and on ($K)
endpoint:inference_server_prefix_cache_queries:increase30m >= 100
and on ($K)
endpoint:inference_server_prefix_cache_queries:increase30m offset 1d >= 100` + "\n)" + unlessDown(soon),
		lasting: "30m",
		summary: "The prefix cache of {{ $labels.endpoint }} hits {{ $value | humanizePercentage }}, less than half of a day ago.",
		description: "Prompts that were found in the cache at this time yesterday are computed again: TTFT and load on the GPUs grow. " +
			"Look first at what changed in the prompts or in the routing between replicas.",
		board: engineBoard,
	}
}

// decodeSpeedCollapse is per running request, for the sum falls with demand.
// More requests at once make each slower, so their number must be comparable.
func decodeSpeedCollapse() alert {
	return alert{
		name: "InferenceDecodeSpeedCollapse", severity: Warning, category: Saturation,
		expr: "max by ($E) (\n" + `endpoint:inference_server_generation_tokens:rate10m_per_running
< on ($K)
0.5 * endpoint:inference_server_generation_tokens:rate10m_per_running offset 1w
and on ($K)
endpoint:inference_server_requests_running:avg10m >= 1
and on ($K)
endpoint:inference_server_requests_running:avg10m offset 1w >= 1
and on ($K)
endpoint:inference_server_requests_running:avg10m <= 2 * endpoint:inference_server_requests_running:avg10m offset 1w` + "\n)" + unlessDown(soon),
		lasting: "15m",
		summary: `Each request to {{ $labels.endpoint }} gets {{ $value | printf "%.1f" }} tokens per second, less than half of a week ago.`,
		description: "The servers generate less than half of the tokens per running request that they did a week ago, with no more than twice as many requests. " +
			"Look first at the GPUs: clocks, temperature and other programs on them.",
		board: engineBoard,
	}
}

// hungNow is how many servers of an endpoint hang. Both times are from the
// exporter's clock. An idle server counts as one that makes progress.
const hungNow = "endpoint:inference_server_hung:count"

func serversHungRecorded() []Rule {
	return []Rule{
		record(hungNow, `count by ($E) (
  (
    max by ($E, server) (inference_server_last_scrape_timestamp_seconds)
    - on ($E, server)
    max by ($E, server) (inference_server_last_progress_timestamp_seconds)
  ) > 120
  and on ($E, server)
  max by ($E, server) (inference_server_up) == 1
  and on ($E, server)
  max by ($E, server) (inference_server_requests_running) > 0
)`+unlessMuted),
		record("endpoint:inference_server_hung:max"+soon, "max by ($E) (max_over_time(%s[%s]))", hungNow, soon),
	}
}

// serverHung pages where other servers still answer: where none does, the
// endpoint is down. It is of the endpoint, so that servers that hang one after the
// other are one page.
func serverHung() alert {
	return alert{
		name: "InferenceServerHung", severity: Critical, category: Availability,
		expr:    hungNow + unlessDown(soon),
		lasting: "1m",
		summary: `{{ $value | printf "%.0f" }} servers of {{ $labels.endpoint }} hang: requests run, and nothing has moved for two minutes.`,
		description: "The servers' pages still answer, requests run, and not a token was generated for two minutes. Every request that is routed there waits for its timeout, and a health check may still pass. " +
			"Look first at which server it is on the board, then at its log and at XID errors of its GPUs; a restart usually helps.",
		board: engineBoard,
	}
}

// lostServers is how many servers of an endpoint are down, or are missing from
// those that it has had. Where servers are found by DNS or by their pods, a lost
// one is not down but gone. Those that it has had are as many as were up for
// more than a tenth of an hour: a deployment that runs old and new ones side by
// side for a while leaves no loss, and what was scaled down is soon forgotten. The exporter that sees the most of them up
// counts, since one that sees fewer may have lost its own way to them; one that
// went away takes no servers along.
const lostServers = `(
  min by ($E) (inference_endpoint_servers{state="down"}) > 0
  or
  (
    max by ($E) (
      quantile_over_time(0.9, inference_endpoint_servers{state="up"}[1h])
      and on ($E, job, instance)
      inference_endpoint_servers{state="up"}
    )
    - on ($E)
    max by ($E) (inference_endpoint_servers{state="up"})
  ) >= 1
)
and on ($E)
max by ($E) (inference_endpoint_servers{state="up"}) > 0`

func replicaLost() alert {
	return alert{
		name: "InferenceReplicaLost", severity: Warning, category: Availability,
		expr:    lostServers + unlessDown(soon),
		lasting: "5m",
		summary: `{{ $value | printf "%.0f" }} servers of {{ $labels.endpoint }} are gone.`,
		description: "The metrics pages of some servers of the endpoint do not answer, or fewer servers are up than in the last hour. The others carry the load. " +
			"Look first at which server is down and why its process ended.",
		board: engineBoard,
	}
}

// replicaLossSlowsSurvivors names the cause of slowness that probes or the
// servers themselves report. That users wait pages by the objective.
func replicaLossSlowsSurvivors() alert {
	return alert{
		name: "InferenceReplicaLossSlowsSurvivors", severity: Warning, category: Latency,
		expr: lostServers + `
and on ($E)
(
  module:inference_probe_slo_degraded:ratio5m{slo="ttft"}
  or
  (
    endpoint:inference_server_ttft_seconds:mean10m
    > on ($K)
    1.5 * endpoint:inference_server_ttft_seconds:mean10m offset 1d
    and on ($K)
    endpoint:inference_server_ttft_seconds:mean10m - endpoint:inference_server_ttft_seconds:mean10m offset 1d > 0.05
  )
)` + unlessDown(soon),
		lasting: "5m",
		summary: `{{ $value | printf "%.0f" }} servers of {{ $labels.endpoint }} are gone and the others are slow.`,
		description: "Servers are lost, and the time to first token of those that are left misses its objective or is 1.5 times that of a day ago. " +
			"Look first at their queues: add replicas or shed load before they fail too.",
		board: engineBoard,
	}
}

// allReplicasLost pages for endpoints that no probe judges. Where there are
// probes, they say whether the endpoint is down.
func allReplicasLost() alert {
	return alert{
		name: "InferenceAllReplicasLost", severity: Critical, category: Availability,
		expr: `max by ($E) (inference_endpoint_servers{state="down"}) > 0
and on ($E)
max by ($E) (inference_endpoint_servers{state="up"}) == 0
unless on ($E)
max by ($E) (inference_probe_success{concurrency=""}) >= 0`,
		lasting: "2m",
		summary: "All {{ $value }} servers of {{ $labels.endpoint }} are gone.",
		description: "No metrics page of any server of the endpoint answers, and no probe has a verdict on it. " +
			"Look first at what they have in common: a node, a deployment, a network policy.",
		board: engineBoard,
	}
}

func serverPageUnreadable() alert {
	return alert{
		name: "InferenceServerPageUnreadable", severity: Warning, category: Exporter,
		expr:    `sum by ($E) (max by ($E, state) (inference_endpoint_servers{state=~"unreadable|unmapped"})) > 0`,
		lasting: "15m",
		summary: "The metrics pages of {{ $value }} servers of {{ $labels.endpoint }} are not understood.",
		description: "The pages answer, but the exporter cannot read or map them: queue, cache and other alerts on these servers are silent. " +
			"Look first at inference_server_scrape_failures_total, whose reason says what is wrong.",
		board: engineBoard,
	}
}

func serverQuantityMissing() alert {
	return alert{
		name: "InferenceServerQuantityMissing", severity: Warning, category: Exporter,
		expr:    `count by ($E, engine, quantity) (max by ($E, server, engine, quantity) (inference_server_quantity_missing) == 1)`,
		lasting: "15m",
		summary: "{{ $value }} servers of {{ $labels.endpoint }} ({{ $labels.engine }}) do not show {{ $labels.quantity }} any more.",
		description: "Every page of this engine should show the quantity; a new version has probably renamed it. Panels and alerts that need it are silent. " +
			"Look first at the page itself, then correct the mapping in the configuration.",
		board: engineBoard,
	}
}
