package app

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/otlp"
	"github.com/inference-exporter/inference_exporter/tracing"
)

// pushes is the push of metrics that the active configuration asks for, if any. It is
// safe for concurrent use.
type pushes struct {
	logger *slog.Logger
	page   func(io.Writer) error

	mu       sync.Mutex
	settings config.Metrics
	current  *otlp.Exporter // nil without pushes
	genAI    *otlp.GenAI    // nil without pushes
	running  context.Context
	stop     context.CancelFunc
	ended    sync.WaitGroup
	counts   otlp.Counts // of all exporters
}

// prepare returns the exporter for the settings; nil where they ask for none, or for what
// is active.
func (p *pushes) prepare(settings config.Metrics) (*otlp.Exporter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sameReceiver(settings, p.settings) || settings.OTLPEndpoint.URL == nil {
		return nil, nil
	}
	if p.genAI == nil {
		p.genAI = otlp.NewGenAI()
	}
	headers := make(map[string]string, len(settings.Headers))
	for name, secret := range settings.Headers {
		headers[name] = string(secret)
	}
	return otlp.New(otlp.Options{
		Endpoint: settings.OTLPEndpoint.String(), Headers: headers, Interval: time.Duration(settings.Interval), Version: version.Version,
		Page: p.page, GenAI: p.genAI, Counts: &p.counts, Logger: p.logger,
	})
}

// sameReceiver reports whether two settings push to the same place as often.
func sameReceiver(a, b config.Metrics) bool {
	a.Compact = b.Compact
	return reflect.DeepEqual(a, b)
}

// use makes what prepare returned for the settings the export, unless they are the
// active ones.
func (p *pushes) use(settings config.Metrics, next *otlp.Exporter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sameReceiver(settings, p.settings) {
		return
	}
	if p.stop != nil {
		p.stop()
	}
	p.settings, p.current, p.stop = settings, next, nil
	if next == nil {
		p.genAI = nil
	}
	if p.running != nil {
		p.start()
	}
}

// start runs the current exporter. The lock is held.
func (p *pushes) start() {
	if p.current == nil {
		return
	}
	ctx, stop := context.WithCancel(p.running)
	p.stop = stop
	current := p.current
	p.ended.Go(func() { _ = current.Run(ctx) })
}

// run pushes until ctx ends, and once more soon after.
func (p *pushes) run(ctx context.Context) error {
	p.mu.Lock()
	p.running = ctx
	p.start()
	p.mu.Unlock()
	<-ctx.Done()
	p.ended.Wait()
	return nil
}

// Observe implements fleet.Observer. It never waits for the receiver.
func (p *pushes) Observe(o *fleet.Observation) {
	p.mu.Lock()
	genAI := p.genAI
	p.mu.Unlock()
	if genAI != nil {
		genAI.Observe(tracing.Target{
			Endpoint: o.Target.Endpoint.Name, Module: o.Target.Name, URL: o.Target.Endpoint.URL.String(), MaxTokens: o.Target.MaxOutput(),
		}, o.Result)
	}
}

// retain drops what is kept of endpoints that are no longer looked at.
func (p *pushes) retain(endpoints []*config.Endpoint) {
	p.mu.Lock()
	genAI := p.genAI
	p.mu.Unlock()
	if genAI == nil {
		return
	}
	names := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		names[e.Name] = true
	}
	genAI.Retain(func(name string) bool { return names[name] })
}

func (p *pushes) succeeded() (n uint64, exporting bool) { return p.counts.Pushes.Load(), p.exporting() }

func (p *pushes) failed() (n uint64, exporting bool) { return p.counts.Failures.Load(), p.exporting() }

// exporting reports whether metrics are pushed.
func (p *pushes) exporting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current != nil
}
