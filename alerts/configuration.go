package alerts

// ofExporters keeps what exporters tell: Prometheus has series of the same names
// about its own discovery.
const ofExporters = `
and on (job, instance)
group by (job, instance) (inference_exporter_build_info)`

func configReloadFailed() alert {
	return alert{
		name: "InferenceConfigReloadFailed", severity: Warning, category: Exporter,
		expr:    "max by (job, instance) (inference_exporter_config_last_reload_successful) == 0",
		lasting: "5m",
		summary: "The exporter {{ $labels.instance }} could not load its configuration and goes on with the one before.",
		description: "The latest reload failed, so that what was changed is not in effect: new endpoints are not probed, and old ones still are. At its next start the exporter will refuse to run. " +
			"Look first at the exporter's log, or run inference_exporter check on the file.",
		board: selfBoard,
	}
}

// discoveryFailing counts what each mechanism calls a failure. A lookup of a name
// that fails is no failed refresh, and kubernetes and consul are told of changes
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
		description: "The exporter goes on with the endpoints that it found last. New ones are not probed, and those that are gone still are, so that they seem to be down. " +
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
		description: "Discovery found them, and they cannot become endpoints: their labels make none (invalid), the configuration does not allow their host (not_allowed), another endpoint has their name (duplicate_name), or their source found more than the limit, so that those found before stay (too_many). Nobody watches them. " +
			"Look first at the exporter's log, which names each of them once.",
		board: selfBoard,
	}
}
