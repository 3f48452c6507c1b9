package collector

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/internal/page"
)

// described is a family for a registry.
type described struct {
	Family
	desc *prometheus.Desc
}

// describe returns families by their names without the prefix.
func describe(families []Family) map[string]*described {
	all := make(map[string]*described, len(families))
	for _, f := range families {
		desc := prometheus.V2.NewDesc(f.Name, f.Help, prometheus.UnconstrainedLabels(f.Labels), nil, prometheus.WithUnit(f.Unit))
		all[strings.TrimPrefix(f.Name, namePrefix)] = &described{f, desc}
	}
	return all
}

// send makes a sample of the family with a name, which comes without the prefix.
type send func(name string, v float64, labels ...string)

// table is a prometheus.Collector of families whose samples one function sends.
type table struct {
	families map[string]*described
	collect  func(send)
}

func newTable(families []Family, collect func(send)) *table {
	return &table{describe(families), collect}
}

// Describe implements prometheus.Collector.
func (t *table) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range t.families {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (t *table) Collect(ch chan<- prometheus.Metric) {
	t.collect(func(name string, v float64, labels ...string) { t.families[name].send(ch, v, labels) })
}

// send makes a sample.
func (f *described) send(ch chan<- prometheus.Metric, v float64, labels []string) {
	kind := prometheus.GaugeValue
	if f.Type == Counter {
		kind = prometheus.CounterValue
	}
	ch <- prometheus.MustNewConstMetric(f.desc, kind, v, validLabels(labels)...)
}

// sendHistogram makes a histogram with its bounds, or without.
func (f *described) sendHistogram(ch chan<- prometheus.Metric, h *page.Histogram, bounds bool, labels []string) {
	buckets := map[float64]uint64{}
	if bounds {
		for i, bound := range h.Bounds {
			buckets[bound] = h.Counts[i]
		}
	}
	ch <- prometheus.MustNewConstHistogram(f.desc, h.Count, h.Sum, buckets, validLabels(labels)...)
}

// validLabels returns the values of labels as a registry takes them. Some are texts of
// others.
func validLabels(values []string) []string {
	valid := make([]string, len(values))
	for i, v := range values {
		valid[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return valid
}
