package engine

import "slices"

// result is what a source yields on a page; values are as in series, nil where
// the source is not there.
type result struct {
	bounds []float64
	values []float64
}

// total is what is kept of the total of a counter or a histogram.
type total struct {
	bounds []float64
	rest   []float64 // what series had counted that are no longer known one by one
	latest []float64
}

// addRest adds what a gone series had counted.
func (t *total) addRest(c *cell, largest bool) {
	if !slices.Equal(t.bounds, c.bounds) {
		return // cannot be added
	}
	if t.rest == nil {
		t.rest = make([]float64, len(c.last))
	}
	all := slices.Clone(c.last)
	combine(all, c.offset, false)
	combine(t.rest, all, largest)
}

// combine adds values to sum, or makes it the larger of both.
func combine(sum, values []float64, largest bool) {
	for i, v := range values {
		if largest {
			sum[i] = max(sum[i], v)
		} else {
			sum[i] += v
		}
	}
}

// gauges works out the results of the gauges of a page.
func (s *scratch) gauges(c *mapping) {
	for i := range s.series {
		now := &s.series[i]
		src := &c.sources[now.source]
		if src.kind != gauge {
			continue
		}
		if res := &s.results[now.source]; res.values == nil {
			res.values = s.list(now.values...)
		} else {
			combine(res.values, now.values, src.max)
		}
	}
}

// counters works out the results of the counters and histograms of a page from
// the cells.
func (r *Reader) counters(c *mapping, s *scratch) {
	for cells := r.cells; len(cells) > 0; {
		source := cells[0].source
		n := 1
		for n < len(cells) && cells[n].source == source {
			n++
		}
		if !s.bad[source] {
			s.results[source] = r.totals[source].of(cells[:n], c.sources[source].max, s)
		}
		cells = cells[n:]
	}
}

// of returns the total of the cells of a source. There is none where no series
// is on the page, or where they have different bounds. It never falls, whatever
// the order in which numbers are added and rounded.
func (t *total) of(cells []cell, largest bool, s *scratch) result {
	live := slices.IndexFunc(cells, func(c cell) bool { return !c.gone })
	if live < 0 {
		return result{}
	}
	bounds := cells[live].bounds
	values := s.zeros(len(cells[live].last))
	one := s.zeros(len(values))
	for i := range cells {
		c := &cells[i]
		if !slices.Equal(c.bounds, bounds) {
			if c.gone {
				continue
			}
			return result{}
		}
		copy(one, c.last)
		combine(one, c.offset, false)
		combine(values, one, largest)
	}
	if t.latest == nil || !slices.Equal(t.bounds, bounds) {
		*t = total{bounds: bounds, latest: slices.Clone(values)}
		return result{bounds, values}
	}
	combine(values, t.rest, largest)
	combine(values, t.latest, true)
	copy(t.latest, values)
	return result{bounds, values}
}

// zeros returns a slice of n zeros that lives as long as the scratch is not used
// again.
func (s *scratch) zeros(n int) []float64 {
	i := len(s.numbers)
	s.numbers = append(s.numbers, make([]float64, n)...)
	return s.numbers[i : i+n : i+n]
}
