package app

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/tracing"
)

// traces is the export of traces that the active configuration asks for, if any.
// It is safe for concurrent use.
type traces struct {
	logger *slog.Logger

	mu       sync.Mutex
	settings config.Tracing
	current  *tracing.Exporter // nil without export
	running  context.Context   // of run; nil before it
	stop     context.CancelFunc
	ended    sync.WaitGroup
	dropped  atomic.Uint64 // by all exporters
}

// prepare returns the exporter for the settings; nil where they ask for none, or
// for what is active.
func (t *traces) prepare(settings config.Tracing) (*tracing.Exporter, error) {
	t.mu.Lock()
	same := reflect.DeepEqual(settings, t.settings)
	t.mu.Unlock()
	if same || settings.OTLPEndpoint.URL == nil {
		return nil, nil
	}
	headers := make(map[string]string, len(settings.Headers))
	for name, secret := range settings.Headers {
		headers[name] = string(secret)
	}
	return tracing.New(context.Background(), tracing.Options{
		Endpoint: settings.OTLPEndpoint.String(), Headers: headers, Version: version.Version,
		Dropped: &t.dropped, Logger: t.logger,
	})
}

// use makes what prepare returned for the settings the export, unless they are
// the active ones. What the one before still holds is sent.
func (t *traces) use(settings config.Tracing, next *tracing.Exporter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if reflect.DeepEqual(settings, t.settings) {
		return
	}
	if t.stop != nil {
		t.stop()
	}
	t.settings, t.current, t.stop = settings, next, nil
	if t.running != nil {
		t.start()
	}
}

// start runs the current exporter. The lock is held.
func (t *traces) start() {
	if t.current == nil {
		return
	}
	ctx, stop := context.WithCancel(t.running)
	t.stop = stop
	current := t.current
	t.ended.Go(func() { _ = current.Run(ctx) })
}

// run exports until ctx ends, and what is left soon after.
func (t *traces) run(ctx context.Context) error {
	t.mu.Lock()
	t.running = ctx
	t.start()
	t.mu.Unlock()
	<-ctx.Done()
	t.ended.Wait()
	return nil
}

// Observe implements fleet.Observer. It never blocks for long.
func (t *traces) Observe(o *fleet.Observation) {
	t.mu.Lock() // so that no exporter that has ended gets a span
	defer t.mu.Unlock()
	if t.current != nil {
		t.current.Observe(tracing.Target{
			Endpoint: o.Target.Endpoint.Name, Module: o.Target.Name, URL: o.Target.Endpoint.URL.String(), MaxTokens: o.Target.MaxOutput(),
		}, o.Result)
	}
}

// Dropped counts the spans that were lost so far, by all exports; exporting reports
// whether there is one.
func (t *traces) Dropped() (n uint64, exporting bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped.Load(), t.current != nil
}
