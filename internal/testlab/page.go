// Package testlab holds what the tests of the fleet and those of the whole program
// share: a page of metrics to look things up in, and servers that know what they were
// asked.
package testlab

import (
	"bytes"
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Page is a page of metrics.
type Page map[string]*dto.MetricFamily

// ParsePage reads a page in the text format.
func ParsePage(t *testing.T, text []byte) Page {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	got, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Sum adds the samples of a family whose labels include the given pairs, with
// the counts for histograms and summaries.
func (p Page) Sum(name string, labels ...string) float64 {
	total := 0.0
	for _, m := range p[name].GetMetric() {
		if HasLabels(m, labels) {
			total += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
		}
	}
	return total
}

// Has reports whether a family has a sample with the given labels.
func (p Page) Has(name string, labels ...string) bool {
	for _, m := range p[name].GetMetric() {
		if HasLabels(m, labels) {
			return true
		}
	}
	return false
}

// HasLabels reports whether a metric has these labels: names and values in turn.
func HasLabels(m *dto.Metric, pairs []string) bool {
	for i := 0; i < len(pairs); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == pairs[i] && l.GetValue() == pairs[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// Probes returns how many probes of an endpoint have ended.
func (p Page) Probes(endpoint string) float64 {
	return p.Sum("inference_probe_results_total", "endpoint", endpoint)
}

// WantSum compares the one sample of a family with the truth, within 1 %.
func WantSum(t *testing.T, p Page, family string, want float64) {
	t.Helper()
	if got := p.Sum(family); !p.Has(family) || math.Abs(got-want) > 0.01*want {
		t.Errorf("%s is %v (there: %t), want %v", family, got, p.Has(family), want)
	}
}
