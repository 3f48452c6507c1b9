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

// probesMissed leaves out runs that were spared on purpose: a server asked for it,
// a budget is spent, or a prompt has no room in the context.
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

// probeStale asks for three intervals. The time of the latest run is that of its
// start and is shown when it ends, so two probes that run into their timeout put
// up to two timeouts on top. It is absent before the first result. That a budget is
// spent has an alert of its own, which need not wake anybody.
func probeStale(o Options) alert {
	return alert{
		name: "InferenceProbeStale", severity: Critical, category: Exporter,
		expr: fmt.Sprintf(`time() - max by ($K, module) (inference_probe_last_run_timestamp_seconds)
> on ($K, module)
(
  3 * max by ($K, module) (inference_probe_interval_seconds)
  + on ($K, module)
  2 * max by ($K, module) (inference_probe_timeout_seconds)
)
unless on ($K, module)
sum by ($K, module) (increase(inference_probe_skipped_total{reason="budget"}[%s])) > 0`, duration(o.failureWindow())),
		lasting: "1m",
		summary: "{{ $labels.endpoint }} was not probed with {{ $labels.module }} for {{ $value | humanizeDuration }}.",
		description: "The exporter is up, but results of this module have stopped, and with them all alerts that rest on them. " +
			"Look first at inference_probe_skipped_total: with the reason backoff the server asked to wait; else see the exporter's log.",
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
