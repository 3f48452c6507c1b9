package otlp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

const (
	// queueSize is how many spans wait for the receiver at most; batchSize how many go out at once, and batchInterval
	// how long the first of them waits for the others.
	queueSize     = 1024
	batchSize     = 128
	batchInterval = 5 * time.Second
	// spanScope names what the spans come from. It is a former name: receivers group by it.
	spanScope = "github.com/inference-exporter/inference_exporter/internal/tracing"
)

// Spans exports spans in batches. A batch that cannot be sent at once is dropped, counted, and not held against a probe.
type Spans struct {
	logger   *slog.Logger
	resource *resourcepb.Resource
	settings config.Tracing           // in use
	receiver atomic.Pointer[receiver] // nil is none
	queue    chan queued
	dropped  atomic.Uint64
}

// queued is a span and the receiver that it is for.
type queued struct {
	span *tracepb.Span
	to   *receiver
}

// NewSpans returns an export without a receiver.
func NewSpans(version string, logger *slog.Logger) *Spans {
	return &Spans{logger: logger, resource: newResource(version), queue: make(chan queued, queueSize)}
}

// Use exports by other settings from now on, but for spans that wait. Calls must not be concurrent.
func (s *Spans) Use(settings config.Tracing) {
	if !reflect.DeepEqual(settings, s.settings) {
		s.settings = settings
		s.receiver.Store(newReceiver(settings.OTLPEndpoint, "/v1/traces", settings.Headers))
	}
}

// Dropped counts the spans that were lost: the queue was full, or no receiver took them. exporting: there is a receiver.
func (s *Spans) Dropped() (n uint64, exporting bool) {
	return s.dropped.Load(), s.receiver.Load() != nil
}

// Observe takes the result of a probe. It never blocks: when the queue is full, the span is dropped.
func (s *Spans) Observe(t Target, r *result.Result) {
	to := s.receiver.Load()
	if to == nil {
		return
	}
	select {
	case s.queue <- queued{newSpan(t, r), to}:
	default:
		s.dropped.Add(1)
	}
}

// batch is spans for one receiver.
type batch struct {
	to    *receiver
	spans []*tracepb.Span
}

// Run sends what is observed until ctx ends, and the rest within flushTimeout. It returns nil, and must be called once.
func (s *Spans) Run(ctx context.Context) error {
	sending, cancel := outlast(ctx)
	defer cancel()
	tick := time.Tick(batchInterval)
	var b batch
	for ctx.Err() == nil {
		select {
		case next := <-s.queue:
			s.add(sending, &b, next)
		case <-tick:
			s.send(sending, &b)
		case <-ctx.Done():
		}
	}
	s.flush(sending, &b)
	return nil
}

// flush sends a batch that was begun and what waits in the queue.
func (s *Spans) flush(ctx context.Context, b *batch) {
	for range len(s.queue) {
		s.add(ctx, b, <-s.queue)
	}
	s.send(ctx, b)
}

// add adds a span to a batch, and sends the batch where it is full or for another receiver.
func (s *Spans) add(ctx context.Context, b *batch, next queued) {
	if b.to != next.to {
		s.send(ctx, b)
		b.to = next.to
	}
	if b.spans = append(b.spans, next.span); len(b.spans) == batchSize {
		s.send(ctx, b)
	}
}

// send exports a batch or drops it, and empties it. TracesData has the form of ExportTraceServiceRequest.
func (s *Spans) send(ctx context.Context, b *batch) {
	if len(b.spans) == 0 {
		return
	}
	n := len(b.spans)
	body, err := bodyOf(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: s.resource, SchemaUrl: semconv.SchemaURL,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: spanScope}, Spans: b.spans}},
	}}})
	b.spans = nil
	if err == nil {
		err = b.to.send(ctx, body)
	}
	if err != nil {
		lost := uint64(n)
		if part, ok := errors.AsType[*rejectedError](err); ok {
			lost = min(lost, part.number)
		}
		s.dropped.Add(lost)
	}
	b.to.log(s.logger, "trace export", err, "dropped", s.dropped.Load())
}

// Target is what was probed.
type Target struct {
	// Endpoint and Module are the names in the configuration.
	Endpoint, Module string
	// URL is the endpoint's; host and port of it are exported.
	URL *url.URL
	// MaxTokens is the limit of the module on the answer; 0 is not known.
	MaxTokens int
}

const (
	// own is the prefix of attributes that no convention has.
	own = "inference_exporter."
	// maxReason bounds the reason of a failure, in bytes.
	maxReason = 1024
)

// newSpan returns the span of a result. Its ids are those that the probe sent in its traceparent: it is the trace's
// root, named by the first half of the trace id.
func newSpan(t Target, r *result.Result) *tracepb.Span {
	operation := operationOf(r)
	name := operation
	if r.Model != "" {
		name += " " + r.Model
	}
	const sampled = 1 // of the flags of W3C
	id := bytes.Clone(r.TraceID[:])
	return &tracepb.Span{
		TraceId: id, SpanId: id[:8], Kind: tracepb.Span_SPAN_KIND_CLIENT,
		Flags: sampled | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK),
		Name:  safetext.Line(name, maxReason), StartTimeUnixNano: at(r, 0),
		// Nothing is known of the end of a probe that sent no request.
		EndTimeUnixNano: at(r, max(0, r.Timing.Duration)),
		Attributes:      append(conventional(operation, t, r), ourOwn(t, r)...), Events: eventsOf(r), Status: statusOf(r),
	}
}

// at returns an instant of a probe, counted from its start, as Unix time in ns.
func at(r *result.Result, d time.Duration) uint64 { return uint64(max(0, r.Start.Add(d).UnixNano())) }

// failed reports whether a result counts against the endpoint.
func failed(r *result.Result) bool {
	return r.Outcome != result.Success && r.Outcome != result.Canceled
}

func statusOf(r *result.Result) *tracepb.Status {
	if !failed(r) {
		return new(tracepb.Status)
	}
	s := &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: string(r.Outcome)}
	if r.Err != nil {
		s.Message = safetext.Line(r.Err.Error(), maxReason)
	}
	return s
}

// conventional returns the attributes of the semantic conventions for generative AI clients, as far as they are known.
func conventional(operation string, t Target, r *result.Result) []*commonpb.KeyValue {
	as := keyValues{attributeOf(semconv.GenAIOperationNameKey, operation)}
	host, n, first := t.URL.Hostname(), r.Tokens, firstChunk(r)
	port, _ := strconv.Atoi(config.PortOf(t.URL)) // 0 is not known
	provider := providerOf(host)
	as.add(provider != "", semconv.GenAIProviderNameKey, provider)
	as.add(r.Model != "", semconv.GenAIRequestModelKey, safetext.Line(r.Model, maxReason))
	as.add(t.MaxTokens > 0 && isGeneration(r), semconv.GenAIRequestMaxTokensKey, t.MaxTokens)
	as.add(isGeneration(r), semconv.GenAIRequestStreamKey, true)
	as.add(r.Finish != "", semconv.GenAIResponseFinishReasonsKey, []string{r.Finish})
	as.add(n.Prompt >= 0, semconv.GenAIUsageInputTokensKey, n.Prompt)
	as.add(n.Cached >= 0, semconv.GenAIUsageCacheReadInputTokensKey, n.Cached)
	as.add(n.Output >= 0 && n.Source == result.TokensFromUsage, semconv.GenAIUsageOutputTokensKey, n.Output)
	as.add(n.Reasoning >= 0, semconv.GenAIUsageReasoningOutputTokensKey, n.Reasoning)
	as.add(host != "", semconv.ServerAddressKey, host)
	as.add(port > 0, semconv.ServerPortKey, port)
	as.add(r.Status > 0, semconv.HTTPResponseStatusCodeKey, r.Status)
	as.add(first >= 0, semconv.GenAIResponseTimeToFirstChunkKey, first.Seconds())
	as.add(failed(r), semconv.ErrorTypeKey, string(r.Outcome))
	return as
}

// firstChunk returns the time from when the client issues the request, before the connection is set up, to the first
// event with generated content, by the semantic conventions; Absent without a success whose times are reliable.
func firstChunk(r *result.Result) time.Duration {
	if r.Outcome != result.Success || r.Imprecise || !isGeneration(r) || len(r.Events) == 0 {
		return result.Absent
	}
	return r.Events[0].At
}

// ourOwn returns what no convention has a name for. Durations are in seconds; only a success has latencies.
func ourOwn(t Target, r *result.Result) []*commonpb.KeyValue {
	as := keyValues{
		attributeOf(own+"endpoint", safetext.Line(t.Endpoint, maxReason)),
		attributeOf(own+"module", safetext.Line(t.Module, maxReason)),
		attributeOf(own+"prefix", r.Prefix), attributeOf(own+"outcome", string(r.Outcome)), attributeOf(own+"clock", string(r.Clock)),
		attributeOf(own+"events", len(r.Events)), attributeOf(own+"merged_events", r.MergedEvents()),
		attributeOf(own+"connection_reused", r.Reused), attributeOf(own+"buffered", r.Buffered),
		attributeOf(own+"imprecise", r.Imprecise),
	}
	as.add(r.API != "", own+"api", r.API)
	as.add(r.Engine != "", own+"engine", r.Engine)
	as.add(r.Tokens.Source != "", own+"tokens_source", string(r.Tokens.Source))
	as.add(r.MoreEvents, own+"more_events_than_tokens", true)
	as.add(r.NoFinish, own+"no_finish_reason", true)
	as.add(r.MaxTokensIgnored, own+"max_tokens_ignored", true)
	if r.Outcome != result.Success {
		return as
	}
	for name, d := range map[attribute.Key]time.Duration{
		"ttft": r.Timing.TTFT, "ttfo": r.Timing.TTFO, "tpot": r.Timing.TPOT, "max_gap": r.Timing.MaxGap,
		"server.queue": r.Server.Queue, "server.prefill": r.Server.Prefill, "server.decode": r.Server.Decode,
	} {
		as.add(d >= 0, own+name, d.Seconds())
	}
	return as
}

// eventsOf returns the moments of a probe in order: the end of each phase reached, and the first token that a user sees.
func eventsOf(r *result.Result) []*tracepb.Span_Event {
	var events []*tracepb.Span_Event
	ends := [result.NumPhases]string{"dns done", "connected", "tls done", "request sent", "first byte", "first token", "last token", "reply ended"}
	reached := time.Duration(0)
	for p, d := range r.Timing.Phases {
		if d < 0 {
			continue
		}
		reached += d
		if output := firstOutput(r); result.Phase(p) == result.PhaseDecode && output >= 0 {
			events = append(events, &tracepb.Span_Event{Name: "first output", TimeUnixNano: at(r, output)})
		}
		events = append(events, &tracepb.Span_Event{Name: ends[p], TimeUnixNano: at(r, reached), Attributes: []*commonpb.KeyValue{
			attributeOf(own+"phase", result.Phase(p).String()), attributeOf(own+"phase_seconds", d.Seconds()),
		}})
	}
	return events
}

// firstOutput is when the first token that a user sees arrived, counted from Start; Absent without one.
func firstOutput(r *result.Result) time.Duration {
	if r.Timing.TTFO < 0 || r.Timing.TTFT < 0 || len(r.Events) == 0 {
		return result.Absent
	}
	return r.Events[0].At + r.Timing.TTFO - r.Timing.TTFT
}

// isGeneration reports whether the probe asked for text, as is assumed until the protocol is detected.
func isGeneration(r *result.Result) bool {
	return r.Kind == api.Generation || r.Kind == ""
}

// operationOf returns gen_ai.operation.name.
func operationOf(r *result.Result) string {
	p, _ := api.Lookup(r.API)
	return cmp.Or(p.Operation, api.OperationChat)
}

// providerOf returns gen_ai.provider.name of a hosted service by its host name; "" is not known, as of one's own server.
func providerOf(host string) string {
	h, _ := api.LookupHost(host)
	return h.Provider
}
