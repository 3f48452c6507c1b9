package web

import (
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Info describes the process.
type Info struct {
	// Version and Revision are those of the build, Started when the process did, a Unix time.
	Version  string  `json:"version,omitempty"`
	Revision string  `json:"revision,omitempty"`
	Started  float64 `json:"started,omitempty"`
	// ConfigFile is where the configuration comes from; "" is from flags.
	ConfigFile string `json:"config_file,omitempty"`
	// ConfigLoaded is when the active configuration was read, a Unix time. ConfigOK
	// reports whether the latest reading was good, and ConfigError what was wrong.
	ConfigLoaded float64 `json:"config_loaded,omitempty"`
	ConfigOK     bool    `json:"config_ok"`
	ConfigError  string  `json:"config_error,omitempty"`
	// Shard is which part of the endpoints is probed here; nil is all of them.
	*Shard
	// Endpoints is how many endpoints are probed here.
	Endpoints int `json:"endpoints"`
}

// Shard is one of several parts of the endpoints, counted from 0.
type Shard struct {
	Index int `json:"shard_index"`
	Count int `json:"shard_count"`
}

// selfPage is the page about the process: GET /api/v1/self.
type selfPage struct {
	Info    Info         `json:"info"`
	Metrics []selfMetric `json:"metrics"`
}

// selfMetric is one series of the exporter about itself. A histogram or summary has Count, Mean and P99Bound, the
// others a Value; what is not known, or not a finite number, is left out.
type selfMetric struct {
	Name   string            `json:"name"`
	Help   string            `json:"help"`
	Type   string            `json:"type"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  *float64          `json:"value,omitempty"`
	Count  *uint64           `json:"count,omitempty"`
	Mean   *float64          `json:"mean,omitempty"`
	// P99Bound is the lowest bound of a bucket below which 99 % of the observations lie.
	P99Bound *float64 `json:"p99_bound,omitempty"`
}

func (a *api) serveSelf(w http.ResponseWriter, _ *http.Request) {
	families, err := a.Gatherer.Gather()
	if err != nil {
		a.fail(w, err)
		return
	}
	a.writeJSON(w, selfPage{Info: a.Info(), Metrics: selfMetrics(families)})
}

// aboutSelf reports whether the page shows a family, out of those that a Go program has.
func aboutSelf(name string) bool {
	ofGo := []string{"go_goroutines", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"}
	return slices.Contains(ofGo, name) || strings.HasPrefix(name, "inference_exporter_") || strings.HasPrefix(name, "prometheus_sd_")
}

func selfMetrics(families []*dto.MetricFamily) []selfMetric {
	metrics := []selfMetric{}
	for _, family := range families {
		if !aboutSelf(family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			shown := selfMetric{
				Name: family.GetName(), Help: family.GetHelp(), Type: strings.ToLower(family.GetType().String()), Labels: map[string]string{},
			}
			for _, l := range m.GetLabel() {
				shown.Labels[l.GetName()] = l.GetValue()
			}
			shown.measure(m)
			metrics = append(metrics, shown)
		}
	}
	return metrics
}

func (s *selfMetric) measure(m *dto.Metric) {
	switch {
	case m.GetGauge() != nil:
		s.Value = stats.Finite(m.GetGauge().GetValue())
	case m.GetCounter() != nil:
		s.Value = stats.Finite(m.GetCounter().GetValue())
	case m.GetHistogram() != nil:
		h := m.GetHistogram()
		s.Count, s.Mean = new(h.GetSampleCount()), stats.Finite(h.GetSampleSum()/float64(h.GetSampleCount()))
		s.P99Bound = p99Bound(h)
	case m.GetSummary() != nil:
		q := m.GetSummary()
		s.Count, s.Mean = new(q.GetSampleCount()), stats.Finite(q.GetSampleSum()/float64(q.GetSampleCount()))
	}
}

// p99Bound is nil without such a bound, as when too many observations lie above the last one.
func p99Bound(h *dto.Histogram) *float64 {
	if h.GetSampleCount() == 0 {
		return nil
	}
	i := slices.IndexFunc(h.GetBucket(), func(b *dto.Bucket) bool {
		return float64(b.GetCumulativeCount()) >= 0.99*float64(h.GetSampleCount())
	})
	if i < 0 {
		return nil
	}
	return stats.Finite(h.GetBucket()[i].GetUpperBound())
}
