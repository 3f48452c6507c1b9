package alerts

import "fmt"

// latencyGroup has what tells of slowness without an objective.
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
		description: "The median time to first token of the last " + window + " is more than 1.5 times that of the same time a week ago. Half of all requests feel that, even where the objective still holds. " +
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
		description: "Probes wait for the first token much longer than the servers say that requests do, and longer than a week ago. The time goes into the network, a gateway, or a front end that is busy. " +
			"Look first at the phases of a probe, then at the load of whatever stands before the servers.",
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
