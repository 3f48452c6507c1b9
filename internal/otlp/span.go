package otlp

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Target is what was probed.
type Target struct {
	// Endpoint and Module are the names in the configuration.
	Endpoint, Module string
	// URL is the endpoint's; host and port of it are exported.
	URL string
	// MaxTokens is the limit of the module on the answer; 0 is not known.
	MaxTokens int
}

const (
	// own is the prefix of attributes that no convention has.
	own = "inference_exporter."
	// maxReason bounds the reason of a failure, in bytes.
	maxReason = 1024
)

// span is a finished span that no tracer made. The embedded interface is nil and
// has the private method only: every other one is below.
type span struct {
	sdktrace.ReadOnlySpan
	name       string
	context    trace.SpanContext
	start, end time.Time
	attributes []attribute.KeyValue
	events     []sdktrace.Event
	status     sdktrace.Status
	resource   *resource.Resource
}

func (s *span) Name() string                     { return s.name }
func (s *span) SpanContext() trace.SpanContext   { return s.context }
func (s *span) Parent() trace.SpanContext        { return trace.SpanContext{} }
func (s *span) SpanKind() trace.SpanKind         { return trace.SpanKindClient }
func (s *span) StartTime() time.Time             { return s.start }
func (s *span) EndTime() time.Time               { return s.end }
func (s *span) Attributes() []attribute.KeyValue { return s.attributes }
func (s *span) Links() []sdktrace.Link           { return nil }
func (s *span) Events() []sdktrace.Event         { return s.events }
func (s *span) Status() sdktrace.Status          { return s.status }
func (s *span) Resource() *resource.Resource     { return s.resource }
func (s *span) DroppedAttributes() int           { return 0 }
func (s *span) DroppedLinks() int                { return 0 }
func (s *span) DroppedEvents() int               { return 0 }
func (s *span) ChildSpanCount() int              { return 0 }

func (s *span) InstrumentationScope() instrumentation.Scope {
	return instrumentation.Scope{Name: "github.com/inference-exporter/inference_exporter/internal/tracing"} // kept: receivers group by it
}

// InstrumentationLibrary is the former name of InstrumentationScope.
func (s *span) InstrumentationLibrary() instrumentation.Scope { return s.InstrumentationScope() }

// newSpan returns the span of a result. Its ids are those that the probe sent
// in its traceparent: it is the trace's root, named by the first half of the
// trace id.
func newSpan(res *resource.Resource, t Target, r *result.Result) *span {
	operation := OperationOf(r)
	name := operation
	if r.Model != "" {
		name += " " + r.Model
	}
	return &span{
		name: safetext.Line(name, maxReason),
		context: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: r.TraceID, SpanID: trace.SpanID(r.TraceID[:8]), TraceFlags: trace.FlagsSampled,
		}),
		start: r.Start,
		// Nothing is known of the end of a probe that sent no request.
		end:        r.Start.Add(max(0, r.Timing.Duration)),
		attributes: append(conventional(operation, t, r), ourOwn(t, r)...),
		events:     eventsOf(r),
		status:     statusOf(r),
		resource:   res,
	}
}

// failed reports whether a result counts against the endpoint.
func failed(r *result.Result) bool {
	return r.Outcome != result.Success && r.Outcome != result.Canceled
}

func statusOf(r *result.Result) sdktrace.Status {
	if !failed(r) {
		return sdktrace.Status{}
	}
	s := sdktrace.Status{Code: codes.Error, Description: string(r.Outcome)}
	if r.Err != nil {
		s.Description = safetext.Line(r.Err.Error(), maxReason)
	}
	return s
}

// conventional returns the attributes of the semantic conventions for
// generative AI clients, as far as they are known.
func conventional(operation string, t Target, r *result.Result) []attribute.KeyValue {
	u, err := url.Parse(t.URL)
	if err != nil {
		u = &url.URL{}
	}
	as := []attribute.KeyValue{semconv.GenAIOperationNameKey.String(operation)}
	add := func(known bool, a attribute.KeyValue) {
		if known {
			as = append(as, a)
		}
	}
	provider := ProviderOf(u.Hostname())
	add(provider != "", semconv.GenAIProviderNameKey.String(provider))
	add(r.Model != "", semconv.GenAIRequestModel(safetext.Line(r.Model, maxReason)))
	add(t.MaxTokens > 0 && isGeneration(r), semconv.GenAIRequestMaxTokens(t.MaxTokens))
	add(isGeneration(r), semconv.GenAIRequestStream(true))
	add(r.Finish != "", semconv.GenAIResponseFinishReasons(r.Finish))
	n := r.Tokens
	add(n.Prompt >= 0, semconv.GenAIUsageInputTokens(n.Prompt))
	add(n.Cached >= 0, semconv.GenAIUsageCacheReadInputTokens(n.Cached))
	add(n.Output >= 0 && n.Source == result.TokensFromUsage, semconv.GenAIUsageOutputTokens(n.Output))
	add(n.Reasoning >= 0, semconv.GenAIUsageReasoningOutputTokens(n.Reasoning))
	add(u.Hostname() != "", semconv.ServerAddress(u.Hostname()))
	port := PortOf(u)
	add(port > 0, semconv.ServerPort(port))
	add(r.Status > 0, semconv.HTTPResponseStatusCode(r.Status))
	first := FirstChunk(r)
	add(first >= 0, semconv.GenAIResponseTimeToFirstChunk(first.Seconds()))
	add(failed(r), semconv.ErrorTypeKey.String(string(r.Outcome)))
	return as
}

// FirstChunk returns the time from when the client issues the request, before the
// connection is set up, to the first event with generated content of a stream, by the
// semantic conventions; Absent without a success whose times are reliable.
func FirstChunk(r *result.Result) time.Duration {
	if r.Outcome != result.Success || r.Imprecise || !isGeneration(r) || len(r.Events) == 0 {
		return result.Absent
	}
	return r.Events[0].At
}

// PortOf returns the port of a URL, which may be that of its scheme; 0 is not
// known.
func PortOf(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	return map[string]int{"http": 80, "https": 443}[u.Scheme]
}

// ourOwn returns what no convention has a name for. Durations are in seconds
// and, as everywhere, only a success has latencies.
func ourOwn(t Target, r *result.Result) []attribute.KeyValue {
	as := []attribute.KeyValue{
		attribute.String(own+"endpoint", safetext.Line(t.Endpoint, maxReason)),
		attribute.String(own+"module", safetext.Line(t.Module, maxReason)),
		attribute.String(own+"prefix", r.Prefix),
		attribute.String(own+"outcome", string(r.Outcome)),
		attribute.String(own+"clock", string(r.Clock)),
		attribute.Int(own+"events", len(r.Events)),
		attribute.Int(own+"merged_events", r.MergedEvents()),
		attribute.Bool(own+"connection_reused", r.Reused),
		attribute.Bool(own+"buffered", r.Buffered),
		attribute.Bool(own+"imprecise", r.Imprecise),
	}
	if r.API != "" {
		as = append(as, attribute.String(own+"api", r.API))
	}
	if r.Engine != "" {
		as = append(as, attribute.String(own+"engine", r.Engine))
	}
	for name, is := range map[string]bool{
		"more_events_than_tokens": r.MoreEvents, "no_finish_reason": r.NoFinish, "max_tokens_ignored": r.MaxTokensIgnored,
	} {
		if is {
			as = append(as, attribute.Bool(own+name, true))
		}
	}
	if r.Tokens.Source != "" {
		as = append(as, attribute.String(own+"tokens_source", string(r.Tokens.Source)))
	}
	if r.Outcome != result.Success {
		return as
	}
	seconds := func(name string, d time.Duration) {
		if d >= 0 {
			as = append(as, attribute.Float64(own+name, d.Seconds()))
		}
	}
	seconds("ttft", r.Timing.TTFT)
	seconds("ttfo", r.Timing.TTFO)
	seconds("tpot", r.Timing.TPOT)
	seconds("max_gap", r.Timing.MaxGap)
	seconds("server.queue", r.Server.Queue)
	seconds("server.prefill", r.Server.Prefill)
	seconds("server.decode", r.Server.Decode)
	return as
}

// phaseEnds names the moment at which each phase ends.
func phaseEnds() [result.NumPhases]string {
	return [result.NumPhases]string{
		result.PhaseDNS:        "dns done",
		result.PhaseConnect:    "connected",
		result.PhaseTLS:        "tls done",
		result.PhaseWrite:      "request sent",
		result.PhaseFirstByte:  "first byte",
		result.PhaseFirstToken: "first token",
		result.PhaseDecode:     "last token",
		result.PhaseClose:      "reply ended",
	}
}

// eventsOf returns the moments of a probe in order: the end of each phase
// that it reached, and the first token that a user sees.
func eventsOf(r *result.Result) []sdktrace.Event {
	var events []sdktrace.Event
	names, at := phaseEnds(), time.Duration(0)
	for p, d := range r.Timing.Phases {
		if d < 0 {
			continue
		}
		at += d
		if output := firstOutput(r); result.Phase(p) == result.PhaseDecode && output >= 0 {
			events = append(events, sdktrace.Event{Name: "first output", Time: r.Start.Add(output)})
		}
		events = append(events, sdktrace.Event{Name: names[p], Time: r.Start.Add(at), Attributes: []attribute.KeyValue{
			attribute.String(own+"phase", result.Phase(p).String()),
			attribute.Float64(own+"phase_seconds", d.Seconds()),
		}})
	}
	return events
}

// firstOutput is when the first token that a user sees arrived, counted from
// Start; Absent without one.
func firstOutput(r *result.Result) time.Duration {
	if r.Timing.TTFO < 0 || r.Timing.TTFT < 0 || len(r.Events) == 0 {
		return result.Absent
	}
	return r.Events[0].At + r.Timing.TTFO - r.Timing.TTFT
}

// isGeneration reports whether the probe asked for text. Until the protocol is
// detected, a probe counts as one that does.
func isGeneration(r *result.Result) bool {
	return r.Kind == api.Generation || r.Kind == ""
}

// OperationOf returns gen_ai.operation.name.
func OperationOf(r *result.Result) string {
	p, _ := api.Lookup(r.API)
	return cmp.Or(p.Operation, api.OperationChat)
}

// ProviderOf returns gen_ai.provider.name of a hosted service by its host name;
// "" is not known, as with a server of one's own.
func ProviderOf(host string) string {
	h, _ := api.LookupHost(host)
	return h.Provider
}
