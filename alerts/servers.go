package alerts

// serversGroup has the alerts on what the servers report: most are causes, and
// therefore warnings.
func serversGroup() Group {
	return Group{Name: "inference-servers", Interval: "30s", Rules: rules(
		kvCacheSaturated(),
		queueGrowing(),
		preemptionsHigh(),
		prefixCacheHitRateCollapse(),
		decodeSpeedCollapse(),
		serverHung(),
		replicaLost(),
		replicaLossSlowsSurvivors(),
		allReplicasLost(),
		serverPageUnreadable(),
		serverQuantityMissing(),
	)}
}

// kvCacheSaturated asks for a queue as well, since a full cache is normal
// where prefixes are kept for reuse. Not every engine counts preemptions.
func kvCacheSaturated() alert {
	return alert{
		name: "InferenceKVCacheSaturated", severity: Warning, category: Saturation,
		expr: `max by ($K, server) (min_over_time(inference_server_kv_cache_usage_ratio[5m])) > 0.95
and on ($K, server)
max by ($K, server) (avg_over_time(inference_server_requests_waiting[5m])) > 0
and on ($K, server)
(
  max by ($K, server) (increase(inference_server_preemptions_total[10m])) > 0
  or
  max by ($K, server) (deriv(inference_server_requests_waiting[10m])) > 0
)`,
		lasting: "5m",
		summary: "The KV cache of {{ $labels.server }} ({{ $labels.endpoint }}) is {{ $value | humanizePercentage }} full and requests queue for it.",
		description: "The server reports that its KV cache has been full for five minutes while requests wait and are preempted or accumulate: it takes no more load, and TTFT grows. " +
			"Look first at the length of the requests: a few long ones fill it as well as many short ones.",
		board: engineBoard,
	}
}

// queueGrowing is in seconds, for a length says nothing of how fast a queue
// moves. Without an objective for TTFT, ten seconds are long.
func queueGrowing() alert {
	const wait = `(
  sum by ($K) (max by ($K, server) (avg_over_time(inference_server_requests_waiting[5m])))
  / on ($K)
  sum by ($K) (max by ($K, server) (sum by ($K, server, instance, job) (rate(inference_server_requests_total[5m]))))
)`
	return alert{
		name: "InferenceQueueGrowing", severity: Warning, category: Saturation,
		expr: `(
  ` + wait + `
  > on ($K)
  0.5 * min by ($K) (inference_slo_threshold_seconds{slo="ttft"})
  or
  ` + wait + `
  > 10
  unless on ($K)
  inference_slo_threshold_seconds{slo="ttft"}
)
and on ($K)
sum by ($K) (max by ($K, server) (avg_over_time(inference_server_requests_waiting[5m]))) >= 1
and on ($K)
sum by ($K) (max by ($K, server) (deriv(inference_server_requests_waiting[15m]))) > 0`,
		lasting: "5m",
		summary: "A request to {{ $labels.endpoint }} waits about {{ $value | humanizeDuration }} in the queue, and longer by the minute.",
		description: "Waiting requests over those that the servers finish in a second give the time that a new request waits. It is more than half of the objective for TTFT (or 10 s without one) and grows. " +
			"Look first at whether more requests come or fewer are finished.",
		board: engineBoard,
	}
}

func preemptionsHigh() alert {
	return alert{
		name: "InferencePreemptionsHigh", severity: Warning, category: Saturation,
		expr: `(
  max by ($K, server) (increase(inference_server_preemptions_total[10m]))
  / on ($K, server)
  max by ($K, server) (sum by ($K, server, instance, job) (increase(inference_server_requests_total[10m])))
) > 0.05
and on ($K, server)
max by ($K, server) (increase(inference_server_preemptions_total[10m])) > 5`,
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
		expr: `endpoint:inference_server_prefix_cache_hits:ratio_increase30m
< on ($K)
0.5 * endpoint:inference_server_prefix_cache_hits:ratio_increase30m offset 1d
and on ($K)
endpoint:inference_server_prefix_cache_hits:ratio_increase30m offset 1d > 0.2
and on ($K)
endpoint:inference_server_prefix_cache_queries:increase30m >= 100
and on ($K)
endpoint:inference_server_prefix_cache_queries:increase30m offset 1d >= 100`,
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
		expr: `endpoint:inference_server_generation_tokens:rate10m_per_running
< on ($K)
0.5 * endpoint:inference_server_generation_tokens:rate10m_per_running offset 1w
and on ($K)
endpoint:inference_server_requests_running:avg10m >= 1
and on ($K)
endpoint:inference_server_requests_running:avg10m offset 1w >= 1
and on ($K)
endpoint:inference_server_requests_running:avg10m <= 2 * endpoint:inference_server_requests_running:avg10m offset 1w`,
		lasting: "15m",
		summary: `Each request to {{ $labels.endpoint }} gets {{ $value | printf "%.1f" }} tokens per second, less than half of a week ago.`,
		description: "The servers generate less than half of the tokens per running request that they did a week ago, with no more than twice as many requests. " +
			"Look first at the GPUs: clocks, temperature and other programs on them.",
		board: engineBoard,
	}
}

// serverHung takes both times from the exporter's clock. An idle server counts
// as one that makes progress.
func serverHung() alert {
	return alert{
		name: "InferenceServerHung", severity: Critical, category: Availability,
		expr: `(
  max by ($K, server) (inference_server_last_scrape_timestamp_seconds)
  - on ($K, server)
  max by ($K, server) (inference_server_last_progress_timestamp_seconds)
) > 120
and on ($K, server)
max by ($K, server) (inference_server_up) == 1
and on ($K, server)
max by ($K, server) (inference_server_requests_running) > 0`,
		lasting: "30s",
		summary: "{{ $labels.server }} ({{ $labels.endpoint }}) hangs: requests run and nothing moved for {{ $value | humanizeDuration }}.",
		description: "The server's page still answers, requests run, and not a token was generated for two minutes. Every request that is routed there waits for its timeout, and a health check may still pass. " +
			"Look first at the server's log and at XID errors of its GPUs; a restart usually helps.",
		board: engineBoard,
	}
}

// lostServers is how many servers of an endpoint are down, or are missing from
// those that it has had. Where servers are found by DNS or by their pods, a lost
// one is not down but gone. Those that it has had are as many as were up for
// more than a tenth of six hours: a deployment that runs old and new ones side
// by side for a while leaves no loss. The exporter that sees the most of them up
// counts, since one that sees fewer may have lost its own way to them; one that
// went away takes no servers along.
const lostServers = `(
  min by ($K) (inference_endpoint_servers{state="down"}) > 0
  or
  (
    max by ($K) (
      quantile_over_time(0.9, inference_endpoint_servers{state="up"}[6h])
      and on ($K, job, instance)
      inference_endpoint_servers{state="up"}
    )
    - on ($K)
    max by ($K) (inference_endpoint_servers{state="up"})
  ) >= 1
)
and on ($K)
max by ($K) (inference_endpoint_servers{state="up"}) > 0`

func replicaLost() alert {
	return alert{
		name: "InferenceReplicaLost", severity: Warning, category: Availability,
		expr:    lostServers,
		lasting: "5m",
		summary: `{{ $value | printf "%.0f" }} servers of {{ $labels.endpoint }} are gone.`,
		description: "The metrics pages of some servers of the endpoint do not answer, or fewer servers are up than in the last six hours. The others carry the load. " +
			"Look first at which server is down and why its process ended.",
		board: engineBoard,
	}
}

// replicaLossSlowsSurvivors pages for what replicaLost only warns of, because
// here users feel it: by probes, or by what the servers themselves say.
func replicaLossSlowsSurvivors() alert {
	return alert{
		name: "InferenceReplicaLossSlowsSurvivors", severity: Critical, category: Latency,
		expr: lostServers + `
and on ($K)
(
  (
    module:inference_probe_slo_bad:ratio_rate5m{slo="ttft"}
    > on ($K, module, slo)
    clamp_max(6 * (1 - module:inference_slo_objective:ratio), 0.9)
    and on ($K, module, slo)
    module:inference_probe_slo_bad:increase5m >= 3
  )
  or
  (
    endpoint:inference_server_ttft_seconds:mean10m
    > on ($K)
    1.5 * endpoint:inference_server_ttft_seconds:mean10m offset 1d
    and on ($K)
    endpoint:inference_server_ttft_seconds:mean10m - endpoint:inference_server_ttft_seconds:mean10m offset 1d > 0.05
  )
)`,
		lasting: "5m", keep: "5m",
		summary: `{{ $value | printf "%.0f" }} servers of {{ $labels.endpoint }} are gone and the others are slow.`,
		description: "Servers are lost, and the time to first token of those that are left misses its objective or is 1.5 times that of a day ago. " +
			"Look first at their queues: add replicas or shed load before they fail too.",
		board: engineBoard,
	}
}

// allReplicasLost is about pages: where probes succeed the servers are there.
func allReplicasLost() alert {
	return alert{
		name: "InferenceAllReplicasLost", severity: Critical, category: Availability,
		expr: `max by ($K) (inference_endpoint_servers{state="down"}) > 0
and on ($K)
max by ($K) (inference_endpoint_servers{state="up"}) == 0
unless on ($K)
max by ($K) (inference_probe_success{concurrency=""}) == 1`,
		lasting: "1m",
		summary: "All {{ $value }} servers of {{ $labels.endpoint }} are gone.",
		description: "No metrics page of any server of the endpoint answers, and no probe succeeds. " +
			"Look first at what they have in common: a node, a deployment, a network policy.",
		board: engineBoard,
	}
}

func serverPageUnreadable() alert {
	return alert{
		name: "InferenceServerPageUnreadable", severity: Warning, category: Exporter,
		expr:    `sum by ($K) (max by ($K, state) (inference_endpoint_servers{state=~"unreadable|unmapped"})) > 0`,
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
		expr:    `count by ($K, engine, quantity) (max by ($K, server, engine, quantity) (inference_server_quantity_missing) == 1)`,
		lasting: "15m",
		summary: "{{ $value }} servers of {{ $labels.endpoint }} ({{ $labels.engine }}) do not show {{ $labels.quantity }} any more.",
		description: "Every page of this engine should show the quantity; a new version has probably renamed it. Panels and alerts that need it are silent. " +
			"Look first at the page itself, then correct the mapping in the configuration.",
		board: engineBoard,
	}
}
