package engine

import "math"

// series is a number or a histogram of a page: the samples of a source that
// have the same labels, copies made one.
type series struct {
	source int32
	set    uint64
	bounds []float64 // of a histogram, finite, increasing
	// values are the number; of a histogram the cumulative counts up to each
	// bound, the count of all and, last, the sum.
	values []float64
}

// assemble makes series of the samples, in their order.
func (s *scratch) assemble(c *mapping) {
	for i := 0; i < len(s.samples); {
		first := &s.samples[i]
		end := i + 1
		for end < len(s.samples) && s.samples[end].source == first.source && s.samples[end].set == first.set {
			end++
		}
		if c.sources[first.source].kind == histogram {
			s.addHistogram(s.samples[i:end])
		} else {
			s.series = append(s.series, series{source: first.source, set: first.set, values: s.list(first.value)})
		}
		i = end
	}
}

// list returns a slice of the values that lives as long as the scratch is not
// used again.
func (s *scratch) list(values ...float64) []float64 {
	n := len(s.numbers)
	s.numbers = append(s.numbers, values...)
	return s.numbers[n:len(s.numbers):len(s.numbers)]
}

// addHistogram adds the histogram that the samples are the parts of. One that
// lacks a part or whose counts decrease is not to be trusted, and so is a sum
// over several without it.
func (s *scratch) addHistogram(parts []sample) {
	h := series{source: parts[0].source, set: parts[0].set}
	count, sum := math.NaN(), math.NaN()
	n := 0
	for _, sm := range parts {
		switch {
		case sm.part == partSum:
			sum = sm.value
		case sm.part == partBucket && !math.IsInf(sm.le, 1):
			n++
		case sm.part == partBucket || math.IsNaN(count):
			count = sm.value // the bucket of all stands before the count
		}
	}
	start := len(s.numbers)
	for _, sm := range parts[:n] {
		s.numbers = append(s.numbers, sm.le)
	}
	h.bounds = s.numbers[start:len(s.numbers):len(s.numbers)]
	start = len(s.numbers)
	for _, sm := range parts[:n] {
		s.numbers = append(s.numbers, sm.value)
	}
	s.numbers = append(s.numbers, count, sum)
	h.values = s.numbers[start:len(s.numbers):len(s.numbers)]
	if math.IsNaN(sum) || !increasing(h.values[:n+1]) {
		s.bad[h.source] = true
		return
	}
	s.series = append(s.series, h)
}

// increasing tells whether no value is less than the one before it; none is a
// NaN.
func increasing(values []float64) bool {
	last := math.Inf(-1)
	for _, v := range values {
		if !(v >= last) {
			return false
		}
		last = v
	}
	return true
}
