package otlp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/otlp"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// TestLargeFleetIsTaken pushes the client metrics of ten thousand endpoints to a
// collector with its default limit on requests.
func TestLargeFleetIsTaken(t *testing.T) {
	const endpoints, streams = 10_000, 5 // duration, first chunk, further chunks, tokens in and out
	c := newCollector(t)
	e := otlp.NewMetrics("1", func(io.Writer) error { return nil }, slog.New(slog.NewTextHandler(t.Output(), nil)))
	e.Use(config.Metrics{OTLPEndpoint: config.URL{URL: &url.URL{Scheme: "http", Host: c.address}}, Interval: model.Duration(time.Second)})
	for i := range endpoints {
		e.Observe(otlp.Target{
			Endpoint: fmt.Sprintf("endpoint-%05d", i), Module: "interactive",
			URL: &url.URL{Scheme: "https", Host: fmt.Sprintf("endpoint-%05d.models.example.com", i), Path: "/v1"},
		}, &result.Result{
			Start: time.Now(), Outcome: result.Success, API: "openai-chat", Kind: api.Generation, Model: "meta-llama/Llama-3.1-8B-Instruct",
			Timing: result.Timing{Duration: time.Second}, Events: []result.Event{{At: time.Millisecond}, {At: time.Second}},
			Tokens: result.Tokens{Prompt: 100, Output: 36, Source: result.TokensFromUsage},
		})
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	pushed := func() uint64 {
		n, _, _ := e.Pushes()
		return n
	}
	failed := func() uint64 {
		_, n, _ := e.Pushes()
		return n
	}
	for pushed() == 0 && failed() == 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if pushed() == 0 {
		t.Fatalf("no push was taken, %d failed", failed())
	}
	seen, first := map[string]bool{}, stampOf(c.received()[0].metrics)
	for _, p := range c.received() {
		if stampOf(p.metrics).Equal(first) {
			for series := range ofPush(t, p.metrics) {
				seen[series] = true
			}
		}
	}
	if len(seen) != endpoints*streams {
		t.Errorf("%d streams were received, want %d", len(seen), endpoints*streams)
	}
}
