package main

// perProber groups what exporters report about themselves.
const perProber = "instance"

func self() Board {
	return Board{
		UID: uidSelf, Title: "Inference / Prober",
		Question:  "Is the monitor lying?",
		Variables: []Variable{datasourceVariable(), jobVariable(), proberVariable()},
		Marks:     []Mark{exporterAlertMark(), exporterMark(), reloadMark()},
		From:      "now-3h",
		Rows: []Row{
			{Panels: selfNow()},
			{Title: "What it probes", Panels: selfConfiguration()},
			{Title: "Does it probe", Panels: selfSchedule()},
			{Title: "Does it measure well", Panels: selfAccuracy()},
			{Title: "What it needs", Collapsed: true, Panels: selfResources()},
		},
	}
}

// noExporter is shown where there is nothing of any exporter.
const noExporter = "no exporter was read in this time"

// failedStates are those of a query that is 1 where something failed: a table that
// is sorted by it has what failed first, and what is not known last.
var failedStates = []State{{"1", "failed", "red"}, {"0", "ok", "green"}}

// lastHour is the latest value of the last hour of a series of exporters, so that
// one that is dead has it too.
func lastHour(name string, matchers ...string) string {
	return "last_over_time(" + ofMachine.of(name, matchers...) + "[1h])"
}

func selfNow() []Panel {
	const build = "inference_exporter_build_info"
	latest := func(name string) string { return "max by (job, instance) (" + lastHour(name) + ")" }
	return []Panel{
		{
			Title: "Exporters", Viz: Table, Width: 24, Height: 7,
			What: "Each exporter: whether Prometheus reads its page, when it did last, its version, when it started, and how many endpoints it has. Exporters are the targets of jobs named inference_exporter..., and of those whose pages of the last hour were an exporter's.", By: ByPrometheus,
			Worry: "one is failed, or versions differ.", Alerts: []string{"InferenceExporterDown"},
			Queries: []Query{
				{Expr: "max by (job, instance) (" + ofMachine.of("up") + " and on (job) group by (job) (" + lastHour(build) + " or " + ofMachine.of("up", `job=~"inference[-_]exporter.*"`) + ")) == bool 0"},
				{Expr: "1000 * max by (job, instance) (max_over_time(timestamp(" + ofMachine.of(build) + ")[1h:1m]))"},
				{Expr: "max by (job, instance, version, goversion) (" + ofMachine.of(build) + " or (" + lastHour(build) + " unless on (job, instance) " + ofMachine.of(build) + "))"},
				{Expr: "1000 * (" + latest("process_start_time_seconds") + " and on (job, instance) " + latest(build) + ")"},
				{Expr: latest("inference_exporter_endpoints")},
			},
			Columns: []Column{
				{Label: "job", Title: "Job"},
				{Label: "instance", Title: "Instance"},
				{Query: 0, Title: "Page", States: failedStates},
				{Query: 1, Title: "Last read", Unit: "dateTimeFromNow", Width: 150},
				{Label: "version", Title: "Version"},
				{Label: "goversion", Title: "Go"},
				{Query: 3, Title: "Started", Unit: "dateTimeFromNow", Width: 150},
				{Query: 4, Title: "Endpoints"},
			},
			Sort: []Order{{Title: "Page", Desc: true}, {Title: "Started", Desc: true}}, NoValue: "no exporter: is it scraped?",
		},
		{
			Title: "Rules are evaluated", Viz: Stat, Width: 4, Height: 6,
			What: "Whether the watchdog alert fires, as it always should. Without it no rule is evaluated, and no alert can fire.", By: ByPrometheus,
			Worry: "there is no data in this panel.", Alerts: []string{"InferenceWatchdog"},
			Queries: []Query{{Expr: `max(ALERTS{alertname="InferenceWatchdog",alertstate="firing"})`, Legend: "rules"}},
			States:  []State{{"1", "yes", "green"}}, NoValue: "no: alerts are dead",
		},
		{
			Title: "Endpoints without a fresh probe", Viz: Table, Width: 20, Height: 6,
			What: "Endpoints whose state is stale, and those of the last hour that no exporter has any more: when each module's latest probe with a result began, or since when there should be one.", By: ByExporter,
			Worry: "there is any: nobody watches it.", Alerts: []string{"InferenceProbeStale", "InferenceExporterDown"},
			Queries: []Query{{
				Expr: "1000 * max by (endpoint, module) (((" + lastHour("inference_probe_last_run_timestamp_seconds") + " > 0 or " + lastHour("inference_probe_configured_timestamp_seconds") + ")" +
					" and on (endpoint) (" + ofJob.of("inference_endpoint_state", `state="stale"`) + " == 1)) or ((" + lastHour("inference_probe_last_run_timestamp_seconds") + " > 0)" +
					" unless on (endpoint) " + ofJob.of("inference_endpoint_state") + "))",
			}},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint")}},
				{Label: "module", Title: "Module"},
				{Query: 0, Title: "Latest probe", Unit: "dateTimeFromNow", Width: 170},
			},
			Sort: []Order{{Title: "Latest probe", Desc: true}}, NoValue: "none: each endpoint of the last hour is probed",
		},
	}
}

func selfSchedule() []Panel {
	const asked = "endpoint, model, " + byModule
	// The median of what is asked of each endpoint, as each prober sees it.
	median := ofMachine.of("instance:inference_probe_ttft_seconds:median30m")
	return []Panel{
		{
			Title: "Probes that ran", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 8,
			What: "Probes a minute that each exporter ended, whatever their outcome, over 5 minutes.", By: ByRules,
			Worry: "it falls and the number of endpoints does not.", Alerts: []string{"InferenceProbeStale"},
			Queries: []Query{{Expr: "60 * sum by (" + perProber + ") (" + ofMachine.of("instance:inference_probe_results:rate5m") + ")", Legend: "{{instance}}"}},
			Min:     ptr(0.0), NoValue: noExporter,
		},
		{
			Title: "Probes that did not run", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 8, Stacked: true,
			What: "Probes a minute that were due and did not run: the one before still ran (overrun), a server asked to wait (backoff), or too many were in flight (limit).", By: ByExporter,
			Worry: "limit lasts: raise limits.in_flight, or spread the endpoints over more exporters.", Alerts: []string{"InferenceExporterLacksResources"},
			Queries: []Query{{Expr: "60 * " + sumRate("instance, reason", "5m", "inference_exporter_missed_runs_total", ofMachine) + " > 0", Legend: "{{reason}} {{instance}}"}},
			Min:     ptr(0.0), NoValue: noneOfProbes,
		},
		{
			Title: "Probes in flight", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Probes that run at this moment.", By: ByExporter,
			Worry: "it is at limits.in_flight: probes wait for a place.", Alerts: []string{"InferenceExporterLacksResources"},
			Queries: []Query{{Expr: "max by (instance) (max_over_time(" + ofMachine.of("inference_exporter_probes_in_flight") + "[$__rate_interval]))", Legend: "{{instance}}"}},
			Min:     ptr(0.0), NoValue: noExporter,
		},
		{
			Title: "Schedule lag", Viz: Heatmap, Unit: "s", Width: 8, Height: 8,
			What: "Time from when a probe was due to when it began.", By: ByExporter,
			Worry: "there are seconds: the machine is too small or too busy.", Alerts: []string{"InferenceExporterLacksResources"},
			Queries: []Query{{Expr: distribution("inference_exporter_schedule_lag_seconds", ofMachine), Legend: "{{le}}"}},
			NoValue: noExporter,
		},
		{
			Title: "Difference between two probers", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Slowest less fastest prober of an endpoint, by their median TTFT of 30 minutes for what they ask alike; the ten widest. Only where several exporters probe the same endpoint.", By: ByRules,
			Worry: "it is much more than the difference of their networks: one of them measures badly.", Alerts: []string{"InferenceMeasurementSuspect"},
			Queries: []Query{{Expr: "topk(10, max by (endpoint, model) ((max by (" + asked + ") (" + median + ") - min by (" + asked + ") (" + median + ")) and on (" + asked + ") count by (" + asked + ") (" + median + ") > 1))", Legend: "{{endpoint}} {{model}}"}},
			Min:     ptr(0.0), NoValue: "each endpoint has one prober",
		},
	}
}

func selfAccuracy() []Panel {
	share := func(name string) string {
		return sumRate(perProber, "5m", name, ofMachine) + " / " + sumRate(perProber, "5m", "inference_exporter_probes_total", ofMachine)
	}
	return []Panel{
		{
			Title: "Read lag", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Time from the kernel's stamp of a token to the end of the read, median and p99: the error that the kernel's clock avoids.", By: ByExporter,
			Worry: "p99 is over some milliseconds: the exporter is short of processor time.", Alerts: []string{"InferenceMeasurementSuspect"},
			Queries: []Query{
				{Expr: quantile(0.5, perProber, "5m", "inference_exporter_read_lag_seconds", ofMachine), Legend: "median {{instance}}"},
				{Expr: quantile(0.99, perProber, "5m", "inference_exporter_read_lag_seconds", ofMachine), Legend: "p99 {{instance}}"},
			},
			Min: ptr(0.0), NoValue: "the kernel stamps nothing here",
		},
		{
			Title: "Clock of the probes", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8, Stacked: true,
			What: "Probes a minute by the clock that stamped their tokens: the kernel's, or the process's, which takes its own delays for the server's.", By: ByExporter,
			Worry: "process appears on Linux.", Alerts: []string{"InferenceMeasurementSuspect"},
			Queries: []Query{{Expr: "60 * " + sumRate("clock", "5m", "inference_exporter_probes_total", ofMachine), Legend: "{{clock}}"}},
			Min:     ptr(0.0), NoValue: noExporter,
		},
		{
			Title: "Imprecise probes and merged tokens", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "For each probe that received a token: how many were imprecise, because the exporter was too busy, and how many tokens were merged, so that only a bound of their arrival is known.", By: ByExporter,
			Worry: "imprecise is not 0: the exporter needs more processor time.", Alerts: []string{"InferenceMeasurementSuspect"},
			Queries: []Query{
				{Expr: share("inference_exporter_imprecise_probes_total"), Legend: "imprecise {{instance}}"},
				{Expr: share("inference_exporter_merged_events_total"), Legend: "merged tokens {{instance}}"},
			},
			Min: ptr(0.0), NoValue: noExporter,
		},
		{
			Title: "Names, connections, handshakes", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Mean time of the probes for resolving names, connecting and the TLS handshake, for each exporter.", By: ByProbe,
			Worry: "it grows for all endpoints of one exporter: its network or resolver is at fault.", Alerts: []string{"InferenceEndpointFailing"},
			Queries: []Query{{Expr: classicMean("instance, phase", "5m", "inference_probe_phase_seconds", ofMachine, `concurrency=""`, `phase=~"dns|connect|tls"`), Legend: "{{phase}} {{instance}}"}},
			Min:     ptr(0.0), NoValue: noExporter,
		},
		{
			Title: "Pauses of the garbage collector", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "The longest of the latest pauses.", By: ByExporter,
			Worry: "it is over 10 ms.", Alerts: []string{"InferenceMeasurementSuspect"},
			Queries: []Query{{Expr: "max by (instance) (" + own(ofMachine.of("go_gc_duration_seconds", `quantile=~"1|1.0"`)) + ")", Legend: "{{instance}}"}},
			Min:     ptr(0.0), NoValue: noExporter,
		},
	}
}

// own keeps the series of exporters, where job and instance say what is one.
func own(expr string) string {
	return expr + " and on (job, instance) " + ofMachine.of("inference_exporter_build_info")
}

func selfResources() []Panel {
	process := func(title, unit, what, worry string, queries ...Query) Panel {
		return Panel{
			Title: title, Viz: TimeSeries, Unit: unit, Width: 8, Height: 7, What: what, By: ByExporter, Worry: worry,
			Alerts: []string{"InferenceExporterDown"}, Queries: queries, Min: ptr(0.0), NoValue: noExporter,
		}
	}
	gauge := func(name string) string { return "max by (instance) (" + own(ofMachine.of(name)) + ")" }
	return []Panel{
		process("Processors", "none", "Processors that the exporter uses.", "it is close to the limit of the exporter: latencies then include its own delays.",
			Query{Expr: "max by (instance) (" + own("rate("+ofMachine.of("process_cpu_seconds_total")+"[5m])") + ")", Legend: "{{instance}}"}),
		process("Memory", "bytes", "Resident memory of the exporter.", "it grows for days.",
			Query{Expr: gauge("process_resident_memory_bytes"), Legend: "{{instance}}"}),
		process("Goroutines and open files", "none", "Goroutines and open file descriptors of the exporter, and how many it may open.", "either grows for days.",
			Query{Expr: gauge("go_goroutines"), Legend: "goroutines {{instance}}"},
			Query{Expr: gauge("process_open_fds"), Legend: "files {{instance}}"}),
		process("Duration of a scrape", "s", "How long Prometheus took to read a page, and the p99 of what the exporter took to write one.", "it is close to the scrape timeout.",
			Query{Expr: gauge("scrape_duration_seconds"), Legend: "read {{instance}}"},
			Query{Expr: quantile(0.99, perProber, "15m", "inference_exporter_scrape_duration_seconds", ofMachine), Legend: "write p99 {{instance}}"}),
		process("Series of a page", "none", "Samples on a page.", "it grows and the endpoints do not: a label has too many values.",
			Query{Expr: gauge("scrape_samples_scraped"), Legend: "{{instance}}"}),
		process("Size of a page", "bytes", "Mean size of a page before compression.", "it grows and the endpoints do not.",
			Query{Expr: mean(perProber, "15m", "inference_exporter_scrape_size_bytes", ofMachine), Legend: "{{instance}}"}),
		{
			Title: "Trace spans and log lines lost", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 6,
			What: "Spans a minute that were lost, because the queue was full or the receiver did not take them, and lines of the log that were not read in time.", By: ByExporter,
			Worry: "any is lost.", Alerts: []string{"InferencePushFailing"},
			Queries: []Query{
				{Expr: "60 * " + sumRate(perProber, "5m", "inference_exporter_spans_dropped_total", ofMachine), Legend: "spans {{instance}}"},
				{Expr: "60 * " + sumRate(perProber, "5m", "inference_exporter_log_lines_dropped_total", ofMachine), Legend: "log lines {{instance}}"},
			},
			Min: ptr(0.0), NoValue: noExporter,
		},
		{
			Title: "Questions to the kubelet that failed", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 6, Stacked: true,
			What: "Failed questions a minute about which pod has which GPU: no answer (unreachable), no permission (denied), or another error (failed).", By: ByExporter,
			Worry:   "any fails: names of pods are then missing or old.",
			Queries: []Query{{Expr: "60 * " + sumRate("instance, state", "5m", "inference_gpu_pods_failures_total", ofMachine), Legend: "{{state}} {{instance}}"}},
			Min:     ptr(0.0), NoValue: "the kubelet is not asked",
		},
	}
}

// selfConfiguration is which endpoints the exporters have, and from where.
func selfConfiguration() []Panel {
	return []Panel{
		{
			Title: "Configuration", Viz: Table, Width: 8, Height: 7,
			What: "Whether each exporter of the last hour could load its configuration the last time that it tried, and when the active one was loaded.", By: ByExporter,
			Worry: "one is failed: what was changed is not in effect there.", Alerts: []string{"InferenceConfigReloadFailed", "InferenceStateNotSaved"},
			Queries: []Query{
				{Expr: "max by (job, instance) (" + lastHour("inference_exporter_config_last_reload_successful") + ") == bool 0"},
				{Expr: "1000 * max by (job, instance) (" + lastHour("inference_exporter_config_last_reload_success_timestamp_seconds") + ")"},
			},
			Columns: []Column{
				{Label: "instance", Title: "Instance"},
				{Query: 0, Title: "Load", States: failedStates},
				{Query: 1, Title: "Loaded", Unit: "dateTimeFromNow", Width: 150},
			},
			Sort: []Order{{Title: "Load", Desc: true}, {Title: "Loaded", Desc: true}}, NoValue: "no exporter in the last hour: is it scraped?",
		},
		{
			Title: "Shards", Viz: Table, Width: 8, Height: 7,
			What: "Exporters that share the endpoints of one configuration: the number of each shard, from 0, and how many there are by its flags.", By: ByExporter,
			Worry: "a number below the highest is missing, or the counts differ.", Alerts: []string{"InferenceShardMissing"},
			Queries: []Query{{Expr: "max by (job, instance, index, count) (" + ofMachine.of("inference_exporter_shard_info", `count!="1"`) + ")"}},
			Columns: []Column{
				{Label: "job", Title: "Job"},
				{Label: "instance", Title: "Instance"},
				{Label: "index", Title: "Shard", Width: 85},
				{Label: "count", Title: "Of", Width: 70},
			},
			Sort: []Order{{Title: "Job"}, {Title: "Shard"}}, NoValue: "no exporter is a shard",
		},
		{
			Title: "Endpoints by exporter", Viz: TimeSeries, Unit: "none", Width: 8, Height: 7,
			What: "Endpoints that each exporter has, configured and discovered.", By: ByExporter,
			Worry: "it falls and none were removed: discovery lost them, or another shard has them.", Alerts: []string{"InferenceDiscoveryFailing", "InferenceShardMissing"},
			Queries: []Query{{Expr: "max by (instance) (" + ofMachine.of("inference_exporter_endpoints") + ")", Legend: "{{instance}}"}},
			Min:     ptr(0.0), NoValue: noExporter,
		},
		{
			Title: "Failures of discovery", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 7, Stacked: true,
			What: "Failures a minute of the discovery of endpoints, by mechanism. The exporter keeps the endpoints that it found last.", By: ByExporter,
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
			Worry: "it is not 0: they are not watched.", Alerts: []string{"InferenceDiscoveredTargetsRejected"},
			Queries: []Query{{Expr: "max by (instance, reason) (" + ofMachine.of("inference_exporter_discovery_rejected_targets") + ") > 0", Legend: "{{reason}} {{instance}}"}},
			Min:     ptr(0.0), NoValue: "none, if anything is discovered",
		},
	}
}

// failuresOf is the failures a minute that a counter of Prometheus' discovery
// reports for exporters; Prometheus has such counters of its own.
func failuresOf(counter, by string) string {
	return "60 * (" + own("sum by (job, instance"+by+") (rate("+ofMachine.of(counter)+"[15m]))") + ")"
}
