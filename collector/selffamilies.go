package collector

import (
	"github.com/inference-exporter/inference_exporter/discovery"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// selfDescriptions are the exporter's own families.
type selfDescriptions struct {
	buildInfo, endpoints, inFlight Family
	reloaded, reloadedAt           Family
	rejected, silent, shard        Family
	missed, scheduleLag            Family
	probes, readLag                Family
	merged, imprecise              Family
	scrapeDuration, scrapeSize     Family
	budget, droppedSpans           Family
	droppedLogLines                Family
}

// list returns the families in the order of the documentation.
func (d *selfDescriptions) list() []Family {
	return []Family{
		d.buildInfo, d.endpoints, d.shard, d.rejected, d.silent, d.reloaded, d.reloadedAt, d.inFlight, d.missed, d.budget, d.scheduleLag,
		d.probes, d.readLag, d.merged, d.imprecise, d.scrapeDuration, d.scrapeSize, d.droppedSpans, d.droppedLogLines,
	}
}

// selfFamilies describes the exporter's own families. The one of the build is
// made by client_golang and described here for the catalogue.
func selfFamilies() selfDescriptions {
	family := func(name string, kind Type, unit, help string) Family {
		return Family{Name: namePrefix + "exporter_" + name, Group: GroupExporter, Type: kind, Unit: unit, Help: help}
	}
	d := selfDescriptions{
		buildInfo: family("build_info", Gauge, "", "Always 1. The version of the exporter and how it was built."),
		endpoints: family("endpoints", Gauge, "", "Endpoints that are looked at: those of the configuration and those that are discovered, as far as they are of this shard."),
		shard: family("shard_info", Gauge, "",
			"Always 1. Which part of the endpoints is this exporter's: the index, from 0, of so many."),
		rejected: family("discovery_rejected_targets", Gauge, "",
			"Discovered targets that are no endpoints, by reason: nothing valid can be made of them, the configuration does not allow their host, another endpoint has their name, or their source has found more than global.limits.discovery_targets and keeps those before."),
		silent: family("discovery_silent_sources", Gauge, "",
			"Sources of targets that have not answered since the exporter started or they were configured, so that what they would find is not looked at."),
		reloaded: family("config_last_reload_successful", Gauge, "",
			"1 if the latest attempt to load the configuration succeeded, else 0: then the one before is still in force."),
		reloadedAt: family("config_last_reload_success_timestamp_seconds", Gauge, "seconds",
			"When the configuration that is in force was loaded."),
		inFlight: family("probes_in_flight", Gauge, "", "Probes that are running."),
		missed: family("missed_runs_total", Counter, "",
			"Probes that were due and did not run, over all endpoints, by reason."),
		budget: family("budget_used_ratio", Gauge, "ratio",
			"Share of the budget of all endpoints together that probes have spent: tokens over the last hour, US dollars over the last 24 hours. Absent without such a budget."),
		droppedSpans: family("spans_dropped_total", Counter, "",
			"Trace spans that were lost: the queue was full, or the receiver did not take them. Absent without trace export, and goes on where it was when there is one again."),
		droppedLogLines: family("log_lines_dropped_total", Counter, "",
			"Lines of the log that were lost: its reader did not read, or was gone."),
		scheduleLag: family("schedule_lag_seconds", Histogram, "seconds",
			"Time from when a probe was due to when it was begun."),
		probes: family("probes_total", Counter, "",
			"Probes that received a token, by the clock that stamped it: the kernel's, or the process's, which sees its own delays as the server's."),
		readLag: family("read_lag_seconds", Histogram, "seconds",
			"Time from the kernel's receive timestamp of a token event to the return of the read: the error that the kernel's clock avoids."),
		merged: family("merged_events_total", Counter, "",
			"Token events whose measured arrival is only an upper bound, over all endpoints: a later one shared their read, or other data did and the exporter was late to read."),
		imprecise: family("imprecise_probes_total", Counter, "",
			"Probes during which the exporter was too busy, or its clock too unsteady, to vouch for the latencies, over all endpoints."),
		scrapeDuration: family("scrape_duration_seconds", Histogram, "seconds", "Time to write a page of metrics."),
		scrapeSize:     family("scrape_size_bytes", Histogram, "bytes", "Size of a page of metrics before compression."),
	}
	d.buildInfo.Labels = []string{"version", "revision", "branch", "goversion", "goos", "goarch", "tags"}
	d.shard.Labels = []string{"index", "count"}
	d.rejected.Labels, d.rejected.Values = []string{"reason"}, labelValues(discovery.Reasons())
	d.missed.Labels, d.missed.Values = []string{"reason"}, labelValues(result.SkipReasons())
	d.budget.Labels, d.budget.Values = []string{"resource"}, budgetResources()
	d.probes.Labels = []string{"clock"}
	d.probes.Values = labelValues(result.Clocks())
	return d
}
