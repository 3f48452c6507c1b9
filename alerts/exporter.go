package alerts

import "fmt"

// exporterGroup has the alerts on the monitoring itself: missing or wrong results.
func exporterGroup(o Options) Group {
	return Group{Name: "inference-exporter", Interval: "30s", Rules: rules(
		exporterDown(),
		replicaDown(),
		watchdog(),
		probersDisagree(),
		shardMissing(),
		shardsDisagree(),
		configReloadFailed(),
		stateNotSaved(),
		pushFailing(),
		discoveryFailing(),
		discoveredTargetsRejected(),
		probesMissed(),
		probesLate(),
		probeStale(o),
		probeSpared(o),
		lacksResources(Warning, "0"),
		lacksResources(Critical, "0.5"),
		measurementSuspect(Warning, "0.1", "5m"),
		measurementSuspect(Critical, "0.8", "10m"),
	)}
}

func watchdog() alert {
	return alert{
		name: "InferenceWatchdog", severity: None, category: Exporter,
		expr:    "vector(1)",
		summary: "Prometheus evaluates rules.",
		description: "This alert always fires. Send it to a receiver that reports when it stops: then Prometheus or Alertmanager is down and no other alert arrives. " +
			"There is nothing to look at while it fires.",
		board: selfBoard,
	}
}

// probesMissed counts runs that the exporter missed for lack of time or of a slot.
// Others were skipped by configuration or have an alert of their own.
func probesMissed() alert {
	return alert{
		name: "InferenceScheduleLag", severity: Warning, category: Exporter, labels: map[string]string{"cause": "missed"},
		expr: `(
  sum by (job, instance) (increase(inference_exporter_missed_runs_total{reason=~"overrun|limit"}[15m]))
  / on (job, instance)
  (
    sum by (job, instance) (increase(inference_exporter_missed_runs_total{reason=~"overrun|limit"}[15m]))
    + on (job, instance)
    sum by (job, instance) (increase(inference_probe_results_total{concurrency=""}[15m]))
  )
) > 0.2
and on (job, instance)
sum by (job, instance) (increase(inference_exporter_missed_runs_total{reason=~"overrun|limit"}[15m])) > 3`,
		lasting: "10m",
		summary: "The exporter {{ $labels.instance }} misses {{ $value | humanizePercentage }} of its probes.",
		description: "Probes that were due did not run, because the one before was still going or too many were in flight. Alerts are based on fewer probes than they should be and come late. " +
			"Look first at inference_probe_skipped_total, which says for which endpoint and why.",
		board: selfBoard,
	}
}

func probesLate() alert {
	return alert{
		name: "InferenceScheduleLag", severity: Warning, category: Exporter, labels: map[string]string{"cause": "late"},
		expr: `(
  histogram_quantile(0.99, sum by (job, instance) (rate(inference_exporter_schedule_lag_seconds[15m]))) >= 1
  or
  histogram_quantile(0.99, sum by (job, instance, le) (rate(inference_exporter_schedule_lag_seconds_bucket[15m]))) >= 1
)
and on (job, instance)
sum by (job, instance) (increase(inference_probe_results_total{concurrency=""}[15m])) >= 20`,
		lasting: "10m",
		summary: "The exporter {{ $labels.instance }} starts probes {{ $value | humanizeDuration }} late or more.",
		description: "At least one in a hundred probes of the last 15 minutes began a second or more after it was due. The exporter waits for its limits on probes in flight, or lacks CPU. " +
			"Look first at its CPU and at inference_exporter_probes_in_flight.",
		board: selfBoard,
	}
}

// stale is the modules of endpoints without a result for three intervals: of the
// latest probe, or since they were configured. The time of a run is that of its
// start and is shown when it ends, so two probes that run into their timeout put up
// to two timeouts on top; where modules take turns, the second one waits for one
// run of each rung of the others.
const stale = `(
  time() - max by ($E, module) (inference_probe_last_run_timestamp_seconds > 0 or inference_probe_configured_timestamp_seconds)
  > on ($E, module)
  (
    3 * max by ($E, module) (inference_probe_interval_seconds)
    + on ($E, module)
    max by ($E, module) (inference_probe_timeout_seconds)
    + on ($E) group_left
    sum by ($E) (max by ($E, module, input_tokens, output_tokens) (inference_probe_timeout_seconds))
  )
)`

// probeStale is a person's business now, unless each run is left out for a reason
// that somebody chose or that has an alert of its own.
func probeStale(o Options) alert {
	return alert{
		name: "InferenceProbeStale", severity: Critical, category: Exporter,
		expr: fmt.Sprintf(stale+`
unless on ($E, module)
sum by ($E, module) (increase(inference_probe_skipped_total{reason!~"overrun|limit"}[%s])) > 0`, duration(o.skipWindow())) + unlessDown(soon),
		lasting: "1m",
		summary: "There is no result of {{ $labels.endpoint }} with {{ $labels.module }} for {{ $value | humanizeDuration }}.",
		description: "The exporter is up, but results of this module have stopped or never began, and with them all alerts that are based on them. " +
			"Look first at inference_probe_skipped_total and at results with the outcome canceled; else see the exporter's log.",
		board: selfBoard,
	}
}

// probeSpared is for working hours: the exporter works, and a configuration or a
// quota has to be changed. That a budget is spent has an alert of its
// own. A server that asks to wait and answers nothing else is down.
func probeSpared(o Options) alert {
	return alert{
		name: "InferenceProbeStale", severity: Warning, category: Exporter,
		expr: fmt.Sprintf(`sum by ($E, module, reason) (increase(inference_probe_skipped_total{reason!~"overrun|limit|budget"}[%s])) > 0
and on ($E, module)
`+stale, duration(o.skipWindow())) + unlessDown(soon),
		lasting: "1m",
		summary: `No probe of {{ $labels.endpoint }} runs ({{ $labels.module }}): {{ if eq $labels.reason "backoff" }}it asks to wait{{ else }}{{ $labels.reason }}{{ end }}.`,
		description: "No probe of this module has had a result for three intervals, for a reason in the configuration, the server or the machine: the endpoint is not watched with it. With backoff the exporter works and does what the server asks. " +
			"Look first at the reason: the runbook says what to change for each.",
		board: endpointBoard,
	}
}

// lacksResources distinguishes the loss of some probes from that of most.
func lacksResources(severity Severity, share string) alert {
	return alert{
		name: "InferenceExporterLacksResources", severity: severity, category: Exporter,
		expr: fmt.Sprintf(`(
  sum by (job, instance) (increase(inference_exporter_missed_runs_total{reason="resources"}[15m]))
  / on (job, instance)
  (
    sum by (job, instance) (increase(inference_exporter_missed_runs_total{reason="resources"}[15m]))
    + on (job, instance)
    sum by (job, instance) (increase(inference_probe_results_total{concurrency=""}[15m]))
  )
) > %s
and on (job, instance)
sum by (job, instance) (increase(inference_exporter_missed_runs_total{reason="resources"}[15m])) > 3`, share),
		lasting: "5m",
		summary: "The exporter {{ $labels.instance }} cannot make {{ $value | humanizePercentage }} of its probes: it lacks descriptors, memory or ports.",
		description: "The operating system refused what a probe needs before anything was sent. Such probes have no result and count against no endpoint, so that those endpoints are not watched. " +
			"Look first at process_open_fds against process_max_fds, and at the exporter's log for the error.",
		board: selfBoard,
	}
}

// measurementSuspect distinguishes some probes from nearly all: their latencies
// count for no objective, so that nobody watches those of any endpoint.
func measurementSuspect(severity Severity, share, lasting string) alert {
	return alert{
		name: "InferenceMeasurementSuspect", severity: severity, category: Exporter,
		expr: fmt.Sprintf(`(
  sum by (job, instance) (increase(inference_exporter_imprecise_probes_total[5m]))
  / on (job, instance)
  sum by (job, instance) (increase(inference_exporter_probes_total[5m]))
) > %s
and on (job, instance)
sum by (job, instance) (increase(inference_exporter_imprecise_probes_total[15m])) >= 5`, share),
		lasting: lasting,
		summary: "The exporter {{ $labels.instance }} cannot guarantee the latencies of {{ $value | humanizePercentage }} of its probes.",
		description: "The exporter was too busy or its clock too unsteady during these probes: latencies may be its own, and count for no objective. " +
			"Look first at its CPU limit and at what else runs on its machine, before you look at any endpoint.",
		board: selfBoard,
	}
}

// ofExporters keeps the series of exporters: Prometheus has series of the same names
// about its own discovery.
const ofExporters = `
and on (job, instance)
group by (job, instance) (inference_exporter_build_info)`

func configReloadFailed() alert {
	return alert{
		name: "InferenceConfigReloadFailed", severity: Warning, category: Exporter,
		expr:    "max by (job, instance) (inference_exporter_config_last_reload_successful) == 0",
		lasting: "5m",
		summary: "The exporter {{ $labels.instance }} could not load its configuration and keeps the previous one.",
		description: "The latest reload failed, so that what was changed is not in effect: new endpoints are not probed, and old ones still are. At its next start the exporter will refuse to run. " +
			"Look first at the exporter's log, or run inference_exporter check on the file.",
		board: selfBoard,
	}
}

// stateNotSaved asks for more than one failure: the next attempt is a minute later.
func stateNotSaved() alert {
	return alert{
		name: "InferenceStateNotSaved", severity: Warning, category: Exporter,
		expr:    "sum by (job, instance) (increase(inference_exporter_state_save_failures_total[15m])) >= 3",
		lasting: "5m",
		summary: "{{ $labels.instance }} cannot save its state: {{ $value | printf \"%.0f\" }} attempts of 15 minutes failed.",
		description: "What survives a restart of the exporter is not written to disk: histories, states and mutes of endpoints, budgets that are spent, and what was learned of them. A restart now would lose what is newer than the last save. " +
			"Look first at the space and the permissions of the directory of --state.path, and at the exporter's log.",
		board: selfBoard,
	}
}

// pushFailing waits for a push that succeeds: it has what those before it lost. Spans that
// are lost are not sent again.
func pushFailing() alert {
	return alert{
		name: "InferencePushFailing", severity: Warning, category: Exporter,
		expr: `label_replace(
  sum by (job, instance) (increase(inference_exporter_metrics_push_failures_total[15m])) > 0
  unless on (job, instance)
  sum by (job, instance) (increase(inference_exporter_metrics_pushes_total[15m])) > 0,
  "signal", "metrics", "", ""
)
or
label_replace(sum by (job, instance) (increase(inference_exporter_spans_dropped_total[10m])) > 0, "signal", "traces", "", "")`,
		lasting: "15m",
		summary: "The receiver does not take the {{ $labels.signal }} of {{ $labels.instance }}.",
		description: "The OTLP receiver did not answer, answered with an error, or rejected what it got. Spans are lost; the next push of metrics that succeeds has all of them. Probes and the page for Prometheus are not affected. " +
			"Look first at the exporter's log, which quotes the receiver.",
		board: selfBoard,
	}
}

// discoveryFailing counts what each mechanism calls a failure. A lookup of a name
// that fails is no failed refresh, and kubernetes and consul watch for changes
// and refresh nothing.
func discoveryFailing() alert {
	return alert{
		name: "InferenceDiscoveryFailing", severity: Warning, category: Exporter,
		expr: `(
  sum by (job, instance, mechanism) (increase(prometheus_sd_refresh_failures_total[15m])) >= 2
  or
  label_replace(sum by (job, instance) (increase(prometheus_sd_file_read_errors_total[15m])) >= 2, "mechanism", "file", "", "")
  or
  label_replace(sum by (job, instance) (increase(prometheus_sd_dns_lookup_failures_total[15m])) >= 2, "mechanism", "dns", "", "")
  or
  label_replace(sum by (job, instance) (increase(prometheus_sd_kubernetes_failures_total[15m])) >= 2, "mechanism", "kubernetes", "", "")
  or
  label_replace(sum by (job, instance) (increase(prometheus_sd_consul_rpc_failures_total[15m])) >= 2, "mechanism", "consul", "", "")
)` + ofExporters,
		lasting: "10m",
		summary: "The exporter {{ $labels.instance }} cannot find its endpoints: {{ $labels.mechanism }} failed {{ $value | printf \"%.0f\" }} times in 15 minutes.",
		description: "The exporter keeps the endpoints that it found last. New ones are not probed, and removed ones still are, so that they seem to be down. " +
			"Look first at the exporter's log, which says which source failed and why.",
		board: selfBoard,
	}
}

func discoveredTargetsRejected() alert {
	return alert{
		name: "InferenceDiscoveredTargetsRejected", severity: Warning, category: Exporter,
		expr:    "max by (job, instance, reason) (inference_exporter_discovery_rejected_targets) > 0",
		lasting: "15m",
		summary: "The exporter {{ $labels.instance }} does not probe {{ $value }} of the targets that it found ({{ $labels.reason }}).",
		description: "Discovery found them, and they cannot become endpoints: their labels make none (invalid), the configuration does not allow their host (not_allowed), another endpoint has their name (duplicate_name), or their source found more than the limit, so that those found before stay (too_many). They are not watched. " +
			"Look first at the exporter's log, which names each of them once.",
		board: selfBoard,
	}
}

// rememberedEndpoints is the endpoints of each exporter. While an exporter does
// not answer it goes on with what it recorded before, so that it is known whose
// endpoints nobody watches.
func rememberedEndpoints() Rule {
	return record("instance:inference_endpoint_info:last",
		`group by (job, instance, $K) (inference_endpoint_info)
or
(
  instance:inference_endpoint_info:last
  and on (job, instance)
  up{$J} == 0
)`)
}

// unwatched is the endpoints that an exporter has or had and that no exporter
// has now.
const unwatched = `(
  instance:inference_endpoint_info:last
  unless on ($E)
  group by ($E) (inference_endpoint_info)
)`

// exporterDown pages if endpoints are no longer watched. What an exporter
// watched is not known if it never answered, or Prometheus began after it went
// away: that pages as well.
func exporterDown() alert {
	return alert{
		name: "InferenceExporterDown", severity: Critical, category: Exporter,
		expr: fmt.Sprintf(`(
  up{$J} == 0
  unless on (job, instance)
  (
    instance:inference_endpoint_info:last
    unless on (job, instance)
    %s
  )
)
or
absent(up{$J})`, unwatched),
		lasting: "3m",
		summary: "{{ with $labels.instance }}The exporter {{ . }} is down{{ else }}There is no exporter to scrape{{ end }}: its endpoints are not watched.",
		description: "Prometheus cannot scrape the exporter, or has no target for it (see the names of jobs in the expression). All alerts that are based on it are silent. " +
			"Look first at the targets page of Prometheus and at the exporter's log.",
		board: selfBoard,
	}
}

// replicaDown is an exporter whose endpoints others watch.
func replicaDown() alert {
	return alert{
		name: "InferenceExporterDown", severity: Warning, category: Exporter,
		expr: fmt.Sprintf(`up{$J} == 0
and on (job, instance)
instance:inference_endpoint_info:last
unless on (job, instance)
%s`, unwatched),
		lasting: "3m",
		summary: "The exporter {{ $labels.instance }} is down; others watch its endpoints.",
		description: "Prometheus cannot scrape the exporter. Other exporters probe all of its endpoints, so that every endpoint is still watched until one of them is lost too. " +
			"Look first at the targets page of Prometheus and at the exporter's log.",
		board: selfBoard,
	}
}

// ofProber is the labels of what one exporter reports for a module of an endpoint.
const ofProber = ofEach + ", job, instance"

// failedShare is the share of the probes of half an hour that failed, of each
// exporter that still reports the module: one that has ended does not disagree. It goes
// by the successes, whose counter a compact page has at zero too.
const failedShare = `(
    1 - sum by (%[1]s) (increase(inference_probe_results_total{outcome="success",concurrency=""}[30m]))
    / on (%[1]s)
    (sum by (%[1]s) (increase(inference_probe_results_total{outcome!="canceled",concurrency=""}[30m])) >= 4)
    and on (%[1]s)
    max by (%[1]s) (inference_probe_success{concurrency=""}) >= 0
  )`

// probersDisagree names the exporter that fails where another one does not. If
// it goes on failing its probes use up the error budget as well, and may page:
// its users may have the same trouble.
func probersDisagree() alert {
	return alert{
		name: "InferenceProbersDisagree", severity: Warning, category: Exporter,
		expr: fmt.Sprintf(`(
  `+failedShare+` > 0.25
  and on (%[2]s)
  `+failedShare+` < 0.05
)
and on (%[1]s)
sum by (%[1]s) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[30m])) >= 4
and on (%[1]s)
sum by (%[1]s) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[10m])) > 0`, ofProber, ofEach),
		lasting: "10m",
		summary: "{{ $value | humanizePercentage }} of the probes of {{ $labels.endpoint }} by {{ $labels.instance }} fail ({{ $labels.module }}), those of another prober do not.",
		description: "Of two exporters that ask the endpoint the same, one fails in more than a quarter of the probes of 30 minutes and another one in less than a twentieth. Either the network path or the credentials of the first one are broken, or users near it have the same problem. " +
			"Look first at the failures by prober on the board.",
		board: endpointBoard,
	}
}

// shards is how many shards there should be, as each set says. PromQL reads no
// number from a label but from le: the quantile 1 of a histogram whose
// observations are all in one bucket is the upper bound of the bucket.
const shards = `histogram_quantile(1,
  label_replace(group by (job, count) (inference_exporter_shard_info), "le", "$1", "count", "(.+)")
  or
  label_replace(group by (job, count) (inference_exporter_shard_info), "le", "+Inf", "count", ".+")
)`

// shardMissing compares the shards with the count that they report. Replicas of a shard
// count once. While their number is changed there are two numbers, and nothing is
// missed if either of them is complete.
func shardMissing() alert {
	const there = `count by (job, count) (group by (job, count, index) (inference_exporter_shard_info))`
	return alert{
		name: "InferenceShardMissing", severity: Critical, category: Exporter, labels: map[string]string{"cause": "missing"},
		expr: there + "\n< on (job, count)\n" + shards +
			"\nunless on (job)\n(" + there + "\n>= on (job, count)\n" + shards + ")",
		lasting: "10m",
		summary: "Only {{ $value }} of the {{ $labels.count }} shards of {{ $labels.job }} are present: the endpoints of the others are not watched.",
		description: "Each shard probes its own part of the endpoints. No other alert reports one that was never started, or that Prometheus has no target for. " +
			"Look first at the shards on the board, to see which number is missing.",
		board: selfBoard,
	}
}

func shardsDisagree() alert {
	return alert{
		name: "InferenceShardMissing", severity: Warning, category: Exporter, labels: map[string]string{"cause": "count"},
		expr:    "count by (job) (group by (job, count) (inference_exporter_shard_info)) > 1",
		lasting: "10m",
		summary: "The shards of {{ $labels.job }} disagree about their count: there are {{ $value }} different values.",
		description: "Shards with different counts divide the endpoints differently: some are probed twice, and some not at all. " +
			"Look first at the shards on the board: some exporters still run with old flags.",
		board: selfBoard,
	}
}
