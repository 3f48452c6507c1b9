// Package stats has the statistics of few samples: order statistics, bounds of quantiles that hold whatever the
// distribution, windows of the latest samples, and counts, sums and mappings of lists.
package stats

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Rank returns the rank, counted from 1, of the quantile p among n sorted samples: the
// first that a share of p does not exceed.
func Rank(n int, p float64) int {
	// The product may miss a whole number by its last bit.
	return max(1, int(math.Ceil(float64(n)*p-1e-9)))
}

// RankBounds returns the ranks, counted from 1, of the order statistics of n samples that bound the quantile p from
// below and from above. Each bound is wrong with a probability of at most alpha, whatever the distribution of the
// samples: how many of them are above the quantile follows the binomial distribution. With J of that distribution, the
// lower rank is n+1 less the smallest j with P(J >= j) <= alpha, the upper one n+1 less the largest j with P(J >= j) >=
// 1-alpha. 0 means that n is too small for the bound.
func RankBounds(n int, p, alpha float64) (lower, upper int) {
	// Far below the mean nothing is lost, and powers of p would be 0.
	mean := float64(n) * (1 - p)
	j := max(0, int(mean-10*math.Sqrt(mean*p)-30))
	exactly, atLeast := binomial(n, j, 1-p), 1.0 // P(J = j), P(J >= j)
	for ; atLeast > alpha; j++ {
		if atLeast >= 1-alpha && j > 0 {
			upper = n + 1 - j
		}
		atLeast -= exactly
		exactly *= float64(n-j) / float64(j+1) * (1 - p) / p
	}
	return n + 1 - j, upper
}

// batches is into how many successive batches Effective divides samples: of 10 to 30 little is lost (Schmeiser, Batch size effects
// in the analysis of simulation output, 1982), and the longer a batch, the less depends on the one before.
const batches = 10

// Effective returns how many independent samples would know the share of those that are so as well as these, which are in the
// order of time and may depend on each other: fewer by the factor by which the means of batches vary more than those of
// independent samples do. What lasts longer than a batch counts by the correlation of each batch with the next, as of an
// autoregression. 0 is not known, of fewer than two samples in a batch.
func Effective[T any](inTime []T, is func(T) bool) int {
	size := len(inTime) / batches
	if size < 2 {
		return 0
	}
	var shares [batches]float64
	var mean, squares, products float64
	for i := range shares {
		shares[i] = float64(Count(inTime[i*size:(i+1)*size], is)) / float64(size)
		mean += shares[i] / batches
	}
	for i, share := range shares {
		squares += (share - mean) * (share - mean)
		products += (share - mean) * (shares[max(0, i-1)] - mean) * min(1, float64(i))
	}
	if squares == 0 {
		return len(inTime)
	}
	next := min(0.8, max(0, products/squares+1./batches)) // the estimate is low by one over the number
	few := StudentT95(batches-1) / StudentT95(math.MaxInt32)
	factor := squares / (batches - 1) * float64(size) / (mean * (1 - mean)) * few * few * (1 + next) / (1 - next)
	return int(float64(len(inTime)) / max(1, factor))
}

// AtLeast returns the probability of at least k successes in n trials of the probability 0 < p < 1.
func AtLeast(n, k int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	var sum float64
	mode := float64(n+1) * p
	for term := binomial(n, k, p); k <= n && (float64(k) < mode || term > sum*1e-12); k++ {
		sum += term
		term *= float64(n-k) / float64(k+1) * p / (1 - p)
	}
	return sum
}

// binomial returns the probability of k successes in n trials.
func binomial(n, k int, p float64) float64 {
	logFactorial := func(i int) float64 { v, _ := math.Lgamma(float64(i) + 1); return v }
	return math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// MinSamples returns how many samples an upper bound of the quantile p takes, by the
// largest of them: 1 - p^n >= 1 - alpha. A lower bound takes MinSamples(1-p, alpha).
func MinSamples(p, alpha float64) int { return int(math.Ceil(math.Log(alpha) / math.Log(p))) }

// Median returns the median of sorted values, at least one.
func Median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// MedianOf returns the median of at least so many values, which it sorts; nil of fewer.
func MedianOf(values []float64, least int) *float64 {
	if len(values) < max(1, least) {
		return nil
	}
	slices.Sort(values)
	return new(Median(values))
}

// normalMAD is the standard deviation of normal noise over its median absolute deviation.
const normalMAD = 1.4826

// Deviation returns the standard deviation of residuals by their median absolute value, which few outliers do not move.
// It overwrites scratch, which is as long and may be residuals itself.
func Deviation(residuals, scratch []float64) float64 {
	for i, r := range residuals {
		scratch[i] = math.Abs(r)
	}
	slices.Sort(scratch)
	return normalMAD * Median(scratch)
}

// StudentT95 returns the factor on the standard error of the bounds of a 95 % interval with a number of degrees of
// freedom, by the expansion of Cornish and Fisher: within 0.001 from 10 degrees on.
func StudentT95(freedom int) float64 {
	const z = 1.959964
	v := float64(freedom)
	return z + (z*z*z+z)/(4*v) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*v*v)
}

// Finite returns a value as JSON can have it; nil where it is no finite number.
func Finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Grouped returns a whole number with commas between thousands.
func Grouped(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// UnixSeconds returns t as a Unix time in seconds, exact to a millisecond; 0 of the zero time.
func UnixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}

// Map returns what f makes of each value; nil of none.
func Map[T, U any](all []T, f func(T) U) []U {
	out := slices.Grow([]U(nil), len(all))
	for _, v := range all {
		out = append(out, f(v))
	}
	return out
}

// Sum returns the sum of a value of all.
func Sum[T any, N int | float64](all []T, value func(T) N) (sum N) {
	for _, v := range all {
		sum += value(v)
	}
	return sum
}

// Count returns how many of the values are so.
func Count[T any](all []T, is func(T) bool) (n int) {
	for _, v := range all {
		if is(v) {
			n++
		}
	}
	return n
}

// AppendLatest appends to a window of at most a number of samples, from which the
// oldest is removed. The window takes the room of that number at most.
func AppendLatest[T any](window []T, v T, most int) []T {
	switch n := len(window); {
	case n == most:
		window = slices.Delete(window, 0, 1)
	case n == cap(window) && 2*n > most:
		window = append(make([]T, 0, most), window...)
	}
	return append(window, v)
}

// DropOld removes the samples at the beginning of a window that are old.
func DropOld[T any](window []T, old func(T) bool) []T {
	n := slices.IndexFunc(window, func(v T) bool { return !old(v) })
	if n < 0 {
		n = len(window)
	}
	return slices.Delete(window, 0, n)
}
