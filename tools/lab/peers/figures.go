package main

import (
	"math"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// quantiles are the median and the 99th percentile, in seconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// figures are what a tool measured of its requests, or the truth about them. What
// a tool does not report is nil.
type figures struct {
	Requests int `json:"requests"`
	// TTFT is the time to the first event with a token, TPOT the time of each
	// token after the first event, one for each request, and Gap the time
	// between two events with tokens.
	TTFT *quantiles `json:"ttft,omitempty"`
	TPOT *quantiles `json:"tpot,omitempty"`
	Gap  *quantiles `json:"gap,omitempty"`
	// Tokens is how many output tokens were counted in all.
	Tokens *int `json:"tokens,omitempty"`
}

// quantilesOf returns the quantiles of values by linear interpolation between
// order statistics, which is what NumPy and the tools use; nil without values.
func quantilesOf(values []float64) *quantiles {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		position := q * float64(len(sorted)-1)
		below := int(position)
		above := min(below+1, len(sorted)-1)
		return sorted[below] + (position-math.Floor(position))*(sorted[above]-sorted[below])
	}
	return &quantiles{at(0.5), at(0.99)}
}

// timeline is the events with tokens of one request.
type timeline struct {
	ttft   float64
	at     []float64 // seconds since any instant
	tokens []int
	// unknown marks events of whose arrival only a bound is known: the gaps
	// beside them are left out.
	unknown map[int]bool
}

// figuresOf sums up requests.
func figuresOf(lines []timeline) figures {
	var ttft, tpot, gaps []float64
	sum := 0
	for _, l := range lines {
		ttft = append(ttft, l.ttft)
		after := 0
		for i, n := range l.tokens {
			sum += n
			if i == 0 {
				continue
			}
			after += n
			if !l.unknown[i] && !l.unknown[i-1] {
				gaps = append(gaps, l.at[i]-l.at[i-1])
			}
		}
		if after > 0 {
			tpot = append(tpot, (l.at[len(l.at)-1]-l.at[0])/float64(after))
		}
	}
	return figures{Requests: len(lines), TTFT: quantilesOf(ttft), TPOT: quantilesOf(tpot), Gap: quantilesOf(gaps), Tokens: &sum}
}

// truth returns the figures of streaming requests as the server wrote them. of
// are those that the tool measured, by trace id: the gaps that it left out are
// left out here too. Without any, they are all that were answered to their end.
func truth(records []simulator.Record, of map[string]probe) figures {
	var lines []timeline
	for _, r := range records {
		p, ok := of[r.TraceID]
		if !ok && len(of) > 0 {
			continue
		}
		l, done := timeline{unknown: p.timeline().unknown}, false
		for _, e := range r.Events {
			done = done || e.Kind == simulator.Done && !e.At.IsZero()
			if e.Tokens == 0 || e.At.IsZero() {
				continue
			}
			if len(l.at) == 0 {
				l.ttft = e.At.Sub(r.Arrival).Seconds()
			}
			l.at = append(l.at, e.At.Sub(r.Arrival).Seconds())
			l.tokens = append(l.tokens, e.Tokens)
		}
		if done && len(l.at) > 0 {
			lines = append(lines, l)
		}
	}
	return figuresOf(lines)
}
