package e2e

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// promptWithin is how far a learned prompt may be from the wanted length.
const promptWithin = 0.05

// Figures are the medians of the cold probes of one protocol, once their
// length is learned; each may be absent as in a Result.
type Figures struct {
	API            string
	Kind           api.Kind
	Prompt, Output int
	Source         result.TokenSource
	TTFT, TPOT     time.Duration
	Duration       time.Duration
}

// String returns the figures in one line.
func (f Figures) String() string {
	return fmt.Sprintf("%s: prompt %d tokens, output %d (%s), TTFT %s, TPOT %s, end to end %s",
		f.API, f.Prompt, f.Output, f.Source, f.TTFT, f.TPOT, f.Duration)
}

func figuresOf(results []*result.Result) Figures {
	last := results[len(results)-1]
	return Figures{
		API: last.API, Kind: last.Kind, Source: last.Tokens.Source,
		Prompt:   median(results, func(r *result.Result) int { return r.Tokens.Prompt }),
		Output:   median(results, func(r *result.Result) int { return r.Tokens.Output }),
		TTFT:     median(results, func(r *result.Result) time.Duration { return r.Timing.TTFT }),
		TPOT:     median(results, func(r *result.Result) time.Duration { return r.Timing.TPOT }),
		Duration: median(results, func(r *result.Result) time.Duration { return r.Timing.Duration }),
	}
}

func median[T int | time.Duration](results []*result.Result, of func(*result.Result) T) T {
	all := make([]T, len(results))
	for i, r := range results {
		all[i] = of(r)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Tolerance is how far two figures of one server may be apart: by a factor or,
// where that is more, by a time.
type Tolerance struct {
	Factor float64
	Slack  time.Duration
}

func (t Tolerance) allows(a, b time.Duration) bool {
	low, high := min(a, b), max(a, b)
	return float64(high) <= t.Factor*float64(low) || high-low <= t.Slack
}

// Limits say what counts as the same figure by two protocols.
type Limits struct {
	TTFT, TPOT Tolerance
}

// DefaultLimits are for a server that has other work, too: medians of three
// must be within a factor of 2 or 50 ms (TTFT), of 1.5 or 5 ms (TPOT).
func DefaultLimits() Limits {
	return Limits{TTFT: Tolerance{2, 50 * time.Millisecond}, TPOT: Tolerance{1.5, 5 * time.Millisecond}}
}

// compare holds the figures of the other protocols against those of the first,
// and each prompt against the wanted length.
func compare(all []Figures, limits Limits) []Problem {
	var problems []Problem
	problem := func(f Figures, format string, args ...any) {
		problems = append(problems, Problem{API: f.API, Text: fmt.Sprintf(format, args...)})
	}
	for _, f := range all {
		first := all[0]
		if f.Kind == api.Generation && f.Prompt >= 0 && !isNear(f.Prompt, inputTokens) {
			problem(f, "prompts of %d tokens, want %d within %.0f %%", f.Prompt, inputTokens, 100*promptWithin)
		}
		if f.TTFT >= 0 && first.TTFT >= 0 && !limits.TTFT.allows(f.TTFT, first.TTFT) {
			problem(f, "TTFT %s, by %s %s", f.TTFT, first.API, first.TTFT)
		}
		// By another count of tokens it is another pace.
		if f.Source == first.Source && f.TPOT >= 0 && first.TPOT >= 0 && !limits.TPOT.allows(f.TPOT, first.TPOT) {
			problem(f, "TPOT %s, by %s %s", f.TPOT, first.API, first.TPOT)
		}
	}
	return problems
}

func isNear(n, want int) bool {
	off := float64(n)/float64(want) - 1
	return off >= -promptWithin && off <= promptWithin
}
