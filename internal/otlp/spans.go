package otlp

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"

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

// Spans exports spans in batches. A span that cannot be sent at once, with
// its batch, is dropped and counted, and never held against a probe.
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

// Use exports by other settings from now on. Spans that wait still go to the receiver of their time.
// Calls must not be concurrent.
func (s *Spans) Use(settings config.Tracing) {
	if !reflect.DeepEqual(settings, s.settings) {
		s.settings = settings
		s.receiver.Store(newReceiver(settings.OTLPEndpoint, "/v1/traces", settings.Headers))
	}
}

// Dropped counts the spans that were lost: the queue was full, or the receiver did not take them.
// exporting reports whether there is a receiver.
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

// Run sends what is observed until ctx ends, and what is left within flushTimeout after that. It returns
// nil. It must be called once.
func (s *Spans) Run(ctx context.Context) error {
	sending, cancel := outlast(ctx)
	defer cancel()
	tick := time.NewTicker(batchInterval)
	defer tick.Stop()
	var b batch
	for ctx.Err() == nil {
		select {
		case next := <-s.queue:
			s.add(sending, &b, next)
		case <-tick.C:
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
