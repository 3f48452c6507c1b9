package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// templateTokens is how many tokens of a cold prompt may be cached: those that
// the server's own template puts before the question, up to the end of a
// block of the cache.
const templateTokens = 64

// broken returns what does not hold of one result although it must, whatever
// the server: failed probes have nothing but their reason.
func broken(r *result.Result) []string {
	if r.Outcome != result.Success {
		return []string{fmt.Sprintf("%s: %v", r.Outcome, r.Err)}
	}
	var v violations
	v.phases(r)
	v.prompt(r)
	if r.Kind != api.Generation {
		v.vectors(r)
		return v
	}
	v.order(r)
	v.output(r)
	v.pace(r)
	return v
}

// violations are the sentences of what does not hold.
type violations []string

// unless adds a sentence when what must hold does not.
func (v *violations) unless(holds bool, format string, args ...any) {
	if !holds {
		*v = append(*v, fmt.Sprintf(format, args...))
	}
}

// phases add up to the whole.
func (v *violations) phases(r *result.Result) {
	var sum time.Duration
	for _, d := range r.Timing.Phases {
		sum += max(0, d)
	}
	v.unless(r.Timing.Duration > 0, "duration %s", r.Timing.Duration)
	v.unless(sum == r.Timing.Duration, "phases %v add up to %s, not to the duration %s", r.Timing.Phases, sum, r.Timing.Duration)
}

// prompt has a believable count, and a cold one is not cached.
func (v *violations) prompt(r *result.Result) {
	n := r.Tokens
	v.unless(n.Prompt != 0, "a prompt of 0 tokens")
	v.unless(n.Prompt < 0 || n.Cached <= n.Prompt, "%d cached tokens in a prompt of %d", n.Cached, n.Prompt)
	v.unless(r.Prefix != "cold" || n.Cached <= templateTokens,
		"%d of %d tokens of a cold prompt were cached, at most %d can be of a template", n.Cached, n.Prompt, templateTokens)
}

// order is that of time.
func (v *violations) order(r *result.Result) {
	d := r.Timing
	v.unless(d.TTFT > 0 || r.MoreEvents, "TTFT %s", d.TTFT)
	if d.TTFO >= 0 { // all reasoning has none
		v.unless(d.TTFT <= d.TTFO, "TTFT %s after TTFO %s", d.TTFT, d.TTFO)
	}
	v.unless(max(d.TTFT, d.TTFO) <= d.Duration, "TTFT %s or TTFO %s after the end, %s", d.TTFT, d.TTFO, d.Duration)
	at := time.Duration(0)
	for i, e := range r.Events {
		v.unless(e.At >= at, "event %d at %s, before its predecessor", i, e.At)
		at = e.At
	}
	v.unless(at <= d.Duration, "last event at %s, after the end at %s", at, d.Duration)
}

// output has as many tokens as the events allow: each carries at least one,
// and those that report their number carry no more than all have.
func (v *violations) output(r *result.Result) {
	n := r.Tokens
	v.unless(len(r.Events) > 0, "no event")
	v.unless(n.Output > 0, "%d output tokens", n.Output)
	v.unless(n.Reasoning <= n.Output, "%d reasoning tokens of %d", n.Reasoning, n.Output)
	if n.Source != result.TokensFromUsage {
		return
	}
	counted := 0
	for _, e := range r.Events {
		counted += e.Tokens
	}
	v.unless(n.Output >= len(r.Events) || r.MoreEvents, "%d output tokens in %d events", n.Output, len(r.Events))
	v.unless(counted <= n.Output, "%d output tokens, %d by the events", n.Output, counted)
	v.unless(n.Output <= outputTokens, "%d output tokens, at most %d asked", n.Output, outputTokens)
}

// pace is the decode time shared by the tokens after the first event. Where the
// events do not count all tokens, with reasoning it may be that of the answer alone.
func (v *violations) pace(r *result.Result) {
	counted, reasons := 0, r.Tokens.Reasoning > 0
	for _, e := range r.Events {
		counted += e.Tokens
		reasons = reasons || e.Reasoning
	}
	if len(r.Events) == 0 || r.MoreEvents || reasons && counted != r.Tokens.Output {
		return
	}
	tpot, decode := r.Timing.TPOT, r.Timing.Phases[result.PhaseDecode]
	rest := r.Tokens.Output - max(1, r.Events[0].Tokens)
	if rest <= 0 || decode <= 0 || r.Buffered {
		v.unless(tpot < 0, "TPOT %s without tokens to pace", tpot)
		return
	}
	// The quotient is cut to whole nanoseconds.
	off := decode - tpot*time.Duration(rest)
	v.unless(tpot >= 0 && off >= 0 && off < time.Duration(rest), "TPOT %s times %d tokens is not the decode time %s", tpot, rest, decode)
}

// vectors is one for each input, and nothing that comes token by token.
func (v *violations) vectors(r *result.Result) {
	v.unless(r.Vectors.Items == batchSize, "%d vectors or scores for %d inputs", r.Vectors.Items, batchSize)
	d := r.Timing
	v.unless(d.TTFT < 0 && d.TTFO < 0 && d.TPOT < 0 && len(r.Events) == 0, "times of tokens where there are none: %+v", d)
}

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
