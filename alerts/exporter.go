package alerts

import "fmt"

// jobs are the names that scrape jobs of this exporter are expected to have.
const jobs = `job=~"inference[-_]exporter.*"`

// exporterGroup has what tells that the monitoring itself is blind or lies.
func exporterGroup(o Options) Group {
	return Group{Name: "inference-exporter", Interval: "30s", Rules: rules(
		exporterDown(),
		replicaDown(),
		watchdog(),
		probersDisagree(),
		shardMissing(),
		shardsDisagree(),
		configReloadFailed(),
		discoveryFailing(),
		discoveredTargetsRejected(),
		probesMissed(),
		probesLate(),
		probeStale(o),
		probeSpared(o),
		lacksResources(Warning, "0"),
		lacksResources(Critical, "0.5"),
		measurementSuspect(),
	)}
}

func watchdog() alert {
	return alert{
		name: "InferenceWatchdog", severity: None, category: Exporter,
		expr:    "vector(1)",
		summary: "Prometheus evaluates rules.",
		description: "This alert always fires. Send it to a receiver that tells when it stops coming: then Prometheus or Alertmanager is down and no other alert arrives. " +
			"There is nothing to look at while it fires.",
		board: selfBoard,
	}
}

// probesMissed goes by runs for which the exporter had no time or no place. Others
// were left out for a reason that somebody chose or that has an alert of its own.
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
		description: "Probes that were due did not run, because the one before was still going or too many were in flight. Alerts rest on fewer probes than they should and come late. " +
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
  time() - max by ($K, module) (inference_probe_last_run_timestamp_seconds > 0 or inference_probe_configured_timestamp_seconds)
  > on ($K, module)
  (
    3 * max by ($K, module) (inference_probe_interval_seconds)
    + on ($K, module)
    max by ($K, module) (inference_probe_timeout_seconds)
    + on ($K) group_left
    sum by ($K) (max by ($K, module, input_tokens, output_tokens) (inference_probe_timeout_seconds))
  )
)`

// probeStale is a person's business now, unless each run is left out for a reason
// that somebody chose or that has an alert of its own.
func probeStale(o Options) alert {
	return alert{
		name: "InferenceProbeStale", severity: Critical, category: Exporter,
		expr: fmt.Sprintf(stale+`
unless on ($K, module)
sum by ($K, module) (increase(inference_probe_skipped_total{reason!~"overrun|limit"}[%s])) > 0`, duration(o.skipWindow())),
		lasting: "1m",
		summary: "There is no result of {{ $labels.endpoint }} with {{ $labels.module }} for {{ $value | humanizeDuration }}.",
		description: "The exporter is up, but results of this module have stopped or never began, and with them all alerts that rest on them. " +
			"Look first at inference_probe_skipped_total and at results with the outcome canceled; else see the exporter's log.",
		board: selfBoard,
	}
}

// probeSpared is for working hours: the exporter is well, and somebody has to
// change a configuration or a quota. That a budget is spent has an alert of its
// own.
func probeSpared(o Options) alert {
	return alert{
		name: "InferenceProbeStale", severity: Warning, category: Exporter,
		expr: fmt.Sprintf(`sum by ($K, module, reason) (increase(inference_probe_skipped_total{reason!~"overrun|limit|budget"}[%s])) > 0
and on ($K, module)
`+stale, duration(o.skipWindow())),
		lasting: "1m",
		summary: "All probes of {{ $labels.endpoint }} with {{ $labels.module }} are left out ({{ $labels.reason }}).",
		description: "No probe of this module has had a result for three intervals, for a reason that lies in the configuration, the server or the machine: nobody watches the endpoint with it. " +
			"Look first at the reason: the runbook says what to change for each.",
		board: endpointBoard,
	}
}

// lacksResources tells apart what costs some probes from what makes the exporter
// blind.
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
		description: "The operating system refused what a probe needs before anything was sent. Such probes have no result and count against no endpoint, so that nobody watches those endpoints. " +
			"Look first at process_open_fds against process_max_fds, and at the exporter's log for the error.",
		board: selfBoard,
	}
}

func measurementSuspect() alert {
	return alert{
		name: "InferenceMeasurementSuspect", severity: Warning, category: Exporter,
		expr: `(
  sum by (job, instance) (increase(inference_exporter_imprecise_probes_total[15m]))
  / on (job, instance)
  sum by (job, instance) (increase(inference_exporter_probes_total[15m]))
) > 0.1
and on (job, instance)
sum by (job, instance) (increase(inference_exporter_imprecise_probes_total[15m])) >= 5`,
		lasting: "5m",
		summary: "The exporter {{ $labels.instance }} cannot vouch for the latencies of {{ $value | humanizePercentage }} of its probes.",
		description: "The exporter was too busy or its clock too unsteady during these probes: latencies may be its own. " +
			"Look first at its CPU limit and at what else runs on its machine, before you look at any endpoint.",
		board: selfBoard,
	}
}
