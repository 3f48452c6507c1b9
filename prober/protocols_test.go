package prober

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// The same module measures the same on every protocol: the simulated server
// speaks all of them in front of one engine.
func TestEveryProtocolAgainstTheSimulator(t *testing.T) {
	s, url := startSimulator(t)
	for _, name := range api.Names() {
		t.Run(name, func(t *testing.T) {
			m := newModule()
			m.OutputTokens, m.BatchSize = config.Tokens(24), 3
			cfg := newEndpoint(t, url)
			cfg.API, cfg.Model = name, "simulated-8b"
			if name == "cohere-embed" || name == "rerank" {
				cfg = newEndpoint(t, url+"/v2")
				cfg.API, cfg.Model = name, "simulated-8b"
			}
			p := newProber(t, cfg, m)
			for range 2 { // the second one knows the engine
				r := p.one(t.Context(), time.Time{})
				if r.Outcome != result.Success {
					t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
				}
				if r.Kind != api.Generation {
					checkVectors(t, name, r)
					continue
				}
				checkConsistent(t, r)
				checkGeneration(t, s, name, r)
			}
		})
	}
}

// checkGeneration compares a result with what the server did.
func checkGeneration(t *testing.T, s *simulator.Server, name string, r *result.Result) {
	t.Helper()
	rec, events := written(t, s, r)
	p, _ := api.Lookup(name)
	if r.Tokens.Output != rec.OutputTokens || r.Tokens.Output != 24 || r.Tokens.Source != result.TokensFromUsage {
		t.Errorf("tokens %+v, the server generated %d of 24", r.Tokens, rec.OutputTokens)
	}
	if r.Tokens.Prompt != rec.PromptTokens {
		t.Errorf("prompt of %d tokens, the server counted %d", r.Tokens.Prompt, rec.PromptTokens)
	}
	if p.Doc.Cached != "" && r.Tokens.Cached > rec.CachedTokens {
		t.Errorf("%d cached tokens, the server had %d", r.Tokens.Cached, rec.CachedTokens)
	}
	if len(r.Events) != len(events) {
		t.Fatalf("%d events, the server wrote %d", len(r.Events), len(events))
	}
	for i, e := range r.Events {
		if at := r.Start.Add(e.At); at.Before(events[i].At) {
			t.Errorf("event %d arrived %s before it was written", i, events[i].At.Sub(at))
		}
	}
	if r.Finish != "length" {
		t.Errorf("finish reason %q, want length", r.Finish)
	}
}

// checkVectors checks an answer of 3 vectors or scores.
func checkVectors(t *testing.T, name string, r *result.Result) {
	t.Helper()
	want := api.Vectors{Items: 3}
	if r.Kind == api.Embedding {
		want.Dimensions = 64
	}
	if r.Vectors.Items != want.Items || r.Vectors.Dimensions != want.Dimensions {
		t.Errorf("vectors %+v, want %+v", r.Vectors, want)
	}
	if d := r.Timing; d.TTFT >= 0 || d.TPOT >= 0 || d.Phases[result.PhaseDecode] >= 0 || d.Duration <= 0 {
		t.Errorf("timing %+v of an answer in one piece", d)
	}
	if len(r.Events) != 0 || r.Tokens.Output != api.Unknown && !strings.HasPrefix(name, "openai") {
		t.Errorf("%d events, tokens %+v", len(r.Events), r.Tokens)
	}
}
