package otlp

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// What metrics are in OTLP, by the names of the collector.
const (
	gauge       = "Gauge"
	sum         = "Sum Cumulative monotonic"
	summary     = "Summary"
	explicit    = "Histogram Cumulative"
	exponential = "ExponentialHistogram Cumulative"
)

// point is the value of a series, in a form that follows from a page of metrics and from
// a push alike.
type point struct {
	Name, Help, Unit string
	Prometheus       string // its type there, in lower case
	Type             string
	Start            int64   // in ns; 0 is not known
	Value            float64 // the sum of what has observations
	Count            uint64
	// Buckets are the observations by the upper bound of the bucket. Those of an
	// exponential histogram have observations.
	Buckets   map[float64]uint64
	Scale     int32
	Zero      uint64
	Threshold float64 // up to which Zero counts
	Quantiles map[float64]float64
	Exemplars []exemplar // by value
}

type exemplar struct {
	Value float64
	Trace string
	At    int64 // in ns
}

// grows reports whether the point is one of those that never fall.
func (p *point) grows() bool { return p.Type != gauge }

// key identifies a series by its name and labels.
func key(name string, labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for name, value := range labels {
		pairs = append(pairs, fmt.Sprintf("%s=%q", name, value))
	}
	slices.Sort(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// ofPage returns the points of a page by series.
func ofPage(families []*dto.MetricFamily) map[string]*point {
	all := map[string]*point{}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			p := &point{Name: f.GetName(), Help: f.GetHelp(), Unit: f.GetUnit(), Prometheus: strings.ToLower(f.GetType().String()), Type: gauge}
			switch {
			case m.Counter != nil:
				p.Type, p.Value, p.Start = sum, m.Counter.GetValue(), nanos(m.Counter.CreatedTimestamp)
			case m.Summary != nil:
				s := m.Summary
				p.Type, p.Value, p.Count, p.Start = summary, s.GetSampleSum(), s.GetSampleCount(), nanos(s.CreatedTimestamp)
				p.Quantiles = map[float64]float64{}
				for _, q := range s.Quantile {
					p.Quantiles[q.GetQuantile()] = q.GetValue()
				}
			case m.Histogram != nil:
				p.histogramOfPage(m.Histogram)
			case m.Untyped != nil:
				p.Value = m.Untyped.GetValue()
			default:
				p.Value = m.Gauge.GetValue()
			}
			all[key(f.GetName(), labels)] = p
		}
	}
	return all
}

// histogramOfPage sets what a histogram has. Of one that is classic and native at once it
// takes the native form.
func (p *point) histogramOfPage(h *dto.Histogram) {
	p.Value, p.Count, p.Start, p.Buckets = h.GetSampleSum(), h.GetSampleCount(), nanos(h.CreatedTimestamp), map[float64]uint64{}
	exemplars := slices.Clone(h.Exemplars)
	below, last := uint64(0), math.Inf(1)
	for _, b := range h.Bucket {
		if b.Exemplar != nil {
			exemplars = append(exemplars, b.Exemplar)
		}
		if h.Schema == nil && b.GetUpperBound() < last {
			p.Buckets[b.GetUpperBound()] = b.GetCumulativeCount() - below
			below = b.GetCumulativeCount()
		}
	}
	for _, x := range exemplars {
		e := exemplar{Value: x.GetValue(), At: nanos(x.Timestamp)}
		for _, l := range x.Label {
			e.Trace += l.GetValue()
		}
		p.Exemplars = append(p.Exemplars, e)
	}
	slices.SortFunc(p.Exemplars, func(a, b exemplar) int { return cmp.Compare(a.Value, b.Value) })
	if h.Schema == nil {
		p.Type = explicit
		p.Buckets[last] = p.Count - below
		return
	}
	p.Type, p.Scale, p.Zero, p.Threshold = exponential, h.GetSchema(), h.GetZeroCount(), h.GetZeroThreshold()
	index, n, next := int32(0), int64(0), 0
	for _, s := range h.PositiveSpan {
		index += s.GetOffset()
		for range s.GetLength() {
			if n += h.PositiveDelta[next]; n > 0 {
				p.Buckets[power(index, p.Scale)] = uint64(n) // bucket i ends at base^i
			}
			index++
			next++
		}
	}
}

// power returns the base of a scale to the power of n.
func power(n, scale int32) float64 { return math.Exp2(float64(n) * math.Exp2(-float64(scale))) }

// nanos returns a timestamp of a page in ns; 0 for none.
func nanos(t interface {
	GetSeconds() int64
	GetNanos() int32
},
) int64 {
	return t.GetSeconds()*1e9 + int64(t.GetNanos())
}

// ofPush returns the points of a push by series, and checks what all of them have in
// common.
func ofPush(t *testing.T, m pmetric.Metrics) map[string]*point {
	t.Helper()
	all := map[string]*point{}
	var at pcommon.Timestamp
	add := func(m pmetric.Metric, labels pcommon.Map, stamp, start pcommon.Timestamp, p point) {
		if at == 0 {
			at = stamp
		}
		if stamp != at || start > stamp {
			t.Errorf("%s: a point of %v since %v in a push of %v", m.Name(), stamp.AsTime(), start.AsTime(), at.AsTime())
		}
		p.Name, p.Help, p.Unit, p.Start = m.Name(), m.Description(), m.Unit(), int64(start)
		if as, ok := m.Metadata().Get("prometheus.type"); ok {
			p.Prometheus = as.AsString()
		}
		k := key(m.Name(), texts(labels))
		if all[k] != nil {
			t.Errorf("%s was pushed twice", k)
		}
		all[k] = &p
	}
	for _, resource := range m.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, m := range scope.Metrics().All() {
				pointsOf(m, add)
			}
		}
	}
	return all
}

// texts returns attributes as labels.
func texts(attributes pcommon.Map) map[string]string {
	labels := map[string]string{}
	for name, value := range attributes.All() {
		labels[name] = value.AsString()
	}
	return labels
}

// pointsOf calls add for each point of a metric.
func pointsOf(m pmetric.Metric, add func(m pmetric.Metric, labels pcommon.Map, at, start pcommon.Timestamp, p point)) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		for _, d := range m.Gauge().DataPoints().All() {
			add(m, d.Attributes(), d.Timestamp(), d.StartTimestamp(), point{Type: gauge, Value: d.DoubleValue()})
		}
	case pmetric.MetricTypeSum:
		kind := fmt.Sprintf("Sum %s", m.Sum().AggregationTemporality())
		if m.Sum().IsMonotonic() {
			kind += " monotonic"
		}
		for _, d := range m.Sum().DataPoints().All() {
			add(m, d.Attributes(), d.Timestamp(), d.StartTimestamp(), point{Type: kind, Value: d.DoubleValue()})
		}
	case pmetric.MetricTypeSummary:
		for _, d := range m.Summary().DataPoints().All() {
			p := point{Type: summary, Value: d.Sum(), Count: d.Count(), Quantiles: map[float64]float64{}}
			for _, q := range d.QuantileValues().All() {
				p.Quantiles[q.Quantile()] = q.Value()
			}
			add(m, d.Attributes(), d.Timestamp(), d.StartTimestamp(), p)
		}
	case pmetric.MetricTypeHistogram:
		for _, d := range m.Histogram().DataPoints().All() {
			p := point{Type: fmt.Sprintf("Histogram %s", m.Histogram().AggregationTemporality()), Value: d.Sum(), Count: d.Count()}
			p.Buckets = map[float64]uint64{}
			for i, n := range d.BucketCounts().All() {
				bound := math.Inf(1)
				if i < d.ExplicitBounds().Len() {
					bound = d.ExplicitBounds().At(i)
				}
				p.Buckets[bound] = n
			}
			p.Exemplars = exemplarsOf(d.Exemplars())
			add(m, d.Attributes(), d.Timestamp(), d.StartTimestamp(), p)
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, d := range m.ExponentialHistogram().DataPoints().All() {
			p := exponentialOf(d)
			p.Type = fmt.Sprintf("ExponentialHistogram %s", m.ExponentialHistogram().AggregationTemporality())
			add(m, d.Attributes(), d.Timestamp(), d.StartTimestamp(), p)
		}
	}
}

// exponentialOf returns the point of an exponential histogram: bucket i ends at
// base^(i+1), by OpenTelemetry's data model of metrics.
func exponentialOf(d pmetric.ExponentialHistogramDataPoint) point {
	p := point{
		Value: d.Sum(), Count: d.Count(), Scale: d.Scale(), Zero: d.ZeroCount(), Threshold: d.ZeroThreshold(),
		Buckets: map[float64]uint64{}, Exemplars: exemplarsOf(d.Exemplars()),
	}
	for i, n := range d.Positive().BucketCounts().All() {
		if n > 0 {
			p.Buckets[power(d.Positive().Offset()+int32(i)+1, d.Scale())] = n
		}
	}
	for i, n := range d.Negative().BucketCounts().All() {
		if n > 0 {
			p.Buckets[-power(d.Negative().Offset()+int32(i)+1, d.Scale())] = n
		}
	}
	return p
}

func exemplarsOf(all pmetric.ExemplarSlice) (out []exemplar) {
	for _, x := range all.All() {
		e := exemplar{Value: x.DoubleValue(), Trace: x.TraceID().String(), At: int64(x.Timestamp())}
		for _, v := range x.FilteredAttributes().All() {
			e.Trace += v.AsString()
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b exemplar) int { return cmp.Compare(a.Value, b.Value) })
	return out
}

// stampOf returns the time of a push's points.
func stampOf(m pmetric.Metrics) time.Time {
	var at time.Time
	for _, resource := range m.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, m := range scope.Metrics().All() {
				pointsOf(m, func(_ pmetric.Metric, _ pcommon.Map, stamp, _ pcommon.Timestamp, _ point) { at = stamp.AsTime() })
			}
		}
	}
	return at
}
