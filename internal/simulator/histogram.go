package simulator

import (
	"slices"
	"sort"
	"time"
)

// quantity is what a histogram of a replica observes.
type quantity int

// The quantities, in seconds where they are times. Those of a request are
// observed at its end, if it came to it, apart from those named otherwise.
const (
	firstToken    quantity = iota // time from arrival to the first token, observed then
	interToken                    // time between two tokens of a request, observed at the second
	perToken                      // mean time per output token after the first
	endToEnd                      // time from arrival to the last token
	queueTime                     // time until the request entered a batch
	inferenceTime                 // time from then to the last token
	prefillTime                   // time from then to the first token
	decodeTime                    // time from the first token to the last
	meanToken                     // inferenceTime over the number of tokens
	firstResponse                 // time to the first bytes: of the first token where the reply streams
	arrivedLength                 // prompt tokens, observed at arrival
	promptLength                  // prompt tokens
	outputLength                  // generated tokens
	cachedLength                  // prompt tokens found in the prefix cache
	cachedPart                    // cachedLength over promptLength
	stepTokens                    // tokens that a step computes
	batchSize                     // sequences in a step
	quantities                    // how many there are
)

// bounds are the upper bounds of histograms, increasing. A quantity without
// any is only counted and summed up.
type bounds map[quantity][]float64

// histogram is a classic one; counts has one more entry than bounds, for what
// is beyond the last, and each counts its own bucket only.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	h.sum += v
	h.counts[sort.SearchFloat64s(h.bounds, v)]++
}

func (h *histogram) observeTime(d time.Duration) { h.observe(d.Seconds()) }

func (h *histogram) clone() histogram {
	return histogram{bounds: h.bounds, counts: slices.Clone(h.counts), sum: h.sum}
}

// add puts what other observed into h; both have the same bounds.
func (h *histogram) add(other *histogram) {
	h.sum += other.sum
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

// zeros returns a histogram of as many observations, each of them 0.
func (h *histogram) zeros() *histogram {
	z := newHistogram(h.bounds)
	z.counts[0] = h.count()
	return &z
}

// count is the number of observations.
func (h *histogram) count() uint64 {
	total := uint64(0)
	for _, n := range h.counts {
		total += n
	}
	return total
}

// cumulative returns the number of observations up to each bound, the bounds
// times scale.
func (h *histogram) cumulative(scale float64) map[float64]uint64 {
	total := uint64(0)
	buckets := make(map[float64]uint64, len(h.bounds))
	for i, bound := range h.bounds {
		total += h.counts[i]
		buckets[bound*scale] = total
	}
	return buckets
}

// linear returns n bounds with the given step, the first being step.
func linear(step float64, n int) []float64 {
	b := make([]float64, n)
	for i := range b {
		b[i] = step * float64(i+1)
	}
	return b
}

// geometric returns n bounds from first on, each factor times the one before.
func geometric(first, factor float64, n int) []float64 {
	b := make([]float64, n)
	for i := range b {
		b[i] = first
		first *= factor
	}
	return b
}

// oneTwoFive returns 1, 2, 5, 10, 20 and so on, up to limit.
func oneTwoFive(limit int) []float64 {
	var b []float64
	for decade := 1; decade <= limit; decade *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*decade <= limit {
				b = append(b, float64(m*decade))
			}
		}
	}
	return b
}
