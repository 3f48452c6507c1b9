package engine

import (
	"cmp"
	"slices"
)

// maxGone bounds the cells that are kept for series that may come back.
const maxGone = 1000

// cell is what is known of a series of a counter or a histogram. With it the
// total over several series does not fall when one of them begins anew or ends,
// such as that of a replaced replica: a total that falls is for Prometheus a
// restart of everything, and what the other series have counted so far would
// look as counted anew.
type cell struct {
	source int32
	gone   bool // not on the latest page
	set    uint64
	bounds []float64
	last   []float64 // latest values, as in series
	offset []float64 // what was counted before the series began anew; nil is zero
}

// compare orders cells as the series of a page are ordered.
func (c *cell) compare(s *series) int {
	return cmp.Or(cmp.Compare(c.source, s.source), cmp.Compare(c.set, s.set))
}

// counted tells whether the series had counted anything.
func (c *cell) counted() bool {
	return slices.ContainsFunc(c.last, func(v float64) bool { return v > 0 })
}

// began tells whether a series began anew, as its values say. The sum of a
// histogram says nothing: it falls with a negative observation.
func (c *cell) began(s *series) bool {
	n := len(c.last)
	if n > 1 {
		n--
	}
	for i, v := range s.values[:n] {
		if v < c.last[i] {
			return true
		}
	}
	return false
}

// update brings the cell to the values that its series has now.
func (c *cell) update(s *series) {
	c.gone = false
	if !slices.Equal(c.bounds, s.bounds) {
		// What was counted up to other bounds cannot be added.
		c.bounds, c.last, c.offset = slices.Clone(s.bounds), slices.Clone(s.values), nil
		return
	}
	if c.began(s) {
		if c.offset == nil {
			c.offset = make([]float64, len(c.last))
		}
		for i, v := range c.last {
			c.offset[i] += v
		}
	}
	copy(c.last, s.values)
}

// advance brings the cells to the series of a page. Both are in the same order.
// It tells whether something went on that had counted anything. Otherwise
// everything began anew.
func (r *Reader) advance(c *mapping, s *scratch) bool {
	next := s.cells[:0]
	old := r.cells
	went := false
	leave := func(o cell) {
		o.gone = true
		next = append(next, o)
	}
	for i := range s.series {
		now := &s.series[i]
		if c.sources[now.source].kind == gauge {
			continue
		}
		for len(old) > 0 && old[0].compare(now) < 0 {
			leave(old[0])
			old = old[1:]
		}
		if len(old) == 0 || old[0].compare(now) > 0 {
			next = append(next, cell{source: now.source, set: now.set, bounds: slices.Clone(now.bounds), last: slices.Clone(now.values)})
			continue
		}
		o := old[0]
		old = old[1:]
		went = went || !o.gone && o.counted() && slices.Equal(o.bounds, now.bounds) && !o.began(now)
		o.update(now)
		next = append(next, o)
	}
	for _, o := range old {
		leave(o)
	}
	s.cells = next
	r.cells = append(r.cells[:0], next...)
	return went
}

// restart forgets what was counted before everything began anew.
func (r *Reader) restart() {
	r.cells = slices.DeleteFunc(r.cells, func(c cell) bool { return c.gone })
	for i := range r.cells {
		r.cells[i].offset = nil
	}
	clear(r.totals)
}

// fold adds what gone series had counted to the rest of their source where
// there are many of them.
func (r *Reader) fold(m *mapping) {
	n := 0
	for i := range r.cells {
		if r.cells[i].gone {
			n++
		}
	}
	if n <= maxGone {
		return
	}
	r.cells = slices.DeleteFunc(r.cells, func(c cell) bool {
		if c.gone {
			r.totals[c.source].addRest(&c, m.sources[c.source].max)
		}
		return c.gone
	})
}
