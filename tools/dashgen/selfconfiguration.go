package main

// selfConfiguration is which endpoints the exporters have, and from where.
func selfConfiguration() []Panel {
	return []Panel{
		{
			Title: "Configuration", Viz: Table, Width: 8, Height: 7,
			What: "Whether each exporter could load its configuration the last time that it tried, and how long ago the one that is in force was loaded.", By: ByExporter,
			Worry: "one is failed: what was changed is not in effect there.", Alerts: []string{"InferenceConfigReloadFailed"},
			Queries: []Query{
				{Expr: "max by (job, instance) (" + ofMachine.of("inference_exporter_config_last_reload_successful") + ")"},
				{Expr: "time() - max by (job, instance) (" + ofMachine.of("inference_exporter_config_last_reload_success_timestamp_seconds") + ")"},
			},
			Columns: []Column{
				{Label: "instance", Title: "Instance"},
				{Query: 0, Title: "Load", States: upStates, Width: 80},
				{Query: 1, Title: "In force for", Unit: "s"},
			},
			NoValue: noProber,
		},
		{
			Title: "Shards", Viz: Table, Width: 8, Height: 7,
			What: "Exporters that share the endpoints of one configuration: the number of each shard, from 0, and how many it believes there are.", By: ByExporter,
			Worry: "a number below the last one is not there, or they do not agree on how many they are.", Alerts: []string{"InferenceShardMissing"},
			Queries: []Query{{Expr: "max by (job, instance, index, count) (" + ofMachine.of("inference_exporter_shard_info") + ")"}},
			Columns: []Column{
				{Label: "job", Title: "Job"},
				{Label: "instance", Title: "Instance"},
				{Label: "index", Title: "Shard", Width: 80},
				{Label: "count", Title: "Of", Width: 80},
			},
			NoValue: "no exporter is a shard",
		},
		{
			Title: "Endpoints by exporter", Viz: TimeSeries, Unit: "none", Width: 8, Height: 7,
			What: "Endpoints that each exporter has, configured and discovered.", By: ByExporter,
			Worry: "it falls and nobody took any away: discovery lost them, or another shard has them.", Alerts: []string{"InferenceDiscoveryFailing", "InferenceShardMissing"},
			Queries: []Query{{Expr: "max by (instance) (" + ofMachine.of("inference_exporter_endpoints") + ")", Legend: "{{instance}}"}},
			Min:     ptr(0.0), NoValue: noProber,
		},
		{
			Title: "Failures of discovery", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 7, Stacked: true,
			What: "Failures a minute of what finds endpoints, by mechanism. The exporter goes on with what it found last.", By: ByExporter,
			Worry: "it lasts: new endpoints are not probed.", Alerts: []string{"InferenceDiscoveryFailing"},
			Queries: []Query{
				{Expr: failuresOf("prometheus_sd_refresh_failures_total", ", mechanism"), Legend: "{{mechanism}} {{instance}}"},
				{Expr: failuresOf("prometheus_sd_file_read_errors_total", ""), Legend: "file {{instance}}"},
				{Expr: failuresOf("prometheus_sd_dns_lookup_failures_total", ""), Legend: "lookup of a name {{instance}}"},
				{Expr: failuresOf("prometheus_sd_kubernetes_failures_total", ""), Legend: "kubernetes {{instance}}"},
				{Expr: failuresOf("prometheus_sd_consul_rpc_failures_total", ""), Legend: "consul {{instance}}"},
			},
			Min: ptr(0.0), NoValue: "nothing is discovered",
		},
		{
			Title: "Targets that are no endpoints", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7, Stacked: true,
			What: "Discovered targets that are not probed: their labels make no endpoint (invalid), their host is not allowed (not_allowed), another endpoint has their name (duplicate_name), or their source found more than the limit (too_many).", By: ByExporter,
			Worry: "it is not 0: nobody watches them.", Alerts: []string{"InferenceDiscoveredTargetsRejected"},
			Queries: []Query{{Expr: "max by (instance, reason) (" + ofMachine.of("inference_exporter_discovery_rejected_targets") + ")", Legend: "{{reason}} {{instance}}"}},
			Min:     ptr(0.0), NoValue: "nothing is discovered",
		},
	}
}

// failuresOf is the failures a minute that a counter of Prometheus' discovery
// tells of exporters; Prometheus has such counters of its own.
func failuresOf(counter, by string) string {
	return "60 * (" + own("sum by (job, instance"+by+") (rate("+ofMachine.of(counter)+"[15m]))") + ")"
}
