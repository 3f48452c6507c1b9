package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/internal/store"
)

// WatchState adds how the saves of the state went. It must be called at most once,
// and not where no state is kept.
func (s *Self) WatchState(stats func() store.Stats) {
	d := selfFamilies()
	desc := func(f Family) *prometheus.Desc {
		return prometheus.V2.NewDesc(f.Name, f.Help, prometheus.UnconstrainedLabels(f.Labels), nil, prometheus.WithUnit(f.Unit))
	}
	s.registerer.MustRegister(&stateCollector{stats, desc(d.stateSaved), desc(d.stateFailures), desc(d.stateSize)})
}

// stateCollector makes the metrics of the state's files.
type stateCollector struct {
	stats                 func() store.Stats
	saved, failures, size *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.saved
	ch <- c.failures
	ch <- c.size
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.stats()
	if !stats.SavedAt.IsZero() {
		ch <- prometheus.MustNewConstMetric(c.saved, prometheus.GaugeValue, float64(stats.SavedAt.UnixMilli())/1e3)
	}
	ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(stats.Failures))
	ch <- prometheus.MustNewConstMetric(c.size, prometheus.GaugeValue, float64(stats.Bytes))
}
