package simulator

import (
	"bytes"
	"maps"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// metricsPage is the page with a server software's own metrics, as a table.
type metricsPage struct {
	path   string
	bounds bounds // of its histograms
	groups []group
}

// group is metrics with the same labels.
type group struct {
	scope    scope
	labels   func(*view) prometheus.Labels // nil is none
	families []family
}

// family is one metric, and what it shows of a view: numbers, or a histogram.
type family struct {
	name, help string
	kind       prometheus.ValueType
	label      string                         // beyond those of the group; "" is none
	numbers    func(*view) map[string]float64 // by the value of label
	histogram  func(*view) *histogram
	scale      float64 // from the histogram's unit to that of the page
}

func number(kind prometheus.ValueType, name, help string, value func(*view) float64) family {
	return family{name: name, help: help, kind: kind, numbers: func(v *view) map[string]float64 {
		return map[string]float64{"": value(v)}
	}}
}

func gauge(name, help string, value func(*view) float64) family {
	return number(prometheus.GaugeValue, name, help, value)
}

func counter(name, help string, value func(*view) float64) family {
	return number(prometheus.CounterValue, name, help, value)
}

// gauges is a metric with one more label; values are by its value.
func gauges(name, help, label string, values func(*view) map[string]float64) family {
	return family{name: name, help: help, kind: prometheus.GaugeValue, label: label, numbers: values}
}

func counters(name, help, label string, values func(*view) map[string]float64) family {
	return family{name: name, help: help, kind: prometheus.CounterValue, label: label, numbers: values}
}

// distribution is a histogram in the unit of the quantity.
func distribution(name, help string, q quantity) family {
	return family{name: name, help: help, scale: 1, histogram: func(v *view) *histogram { return &v.stats.observed[q] }}
}

// happened leaves out what is 0, for series that real servers make with the
// first event.
func happened(numbers map[string]float64) map[string]float64 {
	maps.DeleteFunc(numbers, func(_ string, n float64) bool { return n == 0 })
	return numbers
}

// withLabel adds a label with a constant value.
func withLabel(labels func(*view) prometheus.Labels, name, value string) func(*view) prometheus.Labels {
	return func(v *view) prometheus.Labels {
		l := labels(v)
		l[name] = value
		return l
	}
}

// collect sends the series of a view.
func (f *family) collect(ch chan<- prometheus.Metric, v *view, labels prometheus.Labels) {
	var names []string
	if f.label != "" {
		names = []string{f.label}
	}
	desc := prometheus.NewDesc(f.name, f.help, names, labels)
	if f.histogram != nil {
		h := f.histogram(v)
		ch <- prometheus.MustNewConstHistogram(desc, h.count(), h.sum*f.scale, h.cumulative(f.scale))
		return
	}
	for value, n := range f.numbers(v) {
		values := []string{value}[:len(names)]
		ch <- prometheus.MustNewConstMetric(desc, f.kind, n, values...)
	}
}

// pageHandler serves the metrics page of one server.
type pageHandler struct {
	s    *Server
	page *metricsPage

	mu     sync.Mutex
	before *stats // what the reading before saw; guarded by mu
}

func newPageHandler(s *Server, page *metricsPage) *pageHandler {
	empty := newStats(page.bounds)
	return &pageHandler{s: s, page: page, before: &empty}
}

// Describe sends nothing: which series there are, the state tells.
func (*pageHandler) Describe(chan<- *prometheus.Desc) {}

// Collect sends the state as of now. One reading follows the other, as some
// engines show what was since the last.
func (h *pageHandler) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	replicas := h.s.views()
	for _, v := range replicas {
		v.before = h.before
	}
	for _, g := range h.page.groups {
		for _, v := range g.scope(replicas) {
			var labels prometheus.Labels
			if g.labels != nil {
				labels = g.labels(v)
			}
			for i := range g.families {
				g.families[i].collect(ch, v, labels)
			}
		}
	}
	h.before = together(replicas)[0].stats
}

// ServeHTTP writes the page in the text format, which is all that these
// servers have in common.
func (h *pageHandler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(h)
	families, err := registry.Gather()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // the client is gone
}
