package otlp

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// convert returns the metrics of a page by name, written in pieces of the given size.
func convert(t *testing.T, g prometheus.Gatherer, size int) (got map[string]*metricspb.Metric, batches int) {
	t.Helper()
	var b bytes.Buffer
	if err := pageOf(g)(&b); err != nil {
		t.Fatal(err)
	}
	got = map[string]*metricspb.Metric{}
	p := &page{at: 7e9, full: func(all []*metricspb.Metric) error {
		batches++
		for _, m := range all {
			got[m.Name] = m
		}
		return nil
	}}
	for piece := range slices.Chunk(b.Bytes(), size) {
		if _, err := p.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	return got, batches
}

// The expected buckets are computed from the observations by the definition of the data
// model: bucket i of scale s is (2^(i/2^s), 2^((i+1)/2^s)].
func TestEveryTypeOfMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "g_seconds", Help: "help of g", Unit: "seconds"}, []string{"a"})
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total", Help: "h"})
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "s", Help: "h", Objectives: map[float64]float64{0.5: 0.01}})
	classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h", Buckets: []float64{1, 2, 4}})
	native := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "n", Help: "h", Buckets: []float64{1, 2}, NativeHistogramBucketFactor: 1.1})
	registry.MustRegister(gauge, counter, summary, classic, native)
	gauge.WithLabelValues("x").Set(-1.5)
	gauge.WithLabelValues("y").Set(math.Inf(1))
	counter.Add(3)
	observations := []float64{0, 0.001, 0.25, 0.25, 1, 1.05, 2, 3, 700}
	for _, v := range observations {
		summary.Observe(v)
		classic.Observe(v)
		native.Observe(v)
	}
	native.(prometheus.ExemplarObserver).ObserveWithExemplar(1.5, prometheus.Labels{"trace_id": "0102030405060708090a0b0c0d0e0f10", "more": "m"})
	for _, size := range []int{1, 13, 1 << 20} {
		got, _ := convert(t, registry, size)
		if len(got) != 5 {
			t.Fatalf("%d metrics, want 5", len(got))
		}
		g := got["g_seconds"]
		if g.Unit != "s" || g.Description != "help of g" || g.Metadata[0].Value.GetStringValue() != "gauge" || len(g.GetGauge().DataPoints) != 2 {
			t.Errorf("gauge %v", g)
		}
		if p := g.GetGauge().DataPoints[0]; p.GetAsDouble() != -1.5 || p.TimeUnixNano != 7e9 || p.Attributes[0].Key != "a" || p.Attributes[0].Value.GetStringValue() != "x" {
			t.Errorf("point of a gauge %v", p)
		}
		c := got["c_total"].GetSum()
		if p := c.DataPoints[0]; !c.IsMonotonic || c.AggregationTemporality != 2 || p.GetAsDouble() != 3 || time.Since(time.Unix(0, int64(p.StartTimeUnixNano))).Abs() > time.Hour {
			t.Errorf("sum %v", c)
		}
		if p := got["s"].GetSummary().DataPoints[0]; p.Count != 9 || p.Sum != 707.551 || len(p.QuantileValues) != 1 || p.QuantileValues[0].Quantile != 0.5 {
			t.Errorf("summary %v", p)
		}
		h := got["h"].GetHistogram().DataPoints[0]
		if !cmp.Equal(h.ExplicitBounds, []float64{1, 2, 4}) || !cmp.Equal(h.BucketCounts, []uint64{5, 2, 1, 1}) || h.Count != 9 || h.GetSum() != 707.551 {
			t.Errorf("histogram %v", h)
		}
		n := got["n"].GetExponentialHistogram().DataPoints[0]
		want := map[int]uint64{}
		scale := math.Exp2(float64(n.Scale))
		for _, v := range append(observations, 1.5) {
			if v > 0 {
				want[int(math.Ceil(math.Log2(v)*scale))-1]++
			}
		}
		seen := map[int]uint64{}
		for i, count := range n.Positive.BucketCounts {
			if count > 0 {
				seen[int(n.Positive.Offset)+i] = count
			}
		}
		if diff := cmp.Diff(want, seen); diff != "" || n.ZeroCount != 1 || n.Count != 10 || n.Negative != nil {
			t.Errorf("exponential histogram %v:\n%s", n, diff)
		}
		x := n.Exemplars[0]
		if x.GetAsDouble() != 1.5 || len(x.TraceId) != 16 || x.TraceId[15] != 16 || len(x.FilteredAttributes) != 1 || x.TimeUnixNano == 0 {
			t.Errorf("exemplar %v", x)
		}
	}
}

// A family of very many points is not held at once.
func TestManyPointsAreDivided(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "g", Help: "h"}, []string{"a", "b"})
	registry.MustRegister(gauge)
	for i := range 2*maxPoints + 1 {
		gauge.WithLabelValues(string(rune('a'+i%20)), string(rune(0x4e00+i))).Set(1)
	}
	if _, batches := convert(t, registry, 4096); batches != 3 {
		t.Errorf("%d batches, want 3", batches)
	}
}

func TestCutPage(t *testing.T) {
	p := &page{full: func([]*metricspb.Metric) error { return nil }}
	if _, err := p.Write([]byte{5, 10}); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err == nil {
		t.Error("no error of a page that ends within a message")
	}
	if _, err := (&page{}).Write([]byte{2, 0xff, 0xff}); err == nil {
		t.Error("no error of a message that cannot be read")
	}
}

func TestUnits(t *testing.T) {
	for unit, want := range map[string]string{
		"": "", "seconds": "s", "bytes": "By", "ratio": "1", "bytes_per_second": "By/s", "tokens_per_second": "{tokens}/s", "usd_per_hour": "{usd}/h", "celsius": "Cel", "percent": "%",
	} {
		if got := unitOf(unit); got != want {
			t.Errorf("%s: %q, want %q", unit, got, want)
		}
	}
}
