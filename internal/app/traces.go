package app

import (
	"context"
	"log/slog"
	"reflect"
	"sync/atomic"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/tracing"
)

// traces is the export of traces that the active configuration asks for, if any.
// It is safe for concurrent use.
type traces struct {
	sender[config.Tracing, *tracing.Exporter]
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
func (t *traces) prepare(settings config.Tracing) (*tracing.Exporter, error) {
	if t.isActive(settings) || settings.OTLPEndpoint.URL == nil {
		return nil, nil
	}
	return tracing.New(context.Background(), tracing.Options{
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
func observed(o *fleet.Observation) tracing.Target {
	return tracing.Target{
		Endpoint: o.Target.Endpoint.Name, Module: o.Target.Name, URL: o.Target.Endpoint.URL.String(), MaxTokens: o.Target.MaxOutput(),
	}
}

// Dropped counts the spans that were lost so far, by all exports; exporting reports
// whether there is one.
func (t *traces) Dropped() (n uint64, exporting bool) { return t.dropped.Load(), t.exporting() }
