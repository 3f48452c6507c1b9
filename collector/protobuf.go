package collector

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/inference-exporter/inference_exporter/internal/page"
)

// Field numbers of the messages of io.prometheus.client (metrics.proto of
// prometheus/client_model) and of google.protobuf.Timestamp.
const (
	fieldFamilyName   protowire.Number = 1
	fieldFamilyHelp   protowire.Number = 2
	fieldFamilyType   protowire.Number = 3
	fieldFamilyMetric protowire.Number = 4
	fieldFamilyUnit   protowire.Number = 5

	fieldMetricLabel     protowire.Number = 1
	fieldMetricGauge     protowire.Number = 2
	fieldMetricCounter   protowire.Number = 3
	fieldMetricSummary   protowire.Number = 4
	fieldMetricHistogram protowire.Number = 7

	fieldPairName  protowire.Number = 1
	fieldPairValue protowire.Number = 2

	fieldGaugeValue     protowire.Number = 1
	fieldCounterValue   protowire.Number = 1
	fieldCounterCreated protowire.Number = 3

	fieldSummaryCount   protowire.Number = 1
	fieldSummarySum     protowire.Number = 2
	fieldSummaryCreated protowire.Number = 4

	fieldHistogramCount         protowire.Number = 1
	fieldHistogramSum           protowire.Number = 2
	fieldHistogramBucket        protowire.Number = 3
	fieldHistogramSchema        protowire.Number = 5
	fieldHistogramZeroThreshold protowire.Number = 6
	fieldHistogramZeroCount     protowire.Number = 7
	fieldHistogramPositiveSpan  protowire.Number = 12
	fieldHistogramPositiveDelta protowire.Number = 13
	fieldHistogramCreated       protowire.Number = 15
	fieldHistogramExemplar      protowire.Number = 16

	fieldBucketCount    protowire.Number = 1
	fieldBucketBound    protowire.Number = 2
	fieldBucketExemplar protowire.Number = 3

	fieldSpanOffset protowire.Number = 1
	fieldSpanLength protowire.Number = 2

	fieldExemplarLabel     protowire.Number = 1
	fieldExemplarValue     protowire.Number = 2
	fieldExemplarTimestamp protowire.Number = 3

	fieldTimestampSeconds protowire.Number = 1
	fieldTimestampNanos   protowire.Number = 2
)

// maxSpanGap is how many empty buckets a span of a native histogram may hold in a row; client_golang's choice.
const maxSpanGap = 2

// protoEncoder writes delimited MetricFamily messages, the only format that carries native histograms. A family is one
// message with its length in front, so it is gathered whole before it is written.
type protoEncoder struct {
	output
	created time.Time
}

func (e *protoEncoder) begin(f *family) {
	e.f, e.buf = f, e.buf[:0]
}

func (e *protoEncoder) labels(b *labelBlock, created time.Time) { e.block, e.created = b, created }

func (e *protoEncoder) gauge(own int, v float64) {
	metric := e.metric(own)
	value := e.open(fieldMetricGauge)
	e.double(fieldGaugeValue, v)
	e.close(value, metric)
}

func (e *protoEncoder) counter(own int, v float64) {
	metric := e.metric(own)
	value := e.open(fieldMetricCounter)
	e.double(fieldCounterValue, v)
	e.createdAt(fieldCounterCreated)
	e.close(value, metric)
}

func (e *protoEncoder) summary(own int, sum float64, count uint64) {
	metric := e.metric(own)
	value := e.open(fieldMetricSummary)
	e.varint(fieldSummaryCount, count)
	e.double(fieldSummarySum, sum)
	e.createdAt(fieldSummaryCreated)
	e.close(value, metric)
}

func (e *protoEncoder) histogram(h *histogram) {
	metric := e.metric(0)
	value := e.open(fieldMetricHistogram)
	e.varint(fieldHistogramCount, h.count)
	e.double(fieldHistogramSum, h.sum)
	if e.compact {
		for i := range h.exemplars {
			e.exemplar(fieldHistogramExemplar, &h.exemplars[i])
		}
	} else {
		e.classic(h)
	}
	e.varint(fieldHistogramSchema, protowire.EncodeZigZag(int64(h.schema)))
	e.double(fieldHistogramZeroThreshold, nativeZeroThreshold)
	e.varint(fieldHistogramZeroCount, h.zero)
	e.native(h.sparse)
	e.createdAt(fieldHistogramCreated)
	e.close(value, metric)
}

// engineHistogram writes classic buckets only. The bucket of +Inf is implied.
func (e *protoEncoder) engineHistogram(h *page.Histogram) {
	metric := e.metric(0)
	value := e.open(fieldMetricHistogram)
	e.varint(fieldHistogramCount, h.Count)
	e.double(fieldHistogramSum, h.Sum)
	for i, bound := range h.Bounds {
		e.bucket(h.Counts[i], bound, nil)
	}
	e.createdAt(fieldHistogramCreated)
	e.close(value, metric)
}

func (e *protoEncoder) flush() {}

func (e *protoEncoder) end() {
	if len(e.buf) > 0 {
		e.write(protowire.AppendVarint(make([]byte, 0, binary.MaxVarintLen64), uint64(len(e.buf))))
		e.write(e.buf)
	}
}

// metric opens a Metric message and appends its labels.
func (e *protoEncoder) metric(own int) int {
	if len(e.buf) == 0 {
		e.buf = append(e.buf, e.f.proto...)
	}
	start := e.open(fieldFamilyMetric)
	at := e.block.at[e.f.own].proto
	e.buf = append(e.buf, e.block.proto[:at]...)
	e.buf = append(e.buf, e.f.pairs[own].proto...)
	e.buf = append(e.buf, e.block.proto[at:]...)
	return start
}

// classic appends the classic buckets. The one of +Inf is implied, unless it has an exemplar to carry.
func (e *protoEncoder) classic(h *histogram) {
	var cumulative uint64
	counts, exemplars := h.counts, h.exemplars
	for i, bound := range *h.bounds {
		if len(counts) > 0 && counts[0].key() == int32(i) {
			cumulative += counts[0].count()
			counts = counts[1:]
		}
		var x *exemplar
		if len(exemplars) > 0 && h.bucketOf(exemplars[0].value) == i {
			x, exemplars = &exemplars[0], exemplars[1:]
		}
		e.bucket(cumulative, bound, x)
	}
	if len(exemplars) > 0 {
		e.bucket(h.count, math.Inf(1), &exemplars[0])
	}
}

// bucket appends a classic bucket, with an exemplar unless that is nil.
func (e *protoEncoder) bucket(count uint64, bound float64, x *exemplar) {
	bucket := e.open(fieldHistogramBucket)
	e.varint(fieldBucketCount, count)
	e.double(fieldBucketBound, bound)
	if x != nil {
		e.exemplar(fieldBucketExemplar, x)
	}
	e.close(bucket)
}

// native appends sparse buckets: spans of neighbours, then for each bucket of
// the spans the difference to the one before it.
func (e *protoEncoder) native(buckets tally) {
	next := int32(0)
	for i := 0; i < len(buckets); {
		j := i + 1
		for j < len(buckets) && buckets[j].key()-buckets[j-1].key()-1 <= maxSpanGap {
			j++
		}
		last := buckets[j-1].key()
		span := e.open(fieldHistogramPositiveSpan)
		e.varint(fieldSpanOffset, protowire.EncodeZigZag(int64(buckets[i].key()-next)))
		e.varint(fieldSpanLength, uint64(last-buckets[i].key()+1))
		e.close(span)
		next, i = last+1, j
	}
	previous := uint64(0)
	delta := func(count uint64) {
		e.varint(fieldHistogramPositiveDelta, protowire.EncodeZigZag(int64(count-previous)))
		previous = count
	}
	for i, b := range buckets {
		if i > 0 {
			if gap := b.key() - buckets[i-1].key() - 1; gap <= maxSpanGap {
				for range gap {
					delta(0)
				}
			}
		}
		delta(b.count())
	}
}

// exemplar appends an exemplar, of a bucket or of a whole histogram.
func (e *protoEncoder) exemplar(field protowire.Number, x *exemplar) {
	start := e.open(field)
	label := e.open(fieldExemplarLabel)
	e.buf = appendString(e.buf, fieldPairName, "trace_id")
	e.buf = protowire.AppendTag(e.buf, fieldPairValue, protowire.BytesType)
	e.buf = protowire.AppendVarint(e.buf, uint64(hex.EncodedLen(len(x.trace))))
	e.buf = hex.AppendEncode(e.buf, x.trace[:])
	e.close(label)
	e.double(fieldExemplarValue, x.value)
	e.timestamp(fieldExemplarTimestamp, time.Unix(0, x.at))
	e.close(start)
}

// createdAt appends the created timestamp of the series where it is known.
func (e *protoEncoder) createdAt(field protowire.Number) {
	if !e.created.IsZero() {
		e.timestamp(field, e.created)
	}
}

// timestamp appends a google.protobuf.Timestamp.
func (e *protoEncoder) timestamp(field protowire.Number, t time.Time) {
	start := e.open(field)
	if s := t.Unix(); s != 0 {
		e.varint(fieldTimestampSeconds, uint64(s))
	}
	if ns := t.Nanosecond(); ns != 0 {
		e.varint(fieldTimestampNanos, uint64(ns))
	}
	e.close(start)
}

func (e *protoEncoder) varint(field protowire.Number, v uint64) {
	e.buf = protowire.AppendTag(e.buf, field, protowire.VarintType)
	e.buf = protowire.AppendVarint(e.buf, v)
}

func (e *protoEncoder) double(field protowire.Number, v float64) {
	e.buf = protowire.AppendTag(e.buf, field, protowire.Fixed64Type)
	e.buf = protowire.AppendFixed64(e.buf, math.Float64bits(v))
}

// open begins a message with one byte for its length, and returns where the message starts; close completes it.
func (e *protoEncoder) open(field protowire.Number) int {
	e.buf = protowire.AppendTag(e.buf, field, protowire.BytesType)
	e.buf = append(e.buf, 0)
	return len(e.buf)
}

// close writes the lengths of messages, the innermost first, by where they start, and makes room where one byte is too short.
func (e *protoEncoder) close(starts ...int) {
	for _, start := range starts {
		n := len(e.buf) - start
		extra := protowire.SizeVarint(uint64(n)) - 1
		for range extra {
			e.buf = append(e.buf, 0)
		}
		copy(e.buf[start+extra:], e.buf[start:start+n])
		protowire.AppendVarint(e.buf[:start-1], uint64(n))
	}
}

func appendString(b []byte, field protowire.Number, v string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, v)
}
