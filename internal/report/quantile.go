package report

import (
	"math"
	"slices"
	"time"
)

// alpha is how often a bound of a quantile may be wrong.
const alpha = 0.05

// ranks returns the ranks, counted from 1, of the order statistics of n
// samples that bound the quantile p from below and from above, each with 95 %
// confidence and whatever the distribution: with B binomial (n, p), the lower
// rank is the largest l with P(B < l) <= 5 %, the upper one the smallest u
// with P(B < u) >= 95 %. 0 means that n is too small for the bound.
func ranks(n int, p float64) (lower, upper int) {
	below := 0.0 // P(B < k)
	for k := 1; k <= n; k++ {
		below += binomial(n, k-1, p)
		if below <= alpha {
			lower = k
		}
		if below >= 1-alpha {
			return lower, k
		}
	}
	return lower, 0
}

// binomial is the probability of k successes in n trials.
func binomial(n, k int, p float64) float64 {
	lg := func(i int) float64 { v, _ := math.Lgamma(float64(i) + 1); return v }
	return math.Exp(lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// samplesForUpper is how many samples an upper bound of the quantile p takes,
// which is when the largest of them is one: 1 - p^n >= 95 %.
func samplesForUpper(p float64) int { return int(math.Ceil(math.Log(alpha) / math.Log(p))) }

// samplesForLower is the same for a lower bound and the smallest sample.
func samplesForLower(p float64) int { return samplesForUpper(1 - p) }

// quantile is an estimate with its bounds; a bound may be nil.
type quantile struct {
	value        time.Duration
	lower, upper *time.Duration
}

// quantileOf estimates the quantile p of sorted samples, at least one, by the
// nearest rank.
func quantileOf(sorted []time.Duration, p float64) quantile {
	n := len(sorted)
	// The product may miss a whole number by its last bit.
	rank := int(math.Ceil(float64(n)*p - 1e-9))
	q := quantile{value: sorted[max(1, rank)-1]}
	lower, upper := ranks(n, p)
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
