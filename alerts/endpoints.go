package alerts

import "fmt"

// availabilityGroup has the alerts on missing and incomplete answers.
func availabilityGroup(o Options) Group {
	return Group{Name: "inference-availability", Interval: "15s", Rules: rules(
		endpointDown(o),
		probeFailing(Warning, `outcome!~"success|canceled"`, "5m"),
		probeFailing(Critical, `outcome=~"unauthorized|tls_error"`, "15m"),
		answersCut(Warning, 3, "0.02", "30m"),
		answersCut(Critical, 3, "0.25", "10m"),
		certificateExpiring(Warning, 14),
		certificateExpiring(Critical, 3),
	)}
}

// endpointDown pages within three minutes at intervals of up to a minute: a
// failure is confirmed after 5 and 10 s, and the time of the last success is
// known to the second. An endpoint that never had one has no such time, hence
// unless. Where the latest probe of a slow module succeeded long ago, three
// failures of others since say more, if the same exporter saw them: those of
// another one may be its own. Without a verdict now nothing is known: the
// exporter may have gone, or the endpoint have left its configuration, and both
// leave failures in the window. Bursts overload on purpose, and their verdicts
// are no evidence.
func endpointDown(o Options) alert {
	window := duration(o.failureWindow())
	return alert{
		name: "InferenceEndpointDown", severity: Critical, category: Availability,
		expr: fmt.Sprintf(`sum by ($K) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[%s])) >= 2
unless on ($K)
(time() - max by ($K) (inference_probe_last_success_timestamp_seconds{concurrency=""}) <= 120)
unless on ($K)
(
  max by ($K, job, instance) (inference_probe_success{concurrency=""}) == 1
  unless on ($K, job, instance)
  sum by ($K, job, instance) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[5m])) >= 3
)
and on ($K)
max by ($K) (inference_probe_success{concurrency=""}) >= 0`, window),
		lasting: "30s",
		summary: `{{ $labels.endpoint }} is down: no probe succeeds ({{ $value | printf "%.0f" }} failures in ` + window + `).`,
		description: "No probe of any module has succeeded for two minutes, and the latest ones failed. Users get no answers. " +
			"Look first at the failures by reason on the board: connection, authorization and overload have different remedies.",
		board: endpointBoard,
	}
}

func probeFailing(severity Severity, outcomes, lasting string) alert {
	return alert{
		name: "InferenceProbeFailing", severity: severity, category: Availability,
		expr: fmt.Sprintf(`(
  sum by ($K, outcome) (increase(inference_probe_results_total{%[1]s,concurrency=""}[30m]))
  / on ($K) group_left
  sum by ($K) (increase(inference_probe_results_total{outcome!="canceled",concurrency=""}[30m]))
) > 0.1
and on ($K, outcome)
sum by ($K, outcome) (increase(inference_probe_results_total{%[1]s,concurrency=""}[30m])) >= 4`, outcomes),
		lasting: lasting,
		summary: "{{ $value | humanizePercentage }} of the probes of {{ $labels.endpoint }} end with {{ $labels.outcome }}.",
		description: "More than a tenth of the probes of the last 30 minutes, and at least four, ended in this one way, so that users are affected too. " +
			"Look first at what the outcome means and at the reason of the latest failure in the log of the exporter.",
		board: endpointBoard,
	}
}

func answersCut(severity Severity, fewest int, share, window string) alert {
	return alert{
		name: "InferenceAnswersCut", severity: severity, category: Quality,
		expr: fmt.Sprintf(`(
  sum by ($K) (increase(inference_probe_results_total{outcome=~"empty|truncated",concurrency=""}[%[1]s]))
  / on ($K)
  sum by ($K) (increase(inference_probe_results_total{outcome!="canceled",concurrency=""}[%[1]s]))
) > %[2]s
and on ($K)
sum by ($K) (increase(inference_probe_results_total{outcome=~"empty|truncated",concurrency=""}[%[1]s])) >= %[3]d`, window, share, fewest),
		keep:    "10m",
		summary: "{{ $value | humanizePercentage }} of the answers of {{ $labels.endpoint }} are empty or cut.",
		description: "Replies came with a good status, but without a token or without their end, over " + window + ". Many clients treat them as answers. " +
			"Look first at the time at which they break off: if it is always the same, it is probably the timeout of a proxy.",
		board: endpointBoard,
	}
}

func certificateExpiring(severity Severity, days int) alert {
	return alert{
		name: "InferenceCertificateExpiring", severity: severity, category: Availability,
		expr:    fmt.Sprintf("min by ($K) (inference_probe_tls_cert_not_after_timestamp_seconds) - time() < %d * 86400", days),
		lasting: "1h",
		summary: "The certificate of {{ $labels.endpoint }} expires in {{ $value | humanizeDuration }}.",
		description: fmt.Sprintf("The first certificate that the endpoint shows has less than %d days left. Once it has expired every client refuses the connection. ", days) +
			"Look first at what should renew it: with several addresses behind the name, one of them may still show the old one.",
		board: endpointBoard,
	}
}

// latencyGroup has the alerts on latency that need no objective.
func latencyGroup(o Options) Group {
	return Group{Name: "inference-latency", Interval: "1m", Rules: rules(
		latencyRegression(o),
		clientServerGap(),
		streamsBuffered(),
	)}
}

// latencyRegression finds a shift of everything, which an objective with
// headroom hides. A ratio and a difference, for a ratio of few milliseconds
// is nothing that a user feels.
func latencyRegression(o Options) alert {
	window := duration(o.medianWindow())
	return alert{
		name: "InferenceLatencyRegression", severity: Warning, category: Latency,
		expr: fmt.Sprintf(`module:inference_probe_ttft_seconds:median%[1]s
> on (%[3]s)
1.5 * module:inference_probe_ttft_seconds:median%[1]s offset 1w
and on (%[3]s)
module:inference_probe_ttft_seconds:median%[1]s - module:inference_probe_ttft_seconds:median%[1]s offset 1w > 0.05
and on (%[3]s)
module:inference_probe_ttft_seconds:increase%[1]s >= %[2]d
and on (%[3]s)
module:inference_probe_ttft_seconds:increase%[1]s offset 1w >= %[2]d`, window, fewestForMedian, alike),
		lasting: "15m", keep: "30m",
		summary: "{{ $labels.endpoint }} is slower than a week ago: the median TTFT of {{ $labels.module }} is {{ $value | humanizeDuration }}.",
		description: "The median time to first token of the last " + window + " is more than 1.5 times that of the same time a week ago. Half of all requests are affected, even where the objective still holds. " +
			"Look first at when it began: a step is a deployment, a slope is load.",
		board: endpointBoard,
	}
}

// clientServerGap compares with the endpoint's own past, because probes and
// other requests differ and a distant endpoint is always far. Without a past it
// says nothing, nor where the difference is mostly one of traffic. The nearest
// exporter counts, so that one more far away makes no difference.
func clientServerGap() alert {
	return alert{
		name: "InferenceClientServerGap", severity: Warning, category: Latency,
		expr: nearestGap("") + ` > 0.3
and on ($K)
(
  ` + nearestGap("") + `
  > on ($K)
  ` + nearestGap(" offset 1w") + ` + 0.2
)
and on ($K)
sum by ($K) (increase(inference_probe_results_total{outcome="success",concurrency=""}[15m])) >= 10`,
		lasting: "15m",
		summary: "{{ $value | humanizeDuration }} of the TTFT of {{ $labels.endpoint }} are spent outside its servers.",
		description: "Probes wait for the first token much longer than the servers report for requests, and longer than a week ago. The time is spent in the network, a gateway, or a front end that is busy. " +
			"Look first at the phases of a probe, then at the load of the gateways in front of the servers.",
		board: endpointBoard,
	}
}

func nearestGap(offset string) string {
	return `min by ($K) (avg by ($K, job, instance) (avg_over_time(inference_endpoint_ttft_overhead_seconds{source=~"reply|histogram"}[15m]` + offset + ")))"
}

// streamsBuffered counts successes of modules with streams only: those that have
// a server score a text or embed it get no stream.
func streamsBuffered() alert {
	return alert{
		name: "InferenceStreamsBuffered", severity: Warning, category: Latency,
		expr: fmt.Sprintf(`(
  sum by ($K) (increase(inference_probe_buffered_total{concurrency=""}[30m]))
  / on ($K)
  sum by ($K) (
    sum by (%[1]s) (increase(inference_probe_results_total{outcome="success",concurrency=""}[30m]))
    and on (%[1]s)
    inference_probe_buffered_total{concurrency=""}
  )
) > 0.5
and on ($K)
sum by ($K) (increase(inference_probe_buffered_total{concurrency=""}[30m])) >= 5`, alike),
		lasting: "10m",
		summary: "{{ $value | humanizePercentage }} of the answers of {{ $labels.endpoint }} come in one burst.",
		description: "Most streamed answers of the last 30 minutes arrived as a whole, so that users see nothing until the end, and TTFT is the time of the whole answer. " +
			"Look first at the proxy or gateway before the servers: response buffering or compression was switched on.",
		board: endpointBoard,
	}
}
