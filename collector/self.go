package collector

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/inference-exporter/inference_exporter/internal/discovery"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/store"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Bounds of the exporter's own histograms. Scrape sizes are in bytes, 1 KiB to 256 MiB.
var (
	lagBounds        = []float64{0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1}
	scrapeBounds     = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	scrapeSizeBounds = prometheus.ExponentialBuckets(1<<10, 4, 10)
)

// Self holds the metrics of the exporter itself. It is safe for concurrent use.
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

// NewSelf registers the exporter's own metrics with reg: those of Self, the build information, and client_golang's
// collectors of the Go runtime and the process. It panics where reg has one of them already.
func NewSelf(reg prometheus.Registerer) *Self {
	register := promauto.With(reg)
	gauge := func(name string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts(written("exporter_" + name).opts()))
	}
	counter := func(name string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts(written("exporter_" + name).opts()))
	}
	counters := func(name string) *prometheus.CounterVec { // all at zero
		f := written("exporter_" + name)
		vec := register.NewCounterVec(prometheus.CounterOpts(f.opts()), f.Labels)
		for _, v := range f.Values {
			vec.WithLabelValues(v)
		}
		return vec
	}
	histogram := func(name string, bounds []float64) prometheus.Histogram {
		return register.NewHistogram(written("exporter_" + name).histogramOpts(bounds))
	}
	rejected := written("exporter_discovery_rejected_targets")
	s := &Self{
		endpoints: gauge("endpoints"), inFlight: gauge("probes_in_flight"), silent: gauge("discovery_silent_sources"),
		reloaded: gauge("config_last_reload_successful"), reloadedAt: gauge("config_last_reload_success_timestamp_seconds"),
		rejected: register.NewGaugeVec(prometheus.GaugeOpts(rejected.opts()), rejected.Labels),
		missed:   counters("missed_runs_total"), probes: counters("probes_total"),
		merged: counter("merged_events_total"), imprecise: counter("imprecise_probes_total"),
		scheduleLag: histogram("schedule_lag_seconds", lagBounds), readLag: histogram("read_lag_seconds", lagBounds),
		scrapeDuration: histogram("scrape_duration_seconds", scrapeBounds), scrapeSize: histogram("scrape_size_bytes", scrapeSizeBounds),
		registerer: reg,
	}
	s.SetRejected(nil)
	reg.MustRegister(
		version.NewCollector(namePrefix+"exporter"), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return s
}

// watch adds families whose samples a function sends at each scrape.
func (s *Self) watch(collect func(*sender), names ...string) {
	families := stats.Map(names, func(name string) Family { return written("exporter_" + name) })
	s.registerer.MustRegister(newTable(families, collect))
}

// WatchExports adds the counts of lost trace spans and of pushes of metrics that succeeded and failed, which are absent while
// nothing is exported, and of lost lines of the log. It must be called at most once.
func (s *Self) WatchExports(lostSpans func() (n uint64, exporting bool), pushes func() (succeeded, failed uint64, exporting bool), lostLines func() uint64) {
	s.watch(func(s *sender) {
		if n, exporting := lostSpans(); exporting {
			s.send("exporter_spans_dropped_total", float64(n))
		}
		if succeeded, failed, exporting := pushes(); exporting {
			s.send("exporter_metrics_pushes_total", float64(succeeded))
			s.send("exporter_metrics_push_failures_total", float64(failed))
		}
		s.send("exporter_log_lines_dropped_total", float64(lostLines()))
	}, "spans_dropped_total", "metrics_pushes_total", "metrics_push_failures_total", "log_lines_dropped_total")
}

// WatchBudget adds the used shares of the budgets of all endpoints together, as
// those of EndpointInfo.Budget. It must be called at most once.
func (s *Self) WatchBudget(used func() (tokens, usd float64)) {
	s.watch(func(s *sender) {
		for i, share := range budgetUse(used) {
			s.sendKnown("exporter_budget_used_ratio", share, budgetResources()[i])
		}
	}, "budget_used_ratio")
}

// WatchState adds how the saves of the state went. It must be called at most once, and not where no state is kept.
func (s *Self) WatchState(saves func() store.Stats) {
	s.watch(func(s *sender) {
		latest := saves()
		s.sendKnown("exporter_state_saved_timestamp_seconds", workload.Unix(latest.At))
		s.send("exporter_state_save_failures_total", float64(latest.Failures))
		s.send("exporter_state_size_bytes", float64(latest.Bytes))
	}, "state_saved_timestamp_seconds", "state_save_failures_total", "state_size_bytes")
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

// ProbesInFlight adds to the number of probes in flight.
func (s *Self) ProbesInFlight(n float64) { s.inFlight.Add(n) }

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

// SetShard adds which part of the endpoints is this exporter's, of how many. It must be called at most once.
func (s *Self) SetShard(index, count int) {
	s.watch(func(s *sender) { s.send("exporter_shard_info", 1, strconv.Itoa(index), strconv.Itoa(count)) }, "shard_info")
}

// Scraped observes one page of metrics: how long it took to write, and its size in bytes before compression.
func (s *Self) Scraped(d time.Duration, size int64) {
	s.scrapeDuration.Observe(d.Seconds())
	s.scrapeSize.Observe(float64(size))
}
