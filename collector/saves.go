package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StateSaves are how the saves of the state that survives a restart went.
type StateSaves struct {
	// At is when the files were last known to be up to date; the zero time for never.
	At time.Time
	// Bytes is their size.
	Bytes int64
	// Failures counts the saves that failed.
	Failures uint64
}

// WatchState adds how the saves of the state went. It must be called at most once,
// and not where no state is kept.
func (s *Self) WatchState(saves func() StateSaves) {
	d := selfFamilies()
	desc := func(f Family) *prometheus.Desc {
		return prometheus.V2.NewDesc(f.Name, f.Help, prometheus.UnconstrainedLabels(f.Labels), nil, prometheus.WithUnit(f.Unit))
	}
	s.registerer.MustRegister(&stateCollector{saves, desc(d.stateSaved), desc(d.stateFailures), desc(d.stateSize)})
}

// stateCollector makes the metrics of the state's files.
type stateCollector struct {
	saves                 func() StateSaves
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
	s := c.saves()
	if !s.At.IsZero() {
		ch <- prometheus.MustNewConstMetric(c.saved, prometheus.GaugeValue, float64(s.At.UnixMilli())/1e3)
	}
	ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(s.Failures))
	ch <- prometheus.MustNewConstMetric(c.size, prometheus.GaugeValue, float64(s.Bytes))
}
