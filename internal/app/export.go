package app

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/otlp"
)

// sender runs the exporter E that the active settings S ask for, if any. Its lock also
// guards what embeds it.
type sender[S any, E interface {
	comparable
	Run(context.Context) error
}] struct {
	same func(a, b S) bool // whether two settings send the same to the same place

	mu       sync.Mutex
	settings S
	current  E               // its zero value without export
	running  context.Context // of run; nil before it
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

// isActive reports whether settings change nothing.
func (s *sender[S, E]) isActive(settings S) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.same(settings, s.settings)
}

// use makes next the export for the settings, unless they are the active ones. What the
// one before still holds is sent.
func (s *sender[S, E]) use(settings S, next E) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.same(settings, s.settings) {
		return
	}
	if s.stop != nil {
		s.stop()
	}
	s.settings, s.current, s.stop = settings, next, nil
	if s.running != nil {
		s.start()
	}
}

// start runs the current exporter. The lock is held.
func (s *sender[S, E]) start() {
	if !s.isSending() {
		return
	}
	ctx, stop := context.WithCancel(s.running)
	s.stop = stop
	current := s.current
	s.ended.Go(func() { _ = current.Run(ctx) })
}

// run exports until ctx ends, and what is left soon after.
func (s *sender[S, E]) run(ctx context.Context) error {
	s.mu.Lock()
	s.running = ctx
	s.start()
	s.mu.Unlock()
	<-ctx.Done()
	s.ended.Wait()
	return nil
}

// isSending reports whether there is an export. The lock is held.
func (s *sender[S, E]) isSending() bool {
	var none E
	return s.current != none
}

// exporting reports whether there is an export.
func (s *sender[S, E]) exporting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isSending()
}

// plainHeaders returns headers as they are sent.
func plainHeaders(secrets map[string]promconfig.Secret) map[string]string {
	headers := make(map[string]string, len(secrets))
	for name, secret := range secrets {
		headers[name] = string(secret)
	}
	return headers
}

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

// traces is the export of traces that the active configuration asks for, if any.
// It is safe for concurrent use.
type traces struct {
	sender[config.Tracing, *otlp.Spans]
	logger  *slog.Logger
	dropped atomic.Uint64 // by all exporters
}

func newTraces(logger *slog.Logger) *traces {
	t := &traces{logger: logger}
	t.same = func(a, b config.Tracing) bool { return reflect.DeepEqual(a, b) }
	return t
}

// prepare returns the exporter for the settings; nil where they ask for none, or
// for what is active.
func (t *traces) prepare(settings config.Tracing) (*otlp.Spans, error) {
	if t.isActive(settings) || settings.OTLPEndpoint.URL == nil {
		return nil, nil
	}
	return otlp.NewSpans(context.Background(), otlp.SpanOptions{
		Endpoint: settings.OTLPEndpoint.String(), Headers: plainHeaders(settings.Headers), Version: version.Version,
		Dropped: &t.dropped, Logger: t.logger,
	})
}

// Observe implements fleet.Observer. It never blocks for long.
func (t *traces) Observe(o *fleet.Observation) {
	t.mu.Lock() // so that no exporter that has ended gets a span
	defer t.mu.Unlock()
	if t.isSending() {
		t.current.Observe(observed(o), o.Result)
	}
}

// observed returns what was probed, as exports describe it.
func observed(o *fleet.Observation) otlp.Target {
	return otlp.Target{
		Endpoint: o.Target.Endpoint.Name, Module: o.Target.Name, URL: o.Target.Endpoint.URL.String(), MaxTokens: o.Target.MaxOutput(),
	}
}

// Dropped counts the spans that were lost so far, by all exports; exporting reports
// whether there is one.
func (t *traces) Dropped() (n uint64, exporting bool) { return t.dropped.Load(), t.exporting() }
