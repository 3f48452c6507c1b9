package web

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// selfJSON asks for the page about the exporter itself.
func selfJSON(t *testing.T, change func(*Options)) map[string]any {
	t.Helper()
	resp := newSiteWith(t, change).ask(http.MethodGet, "/api/v1/self")
	var page map[string]any
	if err := json.Unmarshal([]byte(readAll(t, resp.Body)), &page); err != nil {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	return page
}

func TestInfo(t *testing.T) {
	f := func(info Info, want map[string]any) {
		t.Helper()
		page := selfJSON(t, func(o *Options) { o.Info = func() Info { return info } })
		if diff := cmp.Diff(map[string]any{"info": want, "metrics": []any{}}, page); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	f(Info{ConfigOK: true}, map[string]any{"config_ok": true, "endpoints": 0.0})
	f(Info{
		Version: "1.2.3", Revision: "abc", Started: 1000.5,
		ConfigFile: "c.yml", ConfigLoaded: 2000, ConfigError: "c.yml:1: bad",
		Shard: &Shard{0, 3}, Endpoints: 7,
	}, map[string]any{
		"version": "1.2.3", "revision": "abc", "started": 1000.5,
		"config_file": "c.yml", "config_loaded": 2000.0, "config_ok": false, "config_error": "c.yml:1: bad",
		"shard_index": 0.0, "shard_count": 3.0, "endpoints": 7.0,
	})
	f(Info{}, map[string]any{"config_ok": false, "endpoints": 0.0})
}

// observed registers a histogram with the bounds 1, 2 and 5.
func observed(r prometheus.Registerer, name string, values map[float64]int) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: "h", Buckets: []float64{1, 2, 5}})
	r.MustRegister(h)
	for v, n := range values {
		for range n {
			h.Observe(v)
		}
	}
}

func TestMetricsOfSelf(t *testing.T) {
	r := prometheus.NewRegistry()
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "inference_exporter_a", Help: "A."}, []string{"x"})
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "prometheus_sd_b_total", Help: "B."})
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "prometheus_sd_c_seconds", Help: "C."})
	r.MustRegister(gauge, counter, summary, prometheus.NewGauge(prometheus.GaugeOpts{Name: "inference_probe_success", Help: "no"}))
	gauge.WithLabelValues("1").Set(1.5)
	gauge.WithLabelValues("2").Set(math.NaN())
	counter.Add(3)
	summary.Observe(1)
	summary.Observe(2)
	observed(r, "inference_exporter_h1", map[float64]int{0.5: 99, 3: 1})  // 99 of 100 up to 1
	observed(r, "inference_exporter_h2", map[float64]int{0.5: 98, 3: 2})  // 98 up to 2, all up to 5
	observed(r, "inference_exporter_h3", map[float64]int{0.5: 98, 10: 2}) // 98 up to 5
	observed(r, "inference_exporter_h4", nil)
	want := []any{
		map[string]any{"name": "inference_exporter_a", "help": "A.", "type": "gauge", "labels": map[string]any{"x": "1"}, "value": 1.5},
		map[string]any{"name": "inference_exporter_a", "help": "A.", "type": "gauge", "labels": map[string]any{"x": "2"}},
		map[string]any{"name": "inference_exporter_h1", "help": "h", "type": "histogram", "count": 100.0, "mean": 0.525, "p99_bound": 1.0},
		map[string]any{"name": "inference_exporter_h2", "help": "h", "type": "histogram", "count": 100.0, "mean": 0.55, "p99_bound": 5.0},
		map[string]any{"name": "inference_exporter_h3", "help": "h", "type": "histogram", "count": 100.0, "mean": 0.69},
		map[string]any{"name": "inference_exporter_h4", "help": "h", "type": "histogram", "count": 0.0},
		map[string]any{"name": "prometheus_sd_b_total", "help": "B.", "type": "counter", "value": 3.0},
		map[string]any{"name": "prometheus_sd_c_seconds", "help": "C.", "type": "summary", "count": 2.0, "mean": 1.5},
	}
	page := selfJSON(t, func(o *Options) { o.Gatherer = r })
	if diff := cmp.Diff(want, page["metrics"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of the metrics of every Go program the page shows four.
func TestMetricsOfTheProcess(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		got := selfMetrics([]*dto.MetricFamily{{Name: &name, Metric: []*dto.Metric{{}}}})
		if (len(got) == 1) != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	f("go_goroutines", true)
	f("process_cpu_seconds_total", true)
	f("process_open_fds", true)
	f("process_resident_memory_bytes", true)
	f("go_threads", false)
	f("go_gc_duration_seconds", false)
	f("process_max_fds", false)
	f("inference_probe_success", false)
	f("prometheus_build_info", false)
}

func TestSelfThatCannotBeGathered(t *testing.T) {
	s := newSiteWith(t, func(o *Options) {
		o.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("store on fire") })
	})
	if resp := s.ask(http.MethodGet, "/api/v1/self"); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", resp.StatusCode)
	}
}
