package app

import (
	"io"
	"log/slog"
	"reflect"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/otlp"
)

// pushes is the push of metrics that the active configuration asks for, if any. It is
// safe for concurrent use.
type pushes struct {
	sender[config.Metrics, *otlp.Exporter]
	logger *slog.Logger
	page   func(io.Writer) error
	genAI  *otlp.GenAI // nil before the first push was asked for
	counts otlp.Counts // of all exporters
}

func newPushes(logger *slog.Logger, page func(io.Writer) error) *pushes {
	p := &pushes{logger: logger, page: page}
	p.same = sameReceiver
	return p
}

// prepare returns the exporter for the settings; nil where they ask for none, or for what
// is active.
func (p *pushes) prepare(settings config.Metrics) (*otlp.Exporter, error) {
	if p.isActive(settings) || settings.OTLPEndpoint.URL == nil {
		return nil, nil
	}
	return otlp.New(otlp.Options{
		Endpoint: settings.OTLPEndpoint.String(), Headers: plainHeaders(settings.Headers), Interval: time.Duration(settings.Interval),
		Version: version.Version, Page: p.page, GenAI: p.clientMetrics(), Counts: &p.counts, Logger: p.logger,
	})
}

// sameReceiver reports whether two settings push to the same place as often.
func sameReceiver(a, b config.Metrics) bool {
	a.Compact = b.Compact
	return reflect.DeepEqual(a, b)
}

// clientMetrics returns where the client metrics are recorded, and begins with it.
func (p *pushes) clientMetrics() *otlp.GenAI {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.genAI == nil {
		p.genAI = otlp.NewGenAI()
	}
	return p.genAI
}

// recorded returns where the client metrics are recorded; nil without pushes.
func (p *pushes) recorded() *otlp.GenAI {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.genAI
}

// use makes next the export for the settings, as sender.use does, and drops the client
// metrics where there is none.
func (p *pushes) use(settings config.Metrics, next *otlp.Exporter) {
	p.sender.use(settings, next)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isSending() {
		p.genAI = nil
	}
}

// Observe implements fleet.Observer. It never waits for the receiver.
func (p *pushes) Observe(o *fleet.Observation) {
	if genAI := p.recorded(); genAI != nil {
		genAI.Observe(observed(o), o.Result)
	}
}

// retain drops what is kept of endpoints that are no longer looked at.
func (p *pushes) retain(endpoints []*config.Endpoint) {
	genAI := p.recorded()
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
