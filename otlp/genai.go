package otlp

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/tracing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// numBounds is how many bounds each histogram of the conventions has.
const numBounds = 14

// The bounds that the semantic conventions for generative AI ask for, in seconds and in
// tokens: docs/gen-ai/gen-ai-metrics.md of open-telemetry/semantic-conventions-genai.
var (
	secondBounds = [numBounds]float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokenBounds  = [numBounds]float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// maxText bounds the value of an attribute, in bytes.
const maxText = 256

// instrument is one of the conventions' client metrics.
type instrument int

const (
	duration instrument = iota
	timeToFirstChunk
	timePerOutputChunk
	tokenUsage
	numInstruments
)

// bounds returns the buckets of an instrument.
func (i instrument) bounds() *[numBounds]float64 {
	if i == tokenUsage {
		return &tokenBounds
	}
	return &secondBounds
}

// metric returns the metric of an instrument without points.
func (i instrument) metric() *metricspb.Metric {
	return [numInstruments]*metricspb.Metric{
		duration: {Name: "gen_ai.client.operation.duration", Unit: "s", Description: "GenAI operation duration."},
		timeToFirstChunk: {
			Name: "gen_ai.client.operation.time_to_first_chunk", Unit: "s",
			Description: "Time to receive the first chunk, measured from when the client issues the generation request to when the first chunk is received in the response stream.",
		},
		timePerOutputChunk: {
			Name: "gen_ai.client.operation.time_per_output_chunk", Unit: "s",
			Description: "Time per output chunk, recorded for each chunk received after the first one, measured as the time elapsed from the end of the previous chunk to the end of the current chunk.",
		},
		tokenUsage: {Name: "gen_ai.client.token.usage", Unit: "{token}", Description: "Number of input and output tokens used."},
	}[i]
}

// stream identifies a stream of points: the attributes of an instrument.
type stream struct {
	instrument                  instrument
	endpoint, module            string
	operation, provider, model  string
	address, errorType, purpose string // purpose is gen_ai.token.type
	port                        int
}

// distribution is the points of a stream so far.
type distribution struct {
	since  time.Time
	counts [numBounds + 1]uint64
	count  uint64
	sum    float64
}

func (d *distribution) observe(v float64, bounds *[numBounds]float64) {
	i, _ := slices.BinarySearch(bounds[:], v) // bounds are inclusive, as in Prometheus
	d.counts[i]++
	d.count++
	d.sum += v
}

// GenAI holds the client metrics of OpenTelemetry's semantic conventions for generative
// AI, recorded from the instants of probes by the conventions' definitions. It is safe for
// concurrent use.
type GenAI struct {
	mu      sync.Mutex
	streams map[stream]*distribution
}

// NewGenAI returns metrics without a point.
func NewGenAI() *GenAI { return &GenAI{streams: map[stream]*distribution{}} }

// Observe records a result. An operation that failed has a duration alone, with its
// outcome as the type of the error; one that the exporter ended itself has nothing, and
// one whose times are not reliable no time.
func (g *GenAI) Observe(t tracing.Target, r *result.Result) {
	if r.Outcome == result.Canceled {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := streamOf(t, r)
	g.dropOtherModels(s)
	for purpose, n := range map[string]int{"input": r.Tokens.Prompt, "output": r.Tokens.Output} {
		if n >= 0 && (purpose == "input" || r.Tokens.Source == result.TokensFromUsage) && r.Outcome == result.Success {
			s := s
			s.instrument, s.purpose = tokenUsage, purpose
			g.observe(s, float64(n), r.Start)
		}
	}
	if r.Imprecise {
		return
	}
	if r.Timing.Duration >= 0 {
		s := s
		if s.instrument = duration; r.Outcome != result.Success {
			s.errorType = string(r.Outcome)
		}
		g.observe(s, r.Timing.Duration.Seconds(), r.Start)
	}
	first := tracing.FirstChunk(r)
	if first < 0 {
		return
	}
	s.instrument = timeToFirstChunk
	g.observe(s, first.Seconds(), r.Start)
	s.instrument = timePerOutputChunk
	for i := 1; i < len(r.Events); i++ {
		g.observe(s, max(0, r.Events[i].At-r.Events[i-1].At).Seconds(), r.Start)
	}
}

// streamOf returns what the streams of a result have in common.
func streamOf(t tracing.Target, r *result.Result) stream {
	s := stream{
		endpoint: t.Endpoint, module: t.Module,
		operation: tracing.OperationOf(r), model: safetext.Line(r.Model, maxText),
	}
	if u, err := url.Parse(t.URL); err == nil {
		s.address, s.port = u.Hostname(), tracing.PortOf(u)
		s.provider = tracing.ProviderOf(u.Hostname())
	}
	if s.provider == "" {
		// The conventions require one, and name the flavour of an API by it where the
		// provider is not known.
		s.provider = flavourOf(r.API)
	}
	return s
}

// flavourOf returns the provider whose API a protocol is; "_OTHER" for none.
func flavourOf(protocol string) string {
	for prefix, provider := range map[string]string{"openai": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini", "bedrock": "aws.bedrock", "cohere": "cohere"} {
		if strings.HasPrefix(protocol, prefix) {
			return provider
		}
	}
	return "_OTHER"
}

// dropOtherModels drops the streams of models that an endpoint no longer serves, so that
// a server cannot have any number of them.
func (g *GenAI) dropOtherModels(now stream) {
	maps.DeleteFunc(g.streams, func(s stream, _ *distribution) bool {
		return s.endpoint == now.endpoint && s.module == now.module && now.model != "" && s.model != now.model
	})
}

func (g *GenAI) observe(s stream, v float64, at time.Time) {
	d := g.streams[s]
	if d == nil {
		d = &distribution{since: at}
		g.streams[s] = d
	}
	d.observe(v, s.instrument.bounds())
}

// Retain drops the streams of endpoints that are not kept.
func (g *GenAI) Retain(keep func(endpoint string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.streams, func(s stream, _ *distribution) bool { return !keep(s.endpoint) })
}

// metrics returns all points, those of one instrument together.
func (g *GenAI) metrics(at uint64) []*metricspb.Metric {
	g.mu.Lock()
	defer g.mu.Unlock()
	points := [numInstruments][]*metricspb.HistogramDataPoint{}
	for s, d := range g.streams {
		sum := d.sum // observed further while it is sent
		points[s.instrument] = append(points[s.instrument], &metricspb.HistogramDataPoint{
			Attributes: s.attributes(), StartTimeUnixNano: uint64(d.since.UnixNano()), TimeUnixNano: at,
			Count: d.count, Sum: &sum, BucketCounts: slices.Clone(d.counts[:]), ExplicitBounds: s.instrument.bounds()[:],
		})
	}
	var all []*metricspb.Metric
	for i := range numInstruments {
		if len(points[i]) > 0 {
			m := i.metric()
			m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
				AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, DataPoints: points[i],
			}}
			all = append(all, m)
		}
	}
	return all
}

// attributes returns those of the conventions, and the endpoint and its module, by which
// streams of one server stay apart.
func (s stream) attributes() []*commonpb.KeyValue {
	all := []*commonpb.KeyValue{
		text(string(semconv.GenAIOperationNameKey), s.operation), text(string(semconv.GenAIProviderNameKey), s.provider),
		text("inference_exporter.endpoint", s.endpoint), text("inference_exporter.module", s.module),
	}
	for key, value := range map[string]string{
		string(semconv.GenAIRequestModelKey): s.model, string(semconv.ServerAddressKey): s.address,
		string(semconv.ErrorTypeKey): s.errorType, string(semconv.GenAITokenTypeKey): s.purpose,
	} {
		if value != "" {
			all = append(all, text(key, value))
		}
	}
	if s.port > 0 {
		all = append(all, &commonpb.KeyValue{
			Key: string(semconv.ServerPortKey), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(s.port)}},
		})
	}
	return all
}
