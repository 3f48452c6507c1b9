// Package otlp pushes over OTLP/HTTP: the page of metrics, beside it the client metrics of
// OpenTelemetry's semantic conventions for generative AI, and each result of a probe as the
// root span of the trace that the probe announced to the server. It sees what a Result says and
// nothing of prompts and answers.
package otlp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

const (
	// flushTimeout is how long the last push, or the spans that are left, may take at the end.
	flushTimeout = 500 * time.Millisecond
	// scope names what the points come from.
	scope = "github.com/inference-exporter/inference_exporter"
)

// Counts are the pushes so far. Exporters may share them.
type Counts struct {
	// Pushes are those that the receiver took as a whole, Failures the others.
	Pushes, Failures atomic.Uint64
}

// Options say what is pushed, and where.
type Options struct {
	// Endpoint is the receiver's base URL, as in http://host:4318. The path
	// /v1/metrics is added unless the URL ends in it.
	Endpoint string
	// Headers are sent with each request; their values may be secrets.
	Headers map[string]string
	// Interval is the time from the start of a push to that of the next.
	Interval time.Duration
	// Version is the exporter's own, for the attribute service.version.
	Version string
	// Page writes the page of metrics in Prometheus' delimited protobuf format.
	Page func(io.Writer) error
	// GenAI are the metrics beside the page.
	GenAI *GenAI
	// Counts counts the pushes.
	Counts *Counts
	// Logger logs when the receiver fails and when it is back.
	Logger *slog.Logger
}

// Exporter pushes the state of all metrics at each interval. They are cumulative, so that
// a push that fails is lost without loss: nothing is queued, and the next one has all.
type Exporter struct {
	Options
	receiver *Receiver
	resource *resourcepb.Resource
	failing  bool // the last push was lost; used by Run only
}

// New returns an exporter, which sends nothing until Run. The error is a
// receiver's URL that cannot be used; it does not repeat the URL.
func New(o Options) (*Exporter, error) {
	receiver, err := NewReceiver(o.Endpoint, "/v1/metrics", o.Headers)
	if err != nil {
		return nil, fmt.Errorf("set up metrics export: %w", err)
	}
	attributes := []*commonpb.KeyValue{
		text(string(semconv.ServiceNameKey), "inference_exporter"), text(string(semconv.ServiceVersionKey), o.Version),
	}
	if host, err := os.Hostname(); err == nil {
		attributes = append(attributes, text(string(semconv.ServiceInstanceIDKey), host))
	}
	return &Exporter{
		Options: o, receiver: receiver, resource: &resourcepb.Resource{Attributes: attributes},
	}, nil
}

// Run pushes until ctx ends, and once more within flushTimeout after that. It returns
// nil. It must be called once.
func (e *Exporter) Run(ctx context.Context) error {
	// A request that runs when ctx ends may use the time that is left, too.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTimeout, cancel) })()
	tick := time.NewTicker(e.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		e.push(sending)
	}
	return nil
}

// push sends the state of this moment. It counts how that went, and logs changes of it
// only.
func (e *Exporter) push(ctx context.Context) {
	requests, err := e.encode(time.Now())
	for _, body := range requests {
		if err == nil {
			err = e.receiver.Send(ctx, body)
		}
	}
	if err != nil {
		e.Counts.Failures.Add(1)
	} else {
		e.Counts.Pushes.Add(1)
	}
	switch {
	case err != nil && !e.failing:
		e.Logger.Warn("metrics export failing", "err", e.receiver.Line(err))
	case err == nil && e.failing:
		e.Logger.Info("metrics export recovered", "failures", e.Counts.Failures.Load())
	}
	e.failing = err != nil
}

// encode returns the bodies of the requests with the state of now. All of it is read
// before the first one is sent, so that a slow receiver does not make values differ in age.
func (e *Exporter) encode(now time.Time) (requests [][]byte, err error) {
	add := func(metrics []*metricspb.Metric) error {
		body, err := e.request(metrics)
		requests = append(requests, body)
		return err
	}
	at := uint64(now.UnixNano())
	p := &page{at: at, full: add}
	if err := e.Page(p); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if err := e.GenAI.metrics(at, add); err != nil {
		return nil, err
	}
	return requests, nil
}

// request returns the compressed body of a request. MetricsData has the form of
// ExportMetricsServiceRequest.
func (e *Exporter) request(metrics []*metricspb.Metric) ([]byte, error) {
	body, err := Body(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: e.resource, SchemaUrl: semconv.SchemaURL,
		ScopeMetrics: []*metricspb.ScopeMetrics{{
			Scope: &commonpb.InstrumentationScope{Name: scope, Version: e.Version}, Metrics: metrics, SchemaUrl: semconv.SchemaURL,
		}},
	}}})
	if err != nil {
		return nil, fmt.Errorf("make a request of metrics: %w", err)
	}
	return body, nil
}
