package alerts

import "fmt"

// workloadsGroup has the alerts on modules that check answers, send bursts or watch
// for changes, and on what makes their results useless.
func workloadsGroup() Group {
	return Group{Name: "inference-workloads", Interval: "1m", Rules: rules(
		qualityDrop("1h", "10m"),
		qualityDrop("6h", "30m"),
		answersBroken(),
		fingerprintChanged(Warning, "answer|first_token|first_token_logprob|embedding|rerank"),
		fingerprintChanged(Info, "system_fingerprint"),
		burstKneeFell(),
		coldProbesCached(),
		probeBudgetExhausted(),
		answersCorrupted(),
	)}
}

// qualityDrop compares with the endpoint's own past, since a small model gives
// wrong answers by right. The last window is no part of that past.
func qualityDrop(window, lasting string) alert {
	const usual = "module:inference_probe_checks_missed:usual7d offset 6h"
	expected := fmt.Sprintf("module:inference_probe_checks:increase%s * on (%s) %s", window, ofEach, usual)
	return alert{
		name: "InferenceQualityDrop", severity: Warning, category: Quality, labels: map[string]string{"window": window},
		expr: "max by ($E, module) (\n" + fmt.Sprintf(`module:inference_probe_checks_missed:ratio%[1]s
> on (%[2]s)
%[3]s + %[4]s
and on (%[2]s)
(
  module:inference_probe_checks_missed:increase%[1]s
  >= on (%[2]s)
  %[5]s + %[6]d * sqrt(%[5]s * on (%[2]s) (1 - %[3]s)) + %[7]d
)
and on (%[2]s)
module:inference_probe_checks:increase%[1]s >= %[8]d`,
			window, ofEach, usual, smallestQualityDrop, expected, checkSigmas, checkExtra, fewestChecks) + "\n)" + unlessDown(soon),
		lasting: lasting, keep: "30m",
		summary: "{{ $value | humanizePercentage }} of the answers of {{ $labels.endpoint }} to {{ $labels.module }} are not right, more than usual.",
		description: "The share of answers that failed their check over " + window + " is beyond what the last seven days and chance explain: the endpoint answers, but worse. " +
			"Look first at the answers by verdict on the board, which show whether they are wrong, refused, in a loop or in another form, and at whether the fingerprint changed.",
		board: endpointBoard,
	}
}

// answersBroken is the drop that pages. Calls of tools and JSON do not: their answers
// are valid and not correct.
func answersBroken() alert {
	const (
		usual  = "module:inference_probe_checks_missed:usual7d offset 6h"
		window = "30m"
	)
	a := qualityDrop(window, "1m")
	a.severity, a.keep = Critical, ""
	a.expr = "max by ($E, module) (\n" + fmt.Sprintf(`module:inference_probe_checks_missed:ratio%[1]s
> on (%[2]s)
%[3]s + %[4]s
and on (%[2]s)
module:inference_probe_checks_missed:ratio%[1]s - on (%[2]s) %[3]s
> on (%[2]s)
%[5]s * module:inference_probe_checks_missed:spread7d offset 6h
and on (%[2]s)
module:inference_probe_checks_missed:spread7d offset 6h
< on (%[2]s)
%[8]s * sqrt(%[3]s * on (%[2]s) (1 - %[3]s) / on (%[2]s) module:inference_probe_checks:increase1h)
and on (%[2]s)
module:inference_probe_checks_missed:ratio5m > on (%[2]s) %[3]s + %[6]s
and on (%[2]s)
module:inference_probe_checks:increase%[1]s >= %[7]d
unless on (%[2]s)
(sum by (%[2]s) (inference_probe_checks_total{verdict="valid",concurrency=""}) > 0)`,
		window, ofEach, usual, brokenDrop, brokenSpreads, stillBroken, fewestChecks, mostSpread) + "\n)" + unlessDown(soon)
	a.summary = "{{ $labels.endpoint }} answers wrong: {{ $value | humanizePercentage }} of the answers of 30 minutes to {{ $labels.module }} are not right."
	return a
}

// fingerprintChanged repeats changes that the exporter has found to be no chance:
// one change counts once. Those of the model or its weights have an alert of their
// own. What a service calls its system changes with each of its releases and is for
// the record.
func fingerprintChanged(severity Severity, sources string) alert {
	return alert{
		name: "InferenceFingerprintChanged", severity: severity, category: Quality,
		expr:    fmt.Sprintf(`max by ($E, module, source) (increase(inference_probe_fingerprint_changes_total{source=~%q}[15m])) > 0`, sources),
		keep:    "1h",
		summary: "Another model, or the same in another form, seems to answer at {{ $labels.endpoint }}: {{ $labels.source }} changed.",
		description: "Something changed that stays the same as long as model, weights and arithmetic do. answer is the text of an answer at temperature 0, first_token its first token and first_token_logprob the log-probabilities of that; embedding and rerank are the vectors and scores of fixed texts; system_fingerprint is reported in the reply. " +
			"Look first at recent deployments, and then at quality and latency since.",
		board: endpointBoard,
	}
}

// burstKneeFell asks that every run of three hours, and three of them at least,
// has its knee below 0.3 of the usual size, or at any where usually there is none:
// sizes of bursts are mostly two or four times the one before, and single runs are
// off by one of them.
func burstKneeFell() alert {
	return alert{
		name: "InferenceBurstKneeFell", severity: Warning, category: Saturation,
		expr: "max by ($E, module) (\n" + fmt.Sprintf(`max_over_time(module:inference_probe_burst_knee_concurrency:max[3h])
< on ($K, module)
0.3 * quantile_over_time(0.5, module:inference_probe_burst_knee_concurrency:max_each_hour[7d] offset 3h)
and on ($K, module)
count_over_time(module:inference_probe_burst_knee_concurrency:max_each_hour[7d] offset 3h) >= %d
and on ($K, module)
max by ($K, module) (changes(inference_probe_last_run_timestamp_seconds{concurrency!=""}[3h])) >= 3`, fewestBurstHours) + "\n)" + unlessDown(soon),
		keep:    "1h",
		summary: "{{ $labels.endpoint }} misses its objectives at {{ $value }} requests at once ({{ $labels.module }}), far fewer than usual.",
		description: "All bursts of the last three hours reached the limit at less than 0.3 times the usual number of requests, or at any where there used to be none: there is little capacity left for the load of users. " +
			"Look first at how many replicas are up and at what else runs on them.",
		board: endpointBoard,
	}
}

// coldProbesCached compares runs: each cold prompt begins with something new, so
// that not one should be found.
func coldProbesCached() alert {
	return alert{
		name: "InferenceColdProbesCached", severity: Warning, category: Exporter,
		expr: `(
  sum by ($E, module) (increase(inference_probe_cold_cached_total[1h]))
  / on ($E, module)
  sum by ($E, module) (increase(inference_probe_results_total{prefix="cold",outcome="success"}[1h]))
) > 0.1
and on ($E, module)
sum by ($E, module) (increase(inference_probe_cold_cached_total[1h])) >= 5`,
		lasting: "5m",
		summary: "{{ $value | humanizePercentage }} of the cold probes of {{ $labels.endpoint }} with {{ $labels.module }} are answered from the prefix cache.",
		description: "Cold prompts begin differently each time, so that no cache helps; yet the replies report cached tokens. TTFT of cold probes, and all that is estimated from it, is then better than what users see. " +
			"Look first at whether a gateway rewrites prompts or the server counts its own template.",
		board: endpointBoard,
	}
}

// probeBudgetExhausted is in time without a probe, which is what a spent budget
// costs, so that a run a day counts for as much as many a minute. A budget that is
// just too small leaves out single runs: ten minutes are more than those. Where two
// exporters probe, and of several lengths, the worst one counts.
func probeBudgetExhausted() alert {
	return alert{
		name: "InferenceProbeBudgetExhausted", severity: Warning, category: Exporter,
		expr: fmt.Sprintf(`max by ($E, module) (
  max by (%[1]s) (increase(inference_probe_skipped_total{reason="budget"}[1h]))
  * on (%[1]s)
  max by (%[1]s) (inference_probe_interval_seconds)
) > 600`, alike),
		keep:    "30m",
		summary: "The budget is spent: for {{ $value | humanizeDuration }} of the last hour {{ $labels.module }} did not probe {{ $labels.endpoint }}.",
		description: "Probes would exceed the budget of the endpoint, or that of all together, and do not run. During that time an outage of the endpoint would have gone unnoticed, and alerts on its probes are based on fewer of them. " +
			"Look first at which modules spend most, on the board.",
		board: capacityBoard,
	}
}
