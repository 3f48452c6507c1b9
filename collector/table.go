package collector

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
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
	t.collect(func(name string, v float64, labels ...string) {
		f := t.families[name]
		kind := prometheus.GaugeValue
		if f.Type == Counter {
			kind = prometheus.CounterValue
		}
		for i, value := range labels { // some are texts of others
			labels[i] = strings.ToValidUTF8(value, "\uFFFD")
		}
		ch <- prometheus.MustNewConstMetric(f.desc, kind, v, labels...)
	})
}
