package otlp

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/inference-exporter/inference_exporter/internal/stats"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// maxPoints bounds the data points of one request.
const maxPoints = 5000

// page turns a page of metrics in Prometheus' delimited protobuf format, which is
// written to it, into metrics of OTLP, by the rules of the OpenTelemetry specification on
// compatibility with Prometheus. Each time there are maxPoints of them it hands them on.
type page struct {
	at   uint64 // Unix time of the points in ns
	full func([]*metricspb.Metric) error

	size    int // of the message that follows; 0 is not known
	partial []byte
	metrics []*metricspb.Metric
	points  int
}

// Write takes a part of the page.
func (p *page) Write(b []byte) (int, error) {
	n := len(b)
	if len(p.partial) > 0 {
		p.partial = append(p.partial, b...)
		b = p.partial
	}
	for {
		if p.size == 0 {
			size, k := protowire.ConsumeVarint(b)
			if k < 0 {
				break
			}
			p.size, b = int(size), b[k:]
		}
		if len(b) < p.size {
			break
		}
		if err := p.family(b[:p.size]); err != nil {
			return 0, err
		}
		b, p.size = b[p.size:], 0
	}
	p.partial = append(p.partial[:0], b...)
	return n, nil
}

// end hands on what is left.
func (p *page) end() error {
	if len(p.partial) > 0 || p.size > 0 {
		return fmt.Errorf("read the page of metrics: it ends within a message")
	}
	return p.flush()
}

// count notes that points were added.
func (p *page) count(n int) error {
	if p.points += n; p.points < maxPoints {
		return nil
	}
	return p.flush()
}

func (p *page) flush() error {
	if p.points == 0 {
		return nil
	}
	metrics := p.metrics
	p.metrics, p.points = nil, 0
	return p.full(metrics)
}

// familyMetric is the number of the field metric of MetricFamily in metrics.proto of prometheus/client_model.
const familyMetric protowire.Number = 4

// family takes one MetricFamily, metric by metric, so that those of thousands of endpoints do not exist at once.
func (p *page) family(message []byte) error {
	var f dto.MetricFamily
	var m *metricspb.Metric
	err := eachField(message, func(number protowire.Number, field, _ []byte) error {
		if number == familyMetric {
			return nil
		}
		return proto.UnmarshalOptions{Merge: true}.Unmarshal(field, &f)
	})
	if err == nil {
		err = eachField(message, func(number protowire.Number, _, value []byte) error {
			if number != familyMetric {
				return nil
			}
			encoded, _ := protowire.ConsumeBytes(value)
			var metric dto.Metric
			if err := proto.Unmarshal(encoded, &metric); err != nil {
				return err
			}
			if m == nil {
				m = newMetric(&f, &metric)
				p.metrics = append(p.metrics, m)
			}
			addPoint(m, &metric, p.at)
			if p.points == maxPoints-1 {
				m = nil // it is handed on now
			}
			return p.count(1)
		})
	}
	if err != nil {
		return fmt.Errorf("read the family %s: %w", f.GetName(), err)
	}
	return nil
}

const cumulative = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// newMetric returns the metric of a family without points. like is one of its metrics: a histogram that has the native
// form is exponential, and the buckets of its classic form are left out.
func newMetric(f *dto.MetricFamily, like *dto.Metric) *metricspb.Metric {
	m := &metricspb.Metric{
		Name: f.GetName(), Description: f.GetHelp(), Unit: unitOf(f.GetUnit()),
		Metadata: []*commonpb.KeyValue{attributeOf("prometheus.type", strings.ToLower(f.GetType().String()))},
	}
	switch h := like.GetHistogram(); {
	case like.Counter != nil:
		m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{AggregationTemporality: cumulative, IsMonotonic: true}}
	case like.Summary != nil:
		m.Data = &metricspb.Metric_Summary{Summary: &metricspb.Summary{}}
	case h != nil && h.Schema != nil:
		m.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{AggregationTemporality: cumulative}}
	case h != nil:
		m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{AggregationTemporality: cumulative}}
	default:
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{}}
	}
	return m
}

// unitOf returns a unit of Prometheus as UCUM has it.
func unitOf(unit string) string {
	words := strings.Split(unit, "_per_")
	for i, w := range words {
		if short, ok := map[string]string{
			"seconds": "s", "second": "s", "percent": "%", "hour": "h", "bytes": "By", "ratio": "1", "celsius": "Cel", "watts": "W", "joules": "J", "hertz": "Hz",
		}[w]; ok {
			words[i] = short
		} else if w != "" {
			words[i] = "{" + w + "}"
		}
	}
	return strings.Join(words, "/")
}

// addPoint adds a metric of the family to its metric of OTLP. Without a created timestamp the start is left out.
func addPoint(m *metricspb.Metric, from *dto.Metric, at uint64) {
	attributes := stats.Map(from.Label, func(l *dto.LabelPair) *commonpb.KeyValue {
		return attributeOf(attribute.Key(l.GetName()), l.GetValue())
	})
	switch data := m.Data.(type) {
	case *metricspb.Metric_Gauge:
		data.Gauge.DataPoints = append(data.Gauge.DataPoints, &metricspb.NumberDataPoint{
			Attributes: attributes, TimeUnixNano: at, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: from.GetGauge().GetValue()},
		})
	case *metricspb.Metric_Sum:
		data.Sum.DataPoints = append(data.Sum.DataPoints, &metricspb.NumberDataPoint{
			Attributes: attributes, TimeUnixNano: at, StartTimeUnixNano: nanos(from.Counter.GetCreatedTimestamp()),
			Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: from.Counter.GetValue()},
		})
	case *metricspb.Metric_Summary:
		point := &metricspb.SummaryDataPoint{
			Attributes: attributes, TimeUnixNano: at, StartTimeUnixNano: nanos(from.Summary.GetCreatedTimestamp()),
			Count: from.Summary.GetSampleCount(), Sum: from.Summary.GetSampleSum(),
		}
		for _, q := range from.Summary.Quantile {
			point.QuantileValues = append(point.QuantileValues, &metricspb.SummaryDataPoint_ValueAtQuantile{Quantile: q.GetQuantile(), Value: q.GetValue()})
		}
		data.Summary.DataPoints = append(data.Summary.DataPoints, point)
	case *metricspb.Metric_ExponentialHistogram:
		point := exponential(from.Histogram, attributes, at)
		data.ExponentialHistogram.DataPoints = append(data.ExponentialHistogram.DataPoints, point)
	case *metricspb.Metric_Histogram:
		data.Histogram.DataPoints = append(data.Histogram.DataPoints, classic(from.Histogram, attributes, at))
	}
}

// classic returns the point of a histogram with bounds. Buckets of OTLP are not cumulative, and the last has no bound.
func classic(h *dto.Histogram, attributes []*commonpb.KeyValue, at uint64) *metricspb.HistogramDataPoint {
	point := &metricspb.HistogramDataPoint{
		Attributes: attributes, TimeUnixNano: at, StartTimeUnixNano: nanos(h.GetCreatedTimestamp()),
		Count: h.GetSampleCount(), Sum: h.SampleSum, Exemplars: exemplars(h),
	}
	below := uint64(0)
	for _, b := range h.Bucket {
		if !math.IsInf(b.GetUpperBound(), 1) {
			point.ExplicitBounds = append(point.ExplicitBounds, b.GetUpperBound())
			point.BucketCounts = append(point.BucketCounts, b.GetCumulativeCount()-below)
			below = b.GetCumulativeCount()
		}
	}
	point.BucketCounts = append(point.BucketCounts, point.Count-below)
	return point
}

// exponential returns the point of a native histogram: of one scale, bucket i of Prometheus ends at base^i, OTLP's begins there.
func exponential(h *dto.Histogram, attributes []*commonpb.KeyValue, at uint64) *metricspb.ExponentialHistogramDataPoint {
	return &metricspb.ExponentialHistogramDataPoint{
		Attributes: attributes, TimeUnixNano: at, StartTimeUnixNano: nanos(h.GetCreatedTimestamp()),
		Count: h.GetSampleCount(), Sum: h.SampleSum, Scale: h.GetSchema(),
		ZeroCount: h.GetZeroCount(), ZeroThreshold: h.GetZeroThreshold(),
		Positive: buckets(h.PositiveSpan, h.PositiveDelta), Negative: buckets(h.NegativeSpan, h.NegativeDelta),
		Exemplars: exemplars(h),
	}
}

// buckets returns the buckets of spans, with the gaps between them filled; nil for none.
func buckets(spans []*dto.BucketSpan, deltas []int64) *metricspb.ExponentialHistogramDataPoint_Buckets {
	if len(deltas) == 0 {
		return nil
	}
	b := &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: spans[0].GetOffset() - 1}
	count := int64(0)
	for i, s := range spans {
		if i > 0 {
			b.BucketCounts = append(b.BucketCounts, make([]uint64, s.GetOffset())...)
		}
		for range s.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			b.BucketCounts = append(b.BucketCounts, uint64(count))
		}
	}
	return b
}

// exemplars returns those of a histogram, in whichever form it has them.
func exemplars(h *dto.Histogram) []*metricspb.Exemplar {
	all := slices.Clone(h.Exemplars)
	for _, b := range h.Bucket {
		if b.Exemplar != nil {
			all = append(all, b.Exemplar)
		}
	}
	out := make([]*metricspb.Exemplar, len(all))
	for i, x := range all {
		out[i] = &metricspb.Exemplar{TimeUnixNano: nanos(x.GetTimestamp()), Value: &metricspb.Exemplar_AsDouble{AsDouble: x.GetValue()}}
		for _, l := range x.Label {
			if id, err := hex.DecodeString(l.GetValue()); l.GetName() == "trace_id" && err == nil {
				out[i].TraceId = id
				continue
			}
			out[i].FilteredAttributes = append(out[i].FilteredAttributes, attributeOf(attribute.Key(l.GetName()), l.GetValue()))
		}
	}
	return out
}

// nanos returns a timestamp as Unix time in ns; 0 for none.
func nanos(t interface{ AsTime() time.Time }) uint64 {
	if at := t.AsTime(); at.Unix() > 0 {
		return uint64(at.UnixNano())
	}
	return 0
}

// keyValues are attributes.
type keyValues []*commonpb.KeyValue

// add adds an attribute, if it is known.
func (a *keyValues) add(known bool, key attribute.Key, value any) {
	if known {
		*a = append(*a, attributeOf(key, value))
	}
}

// attributeOf returns an attribute, whose value is a text, an int, a float64, a bool or a list of texts.
func attributeOf(key attribute.Key, value any) *commonpb.KeyValue {
	v := new(commonpb.AnyValue)
	switch value := value.(type) {
	case string:
		v.Value = &commonpb.AnyValue_StringValue{StringValue: value}
	case int:
		v.Value = &commonpb.AnyValue_IntValue{IntValue: int64(value)}
	case float64:
		v.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: value}
	case bool:
		v.Value = &commonpb.AnyValue_BoolValue{BoolValue: value}
	case []string:
		values := stats.Map(value, func(text string) *commonpb.AnyValue { return attributeOf(key, text).Value })
		v.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: values}}
	}
	return &commonpb.KeyValue{Key: string(key), Value: v}
}
