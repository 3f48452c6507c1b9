package discovery

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	promdiscovery "github.com/prometheus/prometheus/discovery"
)

// ownMetrics are those of the discovery by file and by HTTP, under the names and
// with the texts that they have in Prometheus.
type ownMetrics struct {
	httpFailures, readErrors, watcherErrors prometheus.Counter
	scans                                   prometheus.Summary
	read                                    *prometheus.GaugeVec // when a file was changed that was read
}

// newOwnMetrics registers them in place of those of Prometheus' own discovery.
func newOwnMetrics(registerer prometheus.Registerer, theirs *promdiscovery.SDMetrics) (*ownMetrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &ownMetrics{
		httpFailures:  counter("prometheus_sd_http_failures_total", "Number of HTTP service discovery refresh failures."),
		readErrors:    counter("prometheus_sd_file_read_errors_total", "The number of File-SD read errors."),
		watcherErrors: counter("prometheus_sd_file_watcher_errors_total", "The number of File-SD errors caused by filesystem watch failures."),
		scans: prometheus.NewSummary(prometheus.SummaryOpts{
			Name: "prometheus_sd_file_scan_duration_seconds", Help: "The duration of the File-SD scan in seconds.",
			Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
		}),
		read: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "prometheus_sd_file_mtime_seconds", Help: "Timestamp (mtime) of files read by FileSD. Timestamp is set at read time.",
		}, []string{"filename"}),
	}
	for _, mechanism := range []string{"file", "http"} {
		theirs.MechanismMetrics[mechanism].Unregister()
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.httpFailures, m.readErrors, m.watcherErrors, m.scans, m.read} {
		errs = append(errs, registerer.Register(c))
	}
	return m, errors.Join(errs...)
}
