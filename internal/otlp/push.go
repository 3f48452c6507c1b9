// Package otlp pushes over OTLP/HTTP: the page of metrics, beside it the client metrics of OpenTelemetry's semantic
// conventions for generative AI, and each result of a probe as the root span of the trace that the probe announced to
// the server. It sees what a Result says and nothing of prompts and answers.
package otlp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"

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

// Metrics pushes the state of all metrics at each interval. They are cumulative, so that a push that
// fails is lost without loss: nothing is queued, and the next one has all.
type Metrics struct {
	version          string
	page             func(io.Writer) error
	logger           *slog.Logger
	resource         *resourcepb.Resource
	settings         config.Metrics // in use
	active           atomic.Pointer[push]
	pushes, failures atomic.Uint64
}

// push is what the settings in use ask for.
type push struct {
	receiver *receiver // nil is none
	interval time.Duration
	client   *clientMetrics // nil without a receiver
	replaced chan struct{}  // closed when other settings are in use
}

// NewMetrics returns an export without a receiver. page writes the page of metrics in Prometheus'
// delimited protobuf format.
func NewMetrics(version string, page func(io.Writer) error, logger *slog.Logger) *Metrics {
	resource := newResource(version)
	if host, err := os.Hostname(); err == nil {
		resource.Attributes = append(resource.Attributes, attributeOf(semconv.ServiceInstanceIDKey, host))
	}
	m := &Metrics{version: version, page: page, logger: logger, resource: resource}
	m.active.Store(&push{replaced: make(chan struct{})})
	return m
}

// newResource says what the metrics and the spans come from.
func newResource(version string) *resourcepb.Resource {
	return &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		attributeOf(semconv.ServiceNameKey, "inference_exporter"), attributeOf(semconv.ServiceVersionKey, version),
	}}
}

// Use pushes by other settings from now on. A receiver that is replaced gets a last push. Calls must not be concurrent.
func (m *Metrics) Use(settings config.Metrics) {
	settings.Compact = false // which concerns the page alone
	if reflect.DeepEqual(settings, m.settings) {
		return
	}
	m.settings = settings
	before := m.active.Load()
	next := &push{
		receiver: newReceiver(settings.OTLPEndpoint, "/v1/metrics", settings.Headers),
		interval: time.Duration(settings.Interval), replaced: make(chan struct{}),
	}
	if next.client = before.client; next.receiver == nil {
		next.client = nil
	} else if next.client == nil {
		next.client = newClientMetrics()
	}
	m.active.Store(next)
	close(before.replaced)
}

// Observe records the result of a probe for the client metrics. It never waits for the receiver.
func (m *Metrics) Observe(t Target, r *result.Result) {
	if client := m.active.Load().client; client != nil {
		client.observe(t, r)
	}
}

// Retain drops the client metrics of all endpoints but those of the given names.
func (m *Metrics) Retain(endpoints map[string]bool) {
	if client := m.active.Load().client; client != nil {
		client.retain(endpoints)
	}
}

// Pushes counts the pushes that a receiver took as a whole, and the others; exporting reports whether there is a receiver.
func (m *Metrics) Pushes() (succeeded, failed uint64, exporting bool) {
	return m.pushes.Load(), m.failures.Load(), m.active.Load().receiver != nil
}

// Run pushes until ctx ends, and once more within flushTimeout after that. It returns nil. It must be called once.
func (m *Metrics) Run(ctx context.Context) error {
	sending, cancel := outlast(ctx)
	defer cancel()
	for ctx.Err() == nil {
		p := m.active.Load()
		if p.receiver == nil {
			select {
			case <-p.replaced:
			case <-ctx.Done():
			}
			continue
		}
		m.pushEach(ctx, sending, p)
	}
	return nil
}

// pushEach pushes at each interval until ctx ends or p is replaced, and then once more.
func (m *Metrics) pushEach(ctx, sending context.Context, p *push) {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-p.replaced:
			last = true
		case <-ctx.Done():
			last = true
		}
		m.push(sending, p)
	}
}

// outlast returns a context that ends flushTimeout after ctx, so that a request that runs when ctx ends
// may use the time that is left, too.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(flushTimeout, cancel) })
	return sending, func() {
		stop()
		cancel()
	}
}

// push sends the state of this moment, and counts how that went.
func (m *Metrics) push(ctx context.Context, p *push) {
	requests, err := m.encode(time.Now(), p.client)
	for _, body := range requests {
		if err == nil {
			err = p.receiver.send(ctx, body)
		}
	}
	if err != nil {
		m.failures.Add(1)
	} else {
		m.pushes.Add(1)
	}
	p.receiver.log(m.logger, "metrics export", err, "failures", m.failures.Load())
}

// encode returns the bodies of the requests with the state of now. All of it is read
// before the first one is sent, so that a slow receiver does not make values differ in age.
func (m *Metrics) encode(now time.Time, client *clientMetrics) (requests [][]byte, err error) {
	p := &page{at: uint64(now.UnixNano()), full: func(metrics []*metricspb.Metric) error {
		body, err := m.request(metrics)
		requests = append(requests, body)
		return err
	}}
	if err := m.page(p); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if err := client.addTo(p); err != nil {
		return nil, err
	}
	err = p.end() // which may add a request
	return requests, err
}

// request returns the compressed body of a request. MetricsData has the form of ExportMetricsServiceRequest.
func (m *Metrics) request(metrics []*metricspb.Metric) ([]byte, error) {
	return bodyOf(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: m.resource, SchemaUrl: semconv.SchemaURL,
		ScopeMetrics: []*metricspb.ScopeMetrics{{
			Scope: &commonpb.InstrumentationScope{Name: scope, Version: m.version}, Metrics: metrics, SchemaUrl: semconv.SchemaURL,
		}},
	}}})
}
