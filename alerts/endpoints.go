package alerts

import (
	"fmt"
	"strings"
)

// availabilityGroup has the alerts on incomplete answers and on what will end
// them. Outages have a group of their own.
func availabilityGroup() Group {
	return Group{Name: "inference-availability", Interval: "1m", Rules: rules(
		probeFailing(),
		answersCut(3, "0.02"),
		modelChanged(),
		endpointNoLongerProbed(),
		certificateExpiring(Warning, 14),
		certificateExpiring(Critical, 3),
	)}
}

// probeFailing names the outcome of failures. It ends soon after the last one of
// them, and with the endpoint.
func probeFailing() alert {
	return alert{
		name: "InferenceProbeFailing", severity: Warning, category: Availability,
		expr: `(
  sum by ($E, outcome) (endpoint:inference_probe_results:increase30m{outcome!="success"})
  / on ($E) group_left
  sum by ($E) (endpoint:inference_probe_results:increase30m)
) > 0.1
and on ($E, outcome)
sum by ($E, outcome) (endpoint:inference_probe_results:increase30m{outcome!="success"}) >= 4
and on ($E, outcome)
sum by ($E, outcome) (endpoint:inference_probe_failures:rate5m) > 0
and on ($E)
max by ($E) (inference_probe_success{concurrency=""}) >= 0` + unlessDown(soon),
		lasting: "5m",
		summary: "{{ $value | humanizePercentage }} of the probes of {{ $labels.endpoint }} end with {{ $labels.outcome }}.",
		description: "More than a tenth of the probes of the last 30 minutes, and at least four, ended in this one way, so that users are affected too. " +
			"Look first at what the outcome means and at the reason of the latest failure in the log of the exporter.",
		board: endpointBoard,
	}
}

// answersCut names the kind of failure; that there are too many of them pages by
// the objective.
func answersCut(fewest int, share string) alert {
	return alert{
		name: "InferenceAnswersCut", severity: Warning, category: Quality,
		expr: fmt.Sprintf(`(
  sum by ($E) (endpoint:inference_probe_results:increase30m{outcome=~"empty|truncated"})
  / on ($E)
  sum by ($E) (endpoint:inference_probe_results:increase30m)
) > %s
and on ($E)
sum by ($E) (endpoint:inference_probe_results:increase30m{outcome=~"empty|truncated"}) >= %d`, share, fewest) + unlessDown(soon),
		summary: "{{ $value | humanizePercentage }} of the answers of {{ $labels.endpoint }} are empty or cut.",
		description: "Replies came with a good status, but without a token or without their end, over 30 minutes. Many clients treat them as answers. " +
			"Look first at the time at which they break off: if it is always the same, it is probably the timeout of a proxy.",
		board: endpointBoard,
	}
}

// modelChanged pages once: a model that was there in the hours before, such as
// the one that is put back, is no change, nor is a change that follows another
// one. What a service calls its system changes with each release, and the text of
// an answer with the arithmetic: those have an alert for working hours.
func modelChanged() alert {
	return alert{
		name: "InferenceModelChanged", severity: Critical, category: Quality,
		expr: `(
  count by ($E) (
    endpoint:inference_endpoint_info:model
    unless on ($E, model)
    max_over_time(endpoint:inference_endpoint_info:model[6h] offset 10m)
  )
  and on ($E)
  count by ($E) (max_over_time(endpoint:inference_endpoint_info:model[6h] offset 10m))
)
or
(
  max by ($E) (increase(inference_probe_fingerprint_changes_total{source=~"model|logprob"}[10m])) > 0
  unless on ($E)
  max by ($E) (increase(inference_probe_fingerprint_changes_total{source=~"model|logprob"}[6h] offset 10m)) > 0
)`,
		summary: "{{ $labels.endpoint }} serves another model.",
		description: "The name of the model that the endpoint lists or replies with changed, or the score of a fixed passage, which stays the same as long as the weights do. " +
			"Users get the answers of another model, or errors if they ask for the old name. Look first at recent deployments, and at whether the change was planned.",
		board: endpointBoard,
	}
}

// endpointNoLongerProbed is about endpoints that no exporter has any more.
// Those of one that is down have an alert of their own. After an hour the loss is
// accepted: endpoints are also removed on purpose.
func endpointNoLongerProbed() alert {
	return alert{
		name: "InferenceEndpointNoLongerProbed", severity: Warning, category: Exporter,
		expr: `count by ($E) (max_over_time(endpoint:inference_endpoint_info:model[1h]))
unless on ($E)
group by ($E) (inference_endpoint_info)
unless on ($E)
instance:inference_endpoint_info:last`,
		lasting: "5m",
		summary: "{{ $labels.endpoint }} is no longer probed by any exporter.",
		description: "An exporter probed the endpoint within the last hour and none does now, though none of them is down: it was removed from a configuration, is no longer found by discovery, or Prometheus has lost the target of its exporter. No other alert reports on it. " +
			"Look first at whether it was removed on purpose.",
		board: fleetBoard,
	}
}

func certificateExpiring(severity Severity, days int) alert {
	return alert{
		name: "InferenceCertificateExpiring", severity: severity, category: Availability,
		expr:    fmt.Sprintf("min by ($E) (inference_probe_tls_cert_not_after_timestamp_seconds) - time() < %d * 86400", days),
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
		tpotRegression(),
		clientServerGap(),
		streamsBuffered(),
	)}
}

// latencyRegression finds a shift of everything, which an objective with
// headroom hides. A ratio and a difference, for a ratio of few milliseconds
// is nothing that a user feels. Each module is judged over a window that holds
// enough of its probes.
func latencyRegression(o Options) alert {
	var parts []string
	for _, w := range o.medianWindows() {
		parts = append(parts, fmt.Sprintf(`(
  module:inference_probe_ttft_seconds:median%[1]s%[4]s
  > on (%[3]s)
  1.5 * module:inference_probe_ttft_seconds:median%[1]s offset 1w
  and on (%[3]s)
  module:inference_probe_ttft_seconds:median%[1]s - module:inference_probe_ttft_seconds:median%[1]s offset 1w > 0.05
  and on (%[3]s)
  module:inference_probe_ttft_seconds:increase%[1]s >= %[2]d
  and on (%[3]s)
  module:inference_probe_ttft_seconds:increase%[1]s offset 1w >= %[2]d
)`, w.length, fewestForMedian, alike, w.modules))
	}
	return alert{
		name: "InferenceLatencyRegression", severity: Warning, category: Latency,
		expr:    "max by ($E, module, prefix, input_tokens, output_tokens) (\n" + strings.Join(parts, "\nor\n") + "\n)" + unlessDown(soon),
		lasting: "15m", keep: "30m",
		summary: "{{ $labels.endpoint }} is slower than a week ago: the median TTFT of {{ $labels.module }} is {{ $value | humanizeDuration }}.",
		description: "The median time to first token of the last half hour or more is over 1.5 times that of the same time a week ago. Half of all requests are affected, even where the objective still holds. " +
			"Look first at when it began: a step is a deployment, a slope is load.",
		board: endpointBoard,
	}
}

// The median TPOT of ten minutes of probes is compared with what was usual in the
// day before: three quarters of its time were below the value that tpotRise is a
// multiple of, so that the hours of high load are part of what is usual.
const (
	tpotRise          = "2.5"
	fewestUsualTPOTs  = 30 // minutes of past
	fewestProbesTPOT  = 15 // in ten minutes
	smallestTPOTDelta = "0.005"
)

// tpotRisen is the median TPOT where it has risen so much.
const tpotRisen = "module:inference_probe_tpot_seconds:risen10m"

func tpotRisenRecorded() Rule {
	return record(tpotRisen, `module:inference_probe_tpot_seconds:median10m
> on (%[1]s)
%[2]s * module:inference_probe_tpot_seconds:usual1d
and on (%[1]s)
module:inference_probe_tpot_seconds:median10m - module:inference_probe_tpot_seconds:usual1d > %[3]s
and on (%[1]s)
module:inference_probe_tpot_seconds:increase10m >= %[4]d`, alike, tpotRise, smallestTPOTDelta, fewestProbesTPOT)
}

// tpotRegression pages without an objective, and also where one has headroom: it
// finds an answer that flows at less than half of its usual speed.
func tpotRegression() alert {
	return alert{
		name: "InferenceTPOTRegression", severity: Critical, category: Latency,
		expr:    "max by ($E, module) (" + tpotRisen + ")" + unlessDown(soon) + unlessTogether + unlessDegraded("availability", "ttft", "tpot"),
		lasting: "3m",
		summary: `{{ $labels.endpoint }} generates at less than half of its usual speed: TPOT of {{ $labels.module }} is {{ $value | humanizeDuration }}.`,
		description: "The median time per output token of the last ten minutes is more than " + tpotRise + " times what it was for three quarters of the last day." + sinceWhen + " Answers flow that much slower, also where no objective is missed. " +
			"Look first at the running requests of the servers, at the clocks of their GPUs and at what else runs there.",
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
and on ($E)
(
  ` + nearestGap("") + `
  > on ($E)
  ` + nearestGap(" offset 1w") + ` + 0.2
)
and on ($E)
sum by ($E) (increase(inference_probe_results_total{outcome="success",concurrency=""}[15m])) >= 10` + unlessDown(soon),
		lasting: "15m",
		summary: "{{ $value | humanizeDuration }} of the TTFT of {{ $labels.endpoint }} are spent outside its servers.",
		description: "Probes wait for the first token much longer than the servers report for requests, and longer than a week ago. The time is spent in the network, a gateway, or a front end that is busy. " +
			"Look first at the phases of a probe, then at the load of the gateways in front of the servers.",
		board: endpointBoard,
	}
}

func nearestGap(offset string) string {
	return `min by ($E) (avg by ($E, job, instance) (avg_over_time(inference_endpoint_ttft_overhead_seconds{source=~"reply|histogram"}[15m]` + offset + ")))"
}

// streamsBuffered counts successes of modules with streams only: those that have
// a server score a text or embed it get no stream.
func streamsBuffered() alert {
	return alert{
		name: "InferenceStreamsBuffered", severity: Warning, category: Latency,
		expr: fmt.Sprintf(`(
  sum by ($E) (increase(inference_probe_buffered_total{concurrency=""}[30m]))
  / on ($E)
  sum by ($E) (
    sum by (%[1]s) (increase(inference_probe_results_total{outcome="success",concurrency=""}[30m]))
    and on (%[1]s)
    inference_probe_buffered_total{concurrency=""}
  )
) > 0.5
and on ($E)
sum by ($E) (increase(inference_probe_buffered_total{concurrency=""}[30m])) >= 5`, alike),
		lasting: "10m",
		summary: "{{ $value | humanizePercentage }} of the answers of {{ $labels.endpoint }} come in one burst.",
		description: "Most streamed answers of the last 30 minutes arrived as a whole, so that users see nothing until the end, and TTFT is the time of the whole answer. " +
			"Look first at the proxy or gateway before the servers: response buffering or compression was switched on.",
		board: endpointBoard,
	}
}
