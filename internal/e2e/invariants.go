package e2e

import (
	"fmt"
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
// and those that tell their number carry no more than all have.
func (v *violations) output(r *result.Result) {
	n := r.Tokens
	v.unless(len(r.Events) > 0, "no event")
	v.unless(n.Output > 0, "%d output tokens", n.Output)
	v.unless(n.Reasoning <= n.Output, "%d reasoning tokens of %d", n.Reasoning, n.Output)
	if n.Source != result.TokensFromUsage {
		return
	}
	told := 0
	for _, e := range r.Events {
		told += e.Tokens
	}
	v.unless(n.Output >= len(r.Events) || r.MoreEvents, "%d output tokens in %d events", n.Output, len(r.Events))
	v.unless(told <= n.Output, "%d output tokens, %d by the events", n.Output, told)
	v.unless(n.Output <= outputTokens, "%d output tokens, at most %d asked", n.Output, outputTokens)
}

// pace is the decode time shared by the tokens after the first event. Where the
// events do not count all tokens, with reasoning it may be that of the answer alone.
func (v *violations) pace(r *result.Result) {
	told, reasons := 0, r.Tokens.Reasoning > 0
	for _, e := range r.Events {
		told += e.Tokens
		reasons = reasons || e.Reasoning
	}
	if len(r.Events) == 0 || r.MoreEvents || reasons && told != r.Tokens.Output {
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
