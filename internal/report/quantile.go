package report

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// alpha is how often a bound of a quantile may be wrong.
const alpha = 0.05

// quantile is an estimate with its bounds; a bound may be nil.
type quantile struct {
	value        time.Duration
	lower, upper *time.Duration
}

// quantileOf estimates the quantile p of sorted samples, at least one, by the
// nearest rank.
func quantileOf(sorted []time.Duration, p float64) quantile {
	q := quantile{value: sorted[stats.Rank(len(sorted), p)-1]}
	lower, upper := stats.RankBounds(len(sorted), p, alpha)
	if lower > 0 {
		q.lower = &sorted[lower-1]
	}
	if upper > 0 {
		q.upper = &sorted[upper-1]
	}
	return q
}

// distribution is what is told of the samples of one metric.
type distribution struct {
	n        int
	min, max time.Duration
	p50, p99 quantile
}

// describe sums up samples, at least one, in any order.
func describe(samples []time.Duration) distribution {
	s := slices.Sorted(slices.Values(samples))
	return distribution{n: len(s), min: s[0], max: s[len(s)-1], p50: quantileOf(s, 0.5), p99: quantileOf(s, 0.99)}
}
