package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// queueSize is how many spans wait for the receiver at most; batchSize
	// how many go out at once, and batchInterval how long the first of them
	// waits for the others.
	queueSize     = 1024
	batchSize     = 128
	batchInterval = 5 * time.Second
)

// SpanOptions say where the spans go.
type SpanOptions struct {
	// Endpoint is the receiver's base URL, as in http://host:4318. The path
	// /v1/traces is added unless the URL ends in it.
	Endpoint string
	// Headers are sent with each request; their values may be secrets.
	Headers map[string]string
	// Version is the exporter's own, for the attribute service.version.
	Version string
	// Dropped counts the spans that were lost: the queue was full or the receiver
	// did not take them. Exporters may share it.
	Dropped *atomic.Uint64
	// Logger logs when the receiver fails and when it is back.
	Logger *slog.Logger
}

// Spans exports spans in batches. A span that cannot be sent at once, with
// its batch, is dropped and counted, and never held against a probe.
type Spans struct {
	spans    *otlptrace.Exporter
	receiver *Receiver
	resource *resource.Resource
	logger   *slog.Logger

	queue   chan sdktrace.ReadOnlySpan
	dropped *atomic.Uint64
	failing bool // the last batch was lost; used by Run only
}

// NewSpans returns an exporter, which sends nothing until Run. The error is a
// receiver's URL that cannot be used; it does not repeat the URL.
func NewSpans(ctx context.Context, o SpanOptions) (*Spans, error) {
	receiver, err := NewReceiver(o.Endpoint, "/v1/traces", o.Headers)
	if err != nil {
		return nil, fmt.Errorf("set up trace export: %w", err)
	}
	spans, err := otlptrace.New(ctx, upload{receiver})
	if err != nil {
		return nil, fmt.Errorf("set up trace export: %w", err)
	}
	return &Spans{
		spans: spans, receiver: receiver,
		resource: resource.NewWithAttributes(semconv.SchemaURL,
			semconv.ServiceName("inference_exporter"), semconv.ServiceVersion(o.Version)),
		dropped: o.Dropped,
		logger:  o.Logger,
		queue:   make(chan sdktrace.ReadOnlySpan, queueSize),
	}, nil
}

// Observe takes the result of a probe. It never blocks: when the queue is
// full, the span is dropped. It may be called by many goroutines, also while
// Run does not run.
func (e *Spans) Observe(t Target, r *result.Result) {
	select {
	case e.queue <- newSpan(e.resource, t, r):
	default:
		e.dropped.Add(1)
	}
}

// Run sends what is observed until ctx ends, and what is left within two
// seconds after that. It returns nil. It must be called once.
func (e *Spans) Run(ctx context.Context) error {
	// A request that runs when ctx ends may use the time that is left, too.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTimeout, cancel) })()

	tick := time.NewTicker(batchInterval)
	defer tick.Stop()
	batch := make([]sdktrace.ReadOnlySpan, 0, batchSize)
	for ctx.Err() == nil {
		select {
		case s := <-e.queue:
			if batch = append(batch, s); len(batch) < batchSize {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
		}
		e.send(sending, batch)
		batch = batch[:0]
	}
	e.flush(sending, batch)
	return nil
}

// flush sends a batch that was begun and what waits in the queue.
func (e *Spans) flush(ctx context.Context, batch []sdktrace.ReadOnlySpan) {
	for range len(e.queue) {
		if batch = append(batch, <-e.queue); len(batch) == batchSize {
			e.send(ctx, batch)
			batch = batch[:0]
		}
	}
	e.send(ctx, batch)
}

// send exports a batch or drops it. It logs changes of state only.
func (e *Spans) send(ctx context.Context, batch []sdktrace.ReadOnlySpan) {
	if len(batch) == 0 {
		return
	}
	err := e.spans.ExportSpans(ctx, batch)
	if err != nil {
		lost := uint64(len(batch))
		if part, ok := errors.AsType[*RejectedError](err); ok {
			lost = min(lost, part.Number)
		}
		e.dropped.Add(lost)
	}
	switch {
	case err != nil && !e.failing:
		e.logger.Warn("trace export failing", "spans", len(batch), "err", e.receiver.Line(err))
	case err == nil && e.failing:
		e.logger.Info("trace export recovered", "dropped", e.dropped.Load())
	}
	e.failing = err != nil
}
