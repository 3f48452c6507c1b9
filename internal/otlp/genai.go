package otlp

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"

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

// owner is what streams of points belong to.
type owner struct{ endpoint, module string }

// stream identifies a stream of points of an owner: the instrument and its attributes.
type stream struct {
	instrument                  instrument
	operation, provider, model  string
	address, errorType, purpose string // purpose is gen_ai.token.type
	port                        int
}

// distribution is the points of a stream so far.
type distribution struct {
	stream
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

// clientMetrics holds the client metrics of OpenTelemetry's semantic conventions for generative AI, recorded from the
// instants of probes by the conventions' definitions. It is safe for concurrent use.
type clientMetrics struct {
	mu      sync.Mutex
	streams map[owner][]*distribution
}

// newClientMetrics returns metrics without a point.
func newClientMetrics() *clientMetrics { return &clientMetrics{streams: map[owner][]*distribution{}} }

// observe records a result. An operation that failed has a duration alone, with its outcome as the type of the error;
// one that the exporter ended itself has nothing, and one whose times are not reliable no time.
func (g *clientMetrics) observe(t Target, r *result.Result) {
	if r.Outcome == result.Canceled {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s, of := streamOf(t, r), owner{t.Endpoint, t.Module}
	g.dropOtherModels(of, s.model)
	for purpose, n := range map[string]int{"input": r.Tokens.Prompt, "output": r.Tokens.Output} {
		if n >= 0 && (purpose == "input" || r.Tokens.Source == result.TokensFromUsage) && r.Outcome == result.Success {
			s := s
			s.instrument, s.purpose = tokenUsage, purpose
			g.add(of, s, float64(n), r.Start)
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
		g.add(of, s, r.Timing.Duration.Seconds(), r.Start)
	}
	first := firstChunk(r)
	if first < 0 {
		return
	}
	s.instrument = timeToFirstChunk
	g.add(of, s, first.Seconds(), r.Start)
	s.instrument = timePerOutputChunk
	for i := 1; i < len(r.Events); i++ {
		g.add(of, s, max(0, r.Events[i].At-r.Events[i-1].At).Seconds(), r.Start)
	}
}

// streamOf returns what the streams of a result have in common.
func streamOf(t Target, r *result.Result) stream {
	s := stream{operation: operationOf(r), model: safetext.Line(r.Model, maxText)}
	s.address = t.URL.Hostname()
	s.port, _ = strconv.Atoi(config.PortOf(t.URL)) // 0 is not known
	// The conventions require a provider, and name the flavour of an API by it where it is not known.
	s.provider = cmp.Or(providerOf(s.address), flavourOf(r.API))
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

// dropOtherModels drops the streams of models that an owner no longer has: a server cannot have any number of them.
func (g *clientMetrics) dropOtherModels(of owner, model string) {
	if model != "" && len(g.streams[of]) > 0 {
		g.streams[of] = slices.DeleteFunc(g.streams[of], func(d *distribution) bool { return d.model != model })
	}
}

func (g *clientMetrics) add(of owner, s stream, v float64, at time.Time) {
	all := g.streams[of]
	i := slices.IndexFunc(all, func(d *distribution) bool { return d.stream == s })
	if i < 0 {
		i = len(all)
		all = append(all, &distribution{stream: s, since: at})
		g.streams[of] = all
	}
	all[i].observe(v, s.instrument.bounds())
}

// retain drops the streams of all endpoints but those.
func (g *clientMetrics) retain(endpoints map[string]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.streams, func(of owner, _ []*distribution) bool { return !endpoints[of.endpoint] })
}

// addTo adds all points to a page, those of one instrument after another. The error is that of its full.
func (g *clientMetrics) addTo(p *page) error {
	for i, points := range g.points(p.at) {
		for len(points) > 0 {
			n := min(maxPoints-p.points, len(points))
			m := instrument(i).metric()
			m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{AggregationTemporality: cumulative, DataPoints: points[:n]}}
			points = points[n:]
			p.metrics = append(p.metrics, m)
			if err := p.count(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// points returns copies of all points, by instrument.
func (g *clientMetrics) points(at uint64) (points [numInstruments][]*metricspb.HistogramDataPoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for of, all := range g.streams {
		for _, d := range all {
			points[d.instrument] = append(points[d.instrument], &metricspb.HistogramDataPoint{
				Attributes: d.attributes(of), StartTimeUnixNano: uint64(d.since.UnixNano()), TimeUnixNano: at,
				Count: d.count, Sum: new(d.sum), BucketCounts: slices.Clone(d.counts[:]), ExplicitBounds: d.instrument.bounds()[:],
			})
		}
	}
	return points
}

// attributes returns those of the conventions, and endpoint and module, by which streams of one server stay apart.
func (s stream) attributes(of owner) []*commonpb.KeyValue {
	all := keyValues{
		attributeOf(semconv.GenAIOperationNameKey, s.operation), attributeOf(semconv.GenAIProviderNameKey, s.provider),
		attributeOf(own+"endpoint", of.endpoint), attributeOf(own+"module", of.module),
	}
	all.add(s.model != "", semconv.GenAIRequestModelKey, s.model)
	all.add(s.address != "", semconv.ServerAddressKey, s.address)
	all.add(s.port > 0, semconv.ServerPortKey, s.port)
	all.add(s.errorType != "", semconv.ErrorTypeKey, s.errorType)
	all.add(s.purpose != "", semconv.GenAITokenTypeKey, s.purpose)
	return all
}
