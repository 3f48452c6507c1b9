// Package otlp checks what the exporter pushes by the receiver of the OpenTelemetry
// Collector, in this process and with its own defaults: it decodes and validates what it
// gets, and hands it to a consumer here.
package otlp

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

// push is a request with metrics that the receiver took.
type push struct {
	received time.Time
	metrics  pmetric.Metrics
}

// collector is a receiver and what came in.
type collector struct {
	t       *testing.T
	address string

	mu      sync.Mutex
	parts   []component.Component // of the receiver that runs
	refusal error                 // what the consumers return
	refused int                   // requests with metrics
	pushes  []push                // latest last
	spans   []ptrace.Span
}

// newCollector starts a receiver of OTLP over HTTP, which runs until the test ends.
func newCollector(t *testing.T) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{t: t, address: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.start()
	t.Cleanup(c.stop)
	return c
}

// start starts the receiver at its address.
func (c *collector) start() {
	c.t.Helper()
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	settings := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": c.address}}})
	if err := settings.Unmarshal(cfg); err != nil {
		c.t.Fatal(err)
	}
	set := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	takeMetrics, err := consumer.NewMetrics(c.takeMetrics)
	if err != nil {
		c.t.Fatal(err)
	}
	metrics, err := factory.CreateMetrics(c.t.Context(), set, cfg, takeMetrics)
	if err != nil {
		c.t.Fatal(err)
	}
	takeTraces, err := consumer.NewTraces(c.takeTraces)
	if err != nil {
		c.t.Fatal(err)
	}
	traces, err := factory.CreateTraces(c.t.Context(), set, cfg, takeTraces)
	if err != nil {
		c.t.Fatal(err)
	}
	c.parts = []component.Component{metrics, traces}
	for _, part := range c.parts {
		if err := part.Start(c.t.Context(), componenttest.NewNopHost()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// stop ends the receiver: connections to its address are refused.
func (c *collector) stop() {
	for _, part := range c.parts {
		if err := part.Shutdown(context.Background()); err != nil {
			c.t.Error(err)
		}
	}
	c.parts = nil
}

func (c *collector) takeMetrics(_ context.Context, m pmetric.Metrics) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal != nil {
		c.refused++
		return c.refusal
	}
	kept := pmetric.NewMetrics()
	m.CopyTo(kept)
	c.pushes = append(c.pushes, push{time.Now(), kept})
	return nil
}

func (c *collector) takeTraces(_ context.Context, all ptrace.Traces) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range all.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				kept := ptrace.NewSpan()
				s.CopyTo(kept)
				c.spans = append(c.spans, kept)
			}
		}
	}
	return nil
}

// refuse makes the pipeline behind the receiver return an error from now on; nil is none.
func (c *collector) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = err
}

// refusals returns how many requests with metrics were refused.
func (c *collector) refusals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// received returns the pushes so far, latest last.
func (c *collector) received() []push {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pushes)
}

// probes returns the spans so far.
func (c *collector) probes() []ptrace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}
