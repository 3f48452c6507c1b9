package main

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// page is a page of metrics, read by Prometheus' own library.
type page map[string]*dto.MetricFamily

func readPage(text []byte) (page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// sum adds up the samples of a series over all its labels but those given as
// name, value, name, value … The suffixes _sum and _count select a part of a
// histogram or summary. ok is false where there is no such sample.
func (p page) sum(series string, labels ...string) (total float64, ok bool) {
	name, part := series, ""
	family := p[name]
	for _, suffix := range []string{"_sum", "_count"} {
		if base, cut := strings.CutSuffix(series, suffix); family == nil && cut {
			family, part = p[base], suffix
		}
	}
	if family == nil {
		return 0, false
	}
	for _, m := range family.Metric {
		if hasLabels(m, labels) {
			total += valueOf(m, part)
			ok = true
		}
	}
	return total, ok
}

func hasLabels(m *dto.Metric, labels []string) bool {
	got := map[string]string{}
	for _, l := range m.Label {
		got[l.GetName()] = l.GetValue()
	}
	for pair := range slices.Chunk(labels, 2) {
		if got[pair[0]] != pair[1] {
			return false
		}
	}
	return true
}

func valueOf(m *dto.Metric, part string) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	case m.Histogram != nil && part == "_sum":
		return m.Histogram.GetSampleSum()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Summary != nil && part == "_sum":
		return m.Summary.GetSampleSum()
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount())
	}
	return math.NaN()
}

// differences compares each quantity of the exporter's page with the sum of
// the series that are said to hold it on the server's page; labels tell the
// server. checked is how
// many were on both.
func differences(exporter, server page, quantities map[string][]string, labels ...string) (checked int, wrong []string) {
	for _, quantity := range slices.Sorted(maps.Keys(quantities)) {
		var want float64
		var known bool
		for _, series := range quantities[quantity] {
			v, ok := server.sum(series)
			want += v
			known = known || ok
		}
		got, shown := exporter.sum("inference_server_"+quantity, labels...)
		switch {
		case known != shown:
			wrong = append(wrong, fmt.Sprintf("%s: shown is %t, on the page is %t", quantity, shown, known))
		case known && math.Abs(got-want) > 1e-9*math.Abs(want):
			wrong = append(wrong, fmt.Sprintf("%s is %g, on the page %g", quantity, got, want))
		case known:
			checked++
		}
	}
	return checked, wrong
}
