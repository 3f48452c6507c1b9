package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

const ms = time.Millisecond

// good is a success of which everything holds: 5 tokens, 2 in the first event,
// the 3 others in 60 ms of decoding.
func good() *result.Result {
	return &result.Result{
		Outcome: result.Success, API: "openai-chat", Kind: api.Generation, Prefix: "cold",
		Timing: result.Timing{
			TTFT: 57 * ms, TTFO: 87 * ms, TPOT: 20 * ms, MaxGap: 30 * ms, Duration: 130 * ms,
			Phases: [result.NumPhases]time.Duration{result.Absent, 3 * ms, result.Absent, 1 * ms, 40 * ms, 16 * ms, 60 * ms, 10 * ms},
		},
		Events: []result.Event{{At: 60 * ms, Tokens: 2, Reasoning: true}, {At: 90 * ms, Tokens: 1}, {At: 120 * ms, Tokens: 2}},
		Tokens: result.Tokens{Prompt: 512, Cached: 16, Output: 5, Reasoning: 2, Source: result.TokensFromUsage},
	}
}

// vectors is a good reply of an embedding server.
func vectors() *result.Result {
	r := good()
	r.Kind, r.Events = api.Embedding, nil
	r.Vectors = api.Vectors{Items: batchSize, Dimensions: 768, Norm: 1}
	r.Tokens = result.Tokens{Prompt: 512, Cached: -1, Output: -1, Reasoning: -1}
	r.Timing = result.Timing{
		TTFT: -1, TTFO: -1, TPOT: -1, MaxGap: -1, Duration: 54 * ms,
		Phases: [result.NumPhases]time.Duration{-1, 3 * ms, -1, 1 * ms, 40 * ms, -1, -1, 10 * ms},
	}
	return r
}

func TestBroken(t *testing.T) {
	f := func(want string, of func() *result.Result, change func(*result.Result)) {
		t.Helper()
		r := of()
		change(r)
		got := strings.Join(broken(r), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("", good, func(*result.Result) {})
	f("", vectors, func(*result.Result) {})

	f("timeout_stall: silence", good, func(r *result.Result) { r.Outcome, r.Err = result.TimeoutStall, errors.New("silence") })

	// Phases add up, to the nanosecond.
	f("add up to 130ms, not", good, func(r *result.Result) { r.Timing.Duration++ })
	f("add up", good, func(r *result.Result) { r.Timing.Phases[result.PhaseTLS] = ms })

	// TTFT <= TTFO <= end to end.
	f("TTFT 0s", good, func(r *result.Result) { r.Timing.TTFT = 0 })
	f("after TTFO", good, func(r *result.Result) { r.Timing.TTFO = 56 * ms })
	f("after the end", good, func(r *result.Result) { r.Timing.TTFO = 131 * ms })
	f("", good, func(r *result.Result) { r.Timing.TTFO = result.Absent }) // reasoning only
	f("before its predecessor", good, func(r *result.Result) { r.Events[2].At = 89 * ms })
	f("last event", good, func(r *result.Result) { r.Events[2].At = 131 * ms })

	// Tokens: the prompt, and what is cached of it.
	f("517 cached tokens", good, func(r *result.Result) { r.Tokens.Cached = 517 })
	f("of a cold prompt", good, func(r *result.Result) { r.Tokens.Cached = 65 })
	f("", good, func(r *result.Result) { r.Tokens.Cached = 64 })
	f("", good, func(r *result.Result) { r.Prefix, r.Tokens.Cached = "warm", 512 })
	f("", good, func(r *result.Result) { r.Tokens.Prompt, r.Tokens.Cached = -1, -1 })
	f("prompt of 0", good, func(r *result.Result) { r.Tokens.Prompt, r.Tokens.Cached = 0, 0 })

	// Tokens: the answer, by usage within the bounds of the events.
	f("2 output tokens in 3 events", good, func(r *result.Result) { r.Tokens.Output = 2 })
	f("4 output tokens, 5 by the events", good, func(r *result.Result) { r.Tokens.Output = 4 })
	f("33 output tokens, at most 32", good, func(r *result.Result) { r.Tokens.Output = 33 })
	f("6 reasoning tokens of 5", good, func(r *result.Result) { r.Tokens.Reasoning = 6 })
	f("no event", good, func(r *result.Result) { r.Events = nil })

	// TPOT x (N - N1) is the decode time.
	f("TPOT 21ms times 3", good, func(r *result.Result) { r.Timing.TPOT = 21 * ms })
	f("TPOT 19.999999ms times 3", good, func(r *result.Result) { r.Timing.TPOT = 20*ms - 1 })
	f("TPOT -1ns", good, func(r *result.Result) { r.Timing.TPOT = result.Absent })
	f("", good, func(r *result.Result) { // 60 ms by 7 tokens has a remainder
		r.Tokens.Output, r.Timing.TPOT = 9, 60*ms/7
	})
	f("without tokens to pace", good, func(r *result.Result) { r.Buffered = true })
	f("", good, func(r *result.Result) { r.Buffered, r.Timing.TPOT = true, result.Absent })

	f("3 vectors or scores for 4", vectors, func(r *result.Result) { r.Vectors.Items = 3 })
	f("times of tokens", vectors, func(r *result.Result) { r.Timing.TTFT = ms })
}

func TestCompare(t *testing.T) {
	first := Figures{API: "a", Kind: api.Generation, Prompt: 512, Source: result.TokensFromUsage, TTFT: 200 * ms, TPOT: 20 * ms}
	f := func(want string, change func(*Figures)) {
		t.Helper()
		other := first
		other.API = "b"
		change(&other)
		var texts []string
		for _, p := range compare([]Figures{first, other}, DefaultLimits()) {
			texts = append(texts, p.String())
		}
		got := strings.Join(texts, "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("", func(*Figures) {})
	f("", func(f *Figures) { f.TTFT = 400 * ms })
	f("b: TTFT 401ms, by a 200ms", func(f *Figures) { f.TTFT = 401 * ms })
	f("b: TTFT 99ms", func(f *Figures) { f.TTFT = 99 * ms })
	f("", func(f *Figures) { f.TTFT = result.Absent })
	f("", func(f *Figures) { f.TPOT = 30 * ms })
	f("", func(f *Figures) { f.TPOT = 15 * ms }) // 5 ms
	f("b: TPOT 31ms", func(f *Figures) { f.TPOT = 31 * ms })
	f("b: TPOT 13ms", func(f *Figures) { f.TPOT = 13 * ms })
	f("", func(f *Figures) { f.TPOT, f.Source = 90*ms, result.TokensFromEvents })
	f("", func(f *Figures) { f.Prompt = 487 })
	f("b: prompts of 486 tokens", func(f *Figures) { f.Prompt = 486 })
	f("b: prompts of 538 tokens", func(f *Figures) { f.Prompt = 538 })
	f("", func(f *Figures) { f.Prompt = api.Unknown })
}

func TestOffered(t *testing.T) {
	f := func(o result.Outcome, status int, want bool) {
		t.Helper()
		if got := offered(&result.Result{Outcome: o, Status: status}); got != want {
			t.Errorf("%s with status %d: %t, want %t", o, status, got, want)
		}
	}
	f(result.HTTPError, 404, false)
	f(result.HTTPError, 405, false)
	f(result.HTTPError, 400, false)
	f(result.HTTPError, 501, false)
	f(result.HTTPError, 500, true)
	f(result.ProtocolError, 200, false)
	f(result.Unauthorized, 401, false)
	f(result.Truncated, 200, true)
	f(result.TimeoutFirstToken, 0, true)
}
