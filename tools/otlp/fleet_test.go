package otlp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/otlp"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// TestLargeFleetIsTaken pushes the client metrics of ten thousand endpoints to a
// collector with its default limit on requests.
func TestLargeFleetIsTaken(t *testing.T) {
	const endpoints, streams = 10_000, 5 // duration, first chunk, further chunks, tokens in and out
	genAI := otlp.NewGenAI()
	for i := range endpoints {
		genAI.Observe(otlp.Target{
			Endpoint: fmt.Sprintf("endpoint-%05d", i), Module: "interactive", URL: fmt.Sprintf("https://endpoint-%05d.models.example.com/v1", i),
		}, &result.Result{
			Start: time.Now(), Outcome: result.Success, API: "openai-chat", Kind: api.Generation, Model: "meta-llama/Llama-3.1-8B-Instruct",
			Timing: result.Timing{Duration: time.Second}, Events: []result.Event{{At: time.Millisecond}, {At: time.Second}},
			Tokens: result.Tokens{Prompt: 100, Output: 36, Source: result.TokensFromUsage},
		})
	}
	c, counts := newCollector(t), new(otlp.Counts)
	e, err := otlp.New(otlp.Options{
		Endpoint: "http://" + c.address, Interval: time.Second, Version: "1", GenAI: genAI, Counts: counts,
		Page: func(io.Writer) error { return nil }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for counts.Pushes.Load() == 0 && counts.Failures.Load() == 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := counts.Pushes.Load(); n == 0 {
		t.Fatalf("no push was taken, %d failed", counts.Failures.Load())
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
