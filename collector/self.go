package collector

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/inference-exporter/inference_exporter/internal/discovery"
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
	pushes, pushFailures           Family
	stateSaved, stateFailures      Family
	stateSize                      Family
}

// list returns the families in the order of the documentation.
func (d *selfDescriptions) list() []Family {
	return []Family{
		d.buildInfo, d.endpoints, d.shard, d.rejected, d.silent, d.reloaded, d.reloadedAt, d.inFlight, d.missed, d.budget, d.scheduleLag,
		d.probes, d.readLag, d.merged, d.imprecise, d.scrapeDuration, d.scrapeSize, d.droppedSpans, d.pushes, d.pushFailures, d.droppedLogLines,
		d.stateSaved, d.stateFailures, d.stateSize,
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
		endpoints: family("endpoints", Gauge, "", "Endpoints that are monitored: configured and discovered endpoints of this shard."),
		shard: family("shard_info", Gauge, "",
			"Always 1. The shard of this exporter: its index, from 0, and the number of shards."),
		rejected: family("discovery_rejected_targets", Gauge, "",
			"Discovered targets that are rejected, by reason: the resulting endpoint is invalid (invalid), the configuration does not allow the host (not_allowed), another endpoint has the same name (duplicate_name), or the source has found more targets than global.limits.discovery_targets and its previous targets are kept (too_many)."),
		silent: family("discovery_silent_sources", Gauge, "",
			"Discovery sources that have not answered since the exporter started or since they were configured. Their targets are not monitored."),
		reloaded: family("config_last_reload_successful", Gauge, "",
			"1 if the latest attempt to load the configuration succeeded, 0 otherwise: the previous configuration then remains active."),
		reloadedAt: family("config_last_reload_success_timestamp_seconds", Gauge, "seconds",
			"Unix time at which the active configuration was loaded."),
		inFlight: family("probes_in_flight", Gauge, "", "Probes currently running."),
		missed: family("missed_runs_total", Counter, "",
			"Probes that were due and did not run, over all endpoints, by reason."),
		budget: family("budget_used_ratio", Gauge, "ratio",
			"Share of the budget of all endpoints together that probes have spent: tokens over the last hour, US dollars over the last 24 hours. Absent without such a budget."),
		droppedSpans: family("spans_dropped_total", Counter, "",
			"Trace spans that were dropped because the queue was full or the receiver did not accept them. Absent while trace export is disabled; the count continues when it is enabled again."),
		pushes: family("metrics_pushes_total", Counter, "",
			"Pushes of all metrics over OTLP that the receiver took. Absent while metrics are not pushed; the count continues when they are again."),
		pushFailures: family("metrics_push_failures_total", Counter, "",
			"Pushes of all metrics over OTLP that failed, or of which the receiver rejected points. The next push has what such a one had. Absent while metrics are not pushed."),
		droppedLogLines: family("log_lines_dropped_total", Counter, "",
			"Log lines that were dropped because the reader of the log did not read or was gone."),
		scheduleLag: family("schedule_lag_seconds", Histogram, "seconds",
			"Time from when a probe was due to when it started."),
		probes: family("probes_total", Counter, "",
			"Probes that received a token, by the clock of its timestamp: that of the kernel, or that of the process, which includes the exporter's own delays."),
		readLag: family("read_lag_seconds", Histogram, "seconds",
			"Time from the kernel's receive timestamp of a token event to the return of the read: the error that the kernel's clock avoids."),
		merged: family("merged_events_total", Counter, "",
			"Token events whose measured arrival time is only an upper bound, over all endpoints: they were read together with a later token event, or with other data while the exporter read late."),
		imprecise: family("imprecise_probes_total", Counter, "",
			"Probes whose latencies are unreliable because the exporter was too busy or its clock was unstable, over all endpoints."),
		stateSaved: family("state_saved_timestamp_seconds", Gauge, "seconds",
			"Unix time at which the state that survives a restart was last known to be up to date on disk. Absent until then, and where no state is kept."),
		stateFailures: family("state_save_failures_total", Counter, "",
			"Attempts to save the state that failed. Absent where no state is kept."),
		stateSize: family("state_size_bytes", Gauge, "bytes",
			"Size of the files of the state. Absent where no state is kept."),
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

// Bounds of the exporter's own histograms. Scrape sizes are in bytes, 1 KiB to
// 256 MiB.
var (
	lagBounds        = []float64{0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1}
	scrapeBounds     = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	scrapeSizeBounds = prometheus.ExponentialBuckets(1<<10, 4, 10)
)

// Self holds the metrics of the exporter itself. It is safe for concurrent
// use.
type Self struct {
	endpoints, inFlight        prometheus.Gauge
	reloaded, reloadedAt       prometheus.Gauge
	rejected                   *prometheus.GaugeVec
	silent                     prometheus.Gauge
	missed, probes             *prometheus.CounterVec
	merged, imprecise          prometheus.Counter
	scheduleLag, readLag       prometheus.Histogram
	scrapeDuration, scrapeSize prometheus.Histogram
	registerer                 prometheus.Registerer
}

// NewSelf registers the exporter's own metrics with reg: those of Self, the
// build information, and client_golang's collectors of the Go runtime and the
// process. It panics where reg has one of them already.
func NewSelf(reg prometheus.Registerer) *Self {
	d := selfFamilies()
	s := &Self{
		endpoints:      prometheus.NewGauge(prometheus.GaugeOpts(d.endpoints.opts())),
		inFlight:       prometheus.NewGauge(prometheus.GaugeOpts(d.inFlight.opts())),
		reloaded:       prometheus.NewGauge(prometheus.GaugeOpts(d.reloaded.opts())),
		reloadedAt:     prometheus.NewGauge(prometheus.GaugeOpts(d.reloadedAt.opts())),
		silent:         prometheus.NewGauge(prometheus.GaugeOpts(d.silent.opts())),
		rejected:       prometheus.NewGaugeVec(prometheus.GaugeOpts(d.rejected.opts()), d.rejected.Labels),
		missed:         prometheus.NewCounterVec(prometheus.CounterOpts(d.missed.opts()), d.missed.Labels),
		probes:         prometheus.NewCounterVec(prometheus.CounterOpts(d.probes.opts()), d.probes.Labels),
		merged:         prometheus.NewCounter(prometheus.CounterOpts(d.merged.opts())),
		imprecise:      prometheus.NewCounter(prometheus.CounterOpts(d.imprecise.opts())),
		scheduleLag:    prometheus.NewHistogram(d.scheduleLag.histogramOpts(lagBounds)),
		readLag:        prometheus.NewHistogram(d.readLag.histogramOpts(lagBounds)),
		scrapeDuration: prometheus.NewHistogram(d.scrapeDuration.histogramOpts(scrapeBounds)),
		scrapeSize:     prometheus.NewHistogram(d.scrapeSize.histogramOpts(scrapeSizeBounds)),
		registerer:     reg,
	}
	for _, v := range d.missed.Values {
		s.missed.WithLabelValues(v)
	}
	for _, v := range d.rejected.Values {
		s.rejected.WithLabelValues(v)
	}
	for _, v := range d.probes.Values {
		s.probes.WithLabelValues(v)
	}
	reg.MustRegister(
		version.NewCollector(namePrefix+"exporter"),
		s.endpoints, s.inFlight, s.reloaded, s.reloadedAt, s.rejected, s.silent, s.missed, s.probes, s.merged, s.imprecise,
		s.scheduleLag, s.readLag, s.scrapeDuration, s.scrapeSize,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return s
}

// WatchDroppedSpans adds the count of lost trace spans, which is absent while
// traces are not exported. It must be called at most once.
func (s *Self) WatchDroppedSpans(dropped func() (n uint64, exporting bool)) {
	s.registerer.MustRegister(newExported(selfFamilies().droppedSpans, dropped))
}

// WatchPushes adds the counts of pushes of metrics that succeeded and failed, which are
// absent while metrics are not pushed. It must be called at most once.
func (s *Self) WatchPushes(pushes, failures func() (n uint64, exporting bool)) {
	d := selfFamilies()
	s.registerer.MustRegister(newExported(d.pushes, pushes), newExported(d.pushFailures, failures))
}

// WatchDroppedLogLines adds the count of lost lines of the log. It must be called
// at most once.
func (s *Self) WatchDroppedLogLines(dropped func() uint64) {
	f := selfFamilies().droppedLogLines
	s.registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts(f.opts()), func() float64 { return float64(dropped()) }))
}

// exportedCollector makes a counter that is absent while nothing is exported.
type exportedCollector struct {
	count func() (n uint64, exporting bool)
	desc  *prometheus.Desc
}

func newExported(f Family, count func() (n uint64, exporting bool)) *exportedCollector {
	return &exportedCollector{count, prometheus.NewDesc(f.Name, f.Help, nil, nil)}
}

// Describe implements prometheus.Collector.
func (c *exportedCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *exportedCollector) Collect(ch chan<- prometheus.Metric) {
	if n, exporting := c.count(); exporting {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n))
	}
}

// WatchBudget adds the used shares of the budgets of all endpoints together, as
// those of EndpointInfo.Budget. It must be called at most once.
func (s *Self) WatchBudget(used func() (tokens, usd float64)) {
	f := selfFamilies().budget
	desc := prometheus.V2.NewDesc(f.Name, f.Help, prometheus.UnconstrainedLabels(f.Labels), nil, prometheus.WithUnit(f.Unit))
	s.registerer.MustRegister(&budgetCollector{used, desc})
}

// budgetCollector makes the metrics of the global budget.
type budgetCollector struct {
	used func() (tokens, usd float64)
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *budgetCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *budgetCollector) Collect(ch chan<- prometheus.Metric) {
	for i, g := range budgetUse(c.used) {
		if g.present {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, g.value, budgetResources()[i])
		}
	}
}

// Observe takes from a result what concerns the exporter.
func (s *Self) Observe(r *result.Result) {
	if r.StartLag >= 0 {
		s.scheduleLag.Observe(r.StartLag.Seconds())
	}
	// A probe that received no token has nothing that a clock stamped.
	if len(r.Events) > 0 {
		s.probes.WithLabelValues(string(r.Clock)).Inc()
	}
	if r.Imprecise {
		s.imprecise.Inc()
	}
	s.merged.Add(float64(r.MergedEvents()))
	for i := range r.Events {
		if lag := r.Events[i].ReadLag; lag >= 0 {
			s.readLag.Observe(lag.Seconds())
		}
	}
}

// ProbeStarted counts a probe as in flight.
func (s *Self) ProbeStarted() { s.inFlight.Inc() }

// ProbeEnded ends what ProbeStarted began.
func (s *Self) ProbeEnded() { s.inFlight.Dec() }

// Missed counts a run that was due and did not happen.
func (s *Self) Missed(reason result.SkipReason) {
	if slices.Contains(result.SkipReasons(), reason) {
		s.missed.WithLabelValues(string(reason)).Inc()
	}
}

// SetEndpoints sets how many endpoints are looked at.
func (s *Self) SetEndpoints(n int) { s.endpoints.Set(float64(n)) }

// Reloaded records an attempt to load the configuration, the first one
// included: the time is when the active one was loaded.
func (s *Self) Reloaded(ok bool, at time.Time) {
	if !ok {
		s.reloaded.Set(0)
		return
	}
	s.reloaded.Set(1)
	s.reloadedAt.Set(float64(at.UnixMilli()) / 1e3)
}

// SetRejected sets how many discovered targets are no endpoints, by reason.
func (s *Self) SetRejected(n map[discovery.Reason]int) {
	for _, r := range discovery.Reasons() {
		s.rejected.WithLabelValues(string(r)).Set(float64(n[r]))
	}
}

// SetSilent sets how many sources of targets have not answered yet.
func (s *Self) SetSilent(n int) { s.silent.Set(float64(n)) }

// SetShard adds which part of the endpoints is this exporter's, of how many. It
// must be called at most once.
func (s *Self) SetShard(index, count int) {
	f := selfFamilies().shard
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts(f.opts()), f.Labels)
	g.WithLabelValues(strconv.Itoa(index), strconv.Itoa(count)).Set(1)
	s.registerer.MustRegister(g)
}

// Scraped observes one page of metrics: how long it took to write, and its
// size in bytes before compression.
func (s *Self) Scraped(d time.Duration, size int64) {
	s.scrapeDuration.Observe(d.Seconds())
	s.scrapeSize.Observe(float64(size))
}
