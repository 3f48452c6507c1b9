package prober

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
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
				checkGeneration(t, s, r)
			}
		})
	}
}

// checkGeneration compares a result with what the server did.
func checkGeneration(t *testing.T, s *simulator.Server, r *result.Result) {
	t.Helper()
	rec, events := written(t, s, r)
	if r.Tokens.Output != rec.OutputTokens || r.Tokens.Output != 24 || r.Tokens.Source != result.TokensFromUsage {
		t.Errorf("tokens %+v, the server generated %d of 24", r.Tokens, rec.OutputTokens)
	}
	if r.Tokens.Prompt != rec.PromptTokens {
		t.Errorf("prompt of %d tokens, the server counted %d", r.Tokens.Prompt, rec.PromptTokens)
	}
	if r.Tokens.Cached > rec.CachedTokens {
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

// written returns the token-bearing events that the server wrote for a probe.
func written(t testing.TB, s *simulator.Server, r *result.Result) (simulator.Record, []simulator.Event) {
	t.Helper()
	rec, ok := s.Request(hex.EncodeToString(r.TraceID[:]))
	if !ok {
		t.Fatal("the server knows nothing of the probe")
	}
	var events []simulator.Event
	for _, e := range rec.Events {
		if e.Tokens > 0 {
			events = append(events, e)
		}
	}
	return rec, events
}

// What a probe says is what the server did: as many tokens, and each of them
// received after it was written and before the next one was read.
func TestResultIsWhatTheServerDid(t *testing.T) {
	s, url := startSimulator(t)
	for _, c := range []config.Connection{config.ConnectionNew, config.ConnectionReuse} {
		m := newModule()
		m.Connection = c
		cfg := newEndpoint(t, url)
		cfg.Model = ""
		p := newProber(t, cfg, m)
		for range 3 {
			r := p.one(t.Context(), time.Time{})
			if r.Outcome != result.Success {
				t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
			}
			rec, events := written(t, s, r)
			if r.Tokens.Prompt != rec.PromptTokens || r.Tokens.Cached != rec.CachedTokens || r.Tokens.Output != rec.OutputTokens {
				t.Errorf("tokens %+v, the server counted %d, %d, %d", r.Tokens, rec.PromptTokens, rec.CachedTokens, rec.OutputTokens)
			}
			if len(r.Events) != len(events) {
				t.Fatalf("%d events, the server wrote %d", len(r.Events), len(events))
			}
			for i, e := range r.Events {
				if at := r.Start.Add(e.At); at.Before(events[i].At) {
					t.Errorf("event %d arrived %s before it was written", i, events[i].At.Sub(at))
				}
				if e.Tokens != events[i].Tokens {
					t.Errorf("event %d has %d tokens, the server wrote %d", i, e.Tokens, events[i].Tokens)
				}
				if r.Clock == result.ClockKernel && e.ReadLag < 0 {
					t.Errorf("event %d was read %s before it arrived", i, -e.ReadLag)
				}
			}
		}
	}
}

// The wanted length is reached by the server's own count within three probes.
func TestInputLengthIsReached(t *testing.T) {
	_, url := startSimulator(t)
	for _, prefix := range []config.Prefix{config.PrefixCold, config.PrefixWarm} {
		for _, target := range []int{128, 256, 4000} {
			m := newModule()
			m.InputTokens, m.OutputTokens, m.Prefix = config.Tokens(target), config.Tokens(2), prefix
			cfg := newEndpoint(t, url)
			cfg.Model = "simulated-8b"
			p := newProber(t, cfg, m)
			var r *result.Result
			for range 4 { // three to learn, one to show it
				r = p.one(t.Context(), time.Time{})
			}
			if r.Outcome != result.Success {
				t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
			}
			if off := float64(r.Tokens.Prompt)/float64(target) - 1; off < -0.05 || off > 0.05 {
				t.Errorf("%s prompt of %d tokens, want %d within 5 %%", prefix, r.Tokens.Prompt, target)
			}
			if prefix == config.PrefixCold && r.Tokens.Cached > 0 {
				t.Errorf("%d tokens of a cold prompt were cached", r.Tokens.Cached)
			}
			if prefix == config.PrefixWarm && r.Tokens.Cached < target/2 {
				t.Errorf("%d tokens of a warm prompt of %d were cached", r.Tokens.Cached, target)
			}
		}
	}
}
