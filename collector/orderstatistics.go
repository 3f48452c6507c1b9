package collector

import "math"

// The window tells of the 99th percentile what the samples prove, without any
// assumption on how they spread: how many of n probes are slower than it follows
// the binomial distribution with a share of 1 %.
const (
	tailShare  = 0.01
	confidence = 0.95 // of each bound alone
)

// Samples without which an estimate says little: below, the 99th percentile is
// the slowest sample, and the median moves with every probe.
const (
	minSamplesP50 = 10
	minSamplesP99 = 100
)

// windowStat is a statistic of the window of a series, an index in windowStats.
type windowStat int

const (
	statP50 windowStat = iota
	statP99
	statP99Lower
	statP99Upper
)

// windowStats lists the closed set of label values.
func windowStats() []string { return []string{"p50", "p99", "p99_lower", "p99_upper"} }

// rank returns which of n samples is the statistic, counted from the smallest,
// which is 1; 0 when n is too few for it.
func (s windowStat) rank(n int) int {
	switch {
	case s == statP50 && n >= minSamplesP50:
		return (n + 1) / 2
	case s == statP99 && n >= minSamplesP99:
		return n - n/100
	case s == statP99Lower && n > 0:
		return n + 1 - fewestSlow(n)
	case s == statP99Upper:
		if j := mostSlow(n); j > 0 {
			return n + 1 - j
		}
	}
	return 0
}

// fewestSlow returns how many of n samples must be slower than a limit to prove
// that the 99th percentile is: the smallest j for which j or more slower than
// the percentile itself are improbable. The j-th slowest is therefore a lower
// bound. It is n at most.
func fewestSlow(n int) int {
	tail := newBinomialTail(n)
	for tail.atLeast > 1-confidence {
		tail.next()
	}
	return tail.j
}

// mostSlow returns the largest j for which j or more of n samples are slower
// than the 99th percentile, or just as slow, with confidence: the j-th slowest is
// an upper bound. It is 0 for fewer than 299 samples, of which even the slowest
// is none.
func mostSlow(n int) int {
	tail := newBinomialTail(n)
	for tail.atLeast >= confidence {
		tail.next()
	}
	return tail.j - 1
}

// binomialTail walks over the probabilities that at least j of n samples are in
// the slowest hundredth of all.
type binomialTail struct {
	n, j    int
	exactly float64 // probability of j
	atLeast float64 // probability of j or more
}

// newBinomialTail begins with j = 0.
func newBinomialTail(n int) binomialTail {
	return binomialTail{n: n, exactly: math.Pow(1-tailShare, float64(n)), atLeast: 1}
}

func (t *binomialTail) next() {
	t.atLeast -= t.exactly
	t.exactly *= float64(t.n-t.j) / float64(t.j+1) * (tailShare / (1 - tailShare))
	t.j++
}
