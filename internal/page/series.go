package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// series is a number or a histogram of a page: the samples of a source that have the same labels, copies
// made one; or what all of a source together yield, whose values are nil where there are none.
type series struct {
	source int32
	set    uint64
	bounds []float64 // of a histogram, finite, increasing
	// values are the number; of a histogram the cumulative counts up to each bound, the count of all and,
	// last, the sum.
	values []float64
	rank   float64 // as that of a sample
}

// assemble makes series of the samples, in their order.
func (s *scratch) assemble(p *page, c *mapping) error {
	for i := 0; i < len(s.samples); {
		first := &s.samples[i]
		end := i + 1
		for end < len(s.samples) && s.samples[end].source == first.source && s.samples[end].set == first.set {
			end++
		}
		if c.sources[first.source].kind == histogram {
			if end-i > maxBuckets+3 { // with the bucket of all, the count and the sum
				return pageErrorf(ReasonBuckets, "series %s has more than %d buckets", p.at(int(first.offset)), maxBuckets)
			}
			s.addHistogram(s.samples[i:end])
		} else {
			s.series = append(s.series, series{source: first.source, set: first.set, values: s.list(first.value), rank: first.rank})
		}
		i = end
	}
	return nil
}

// list returns a slice of the values that lives as long as the scratch is not used again.
func (s *scratch) list(values ...float64) []float64 {
	n := len(s.numbers)
	s.numbers = append(s.numbers, values...)
	return s.numbers[n:len(s.numbers):len(s.numbers)]
}

// addHistogram adds the histogram that the samples are the parts of. One that lacks a part or whose counts
// decrease is not to be trusted, and so is a sum over several without it.
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
			count = sm.value // the bucket of all comes before the count
		}
	}
	all := s.zeros(2*n + 2)
	h.bounds, h.values = all[:n:n], all[n:]
	for i, sm := range parts[:n] {
		h.bounds[i], h.values[i] = sm.le, sm.value
	}
	h.values[n], h.values[n+1] = count, sum
	if math.IsNaN(count) || math.IsNaN(sum) || !slices.IsSorted(h.values[:n+1]) {
		s.bad[h.source] = true
		return
	}
	s.series = append(s.series, h)
}

// maxGone bounds the cells that are kept for series that may come back.
const maxGone = 1000

// cell is what is known of a series of a counter or a histogram. With it the total over several series does not
// fall when one of them is reset or ends, such as that of a replaced replica: a total that falls is for Prometheus
// a restart of everything, and what the other series have counted so far would look as counted again.
type cell struct {
	source int32
	gone   bool // not on the latest page
	set    uint64
	bounds []float64 // shared with other cells
	last   []float64 // latest values, as in series
}

// compare orders cells as the series of a page are ordered.
func (c *cell) compare(s *series) int {
	return cmp.Or(cmp.Compare(c.source, s.source), cmp.Compare(c.set, s.set))
}

// reset reports whether a series was reset, as its values say. The sum of a histogram says nothing: it
// falls with a negative observation.
func (c *cell) reset(s *series) bool {
	for i, v := range s.values[:max(1, len(c.last)-1)] {
		if v < c.last[i] {
			return true
		}
	}
	return false
}

// update brings a cell to the values that its series has now.
func (r *Reader) update(c *cell, s *series, largest bool) {
	c.gone = false
	switch {
	case !slices.Equal(c.bounds, s.bounds): // what was counted up to other bounds cannot be added
		c.bounds, c.last = r.mappings.bounds.of(s.bounds), slices.Clone(s.values)
	case c.reset(s):
		r.total(c.source).addRest(c, largest)
		copy(c.last, s.values)
	default:
		combine(c.last, s.values, true) // the larger: the sum of a histogram may have fallen
	}
}

// advance brings the cells to the series of a page. Both are in the same order. It reports whether
// something went on that had counted anything. Otherwise everything was reset.
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
			next = append(next, cell{source: now.source, set: now.set, bounds: r.mappings.bounds.of(now.bounds), last: slices.Clone(now.values)})
			continue
		}
		o := old[0]
		old = old[1:]
		counted := slices.ContainsFunc(o.last, func(v float64) bool { return v > 0 })
		went = went || !o.gone && counted && slices.Equal(o.bounds, now.bounds) && !o.reset(now)
		r.update(&o, now, c.sources[o.source].max)
		next = append(next, o)
	}
	for _, o := range old {
		leave(o)
	}
	s.cells = next
	r.cells = append(r.cells[:0], next...)
	return went
}

// fold adds what gone series had counted to the rest of their source where there are more of them than most.
func (r *Reader) fold(m *mapping, most int) {
	if stats.Count(r.cells, func(c cell) bool { return c.gone }) <= most {
		return
	}
	r.cells = slices.Clone(slices.DeleteFunc(r.cells, func(c cell) bool {
		if c.gone {
			r.total(c.source).addRest(&c, m.sources[c.source].max)
		}
		return c.gone
	}))
}

// total is what is kept of the total of a counter or a histogram that has, or had, several series or was reset.
type total struct {
	bounds []float64
	rest   []float64 // what series had counted that were reset, or are no longer known one by one
	latest []float64
}

// addRest adds what a series had counted that is gone or was reset.
func (t *total) addRest(c *cell, largest bool) {
	if t.rest == nil && t.latest == nil {
		t.bounds = c.bounds
	}
	if !slices.Equal(t.bounds, c.bounds) {
		return // cannot be added
	}
	if t.rest == nil {
		t.rest = make([]float64, len(c.last))
	}
	combine(t.rest, c.last, largest)
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
		switch res := &s.results[now.source]; {
		case res.values == nil, src.itemsOf != "" && now.rank > res.rank:
			res.values, res.rank = s.list(now.values...), now.rank
		case src.textOf != "" && res.values[0] != now.values[0]: // several texts are none
			res.values[0] = math.NaN()
		case src.device != nil && len(src.device.Bits) > 0:
			res.values[0] = float64(uint64(res.values[0]) | uint64(now.values[0]))
		case src.min:
			res.values[0] = min(res.values[0], now.values[0])
		case src.itemsOf == "":
			combine(res.values, now.values, src.max)
		}
	}
}

// counters works out the results of the counters and histograms of a page from the cells.
func (r *Reader) counters(c *mapping, s *scratch) {
	for cells := r.cells; len(cells) > 0; {
		source := cells[0].source
		n := 1
		for n < len(cells) && cells[n].source == source {
			n++
		}
		if !s.bad[source] {
			s.results[source] = r.sum(cells[:n], c.sources[source].max, s)
		}
		cells = cells[n:]
	}
}

// sum returns the total of the cells of a source.
func (r *Reader) sum(cells []cell, largest bool, s *scratch) series {
	only := &cells[0]
	if r.totals[only.source] == nil && len(cells) == 1 && !only.gone {
		return series{bounds: only.bounds, values: s.list(only.last...)}
	}
	return r.total(only.source).of(cells, largest, s)
}

// total returns what is kept of a source.
func (r *Reader) total(source int32) *total {
	t := r.totals[source]
	if t == nil {
		if r.totals == nil {
			r.totals = map[int32]*total{}
		}
		t = &total{}
		r.totals[source] = t
	}
	return t
}

// of returns the total of the cells of a source. There is none where no series is on the page, or where
// they have different bounds. It never falls, whatever the order in which numbers are added and rounded.
func (t *total) of(cells []cell, largest bool, s *scratch) series {
	live := slices.IndexFunc(cells, func(c cell) bool { return !c.gone })
	if live < 0 {
		return series{}
	}
	bounds := cells[live].bounds
	values := s.zeros(len(cells[live].last))
	for i := range cells {
		switch c := &cells[i]; {
		case slices.Equal(c.bounds, bounds):
			combine(values, c.last, largest)
		case !c.gone:
			return series{}
		}
	}
	if !slices.Equal(t.bounds, bounds) {
		*t = total{bounds: bounds}
	}
	combine(values, t.rest, largest)
	combine(values, t.latest, true)
	t.latest = append(t.latest[:0], values...)
	return series{bounds: bounds, values: values}
}

// zeros returns a slice of n zeros that lives as long as the scratch is not used again.
func (s *scratch) zeros(n int) []float64 {
	i := len(s.numbers)
	s.numbers = append(s.numbers, make([]float64, n)...)
	return s.numbers[i : i+n : i+n]
}

// maxSharedBounds limits how many are shared: servers choose them.
const maxSharedBounds = 1000

// sharedBounds keeps bounds of histograms once, as servers of one engine have the same. It is safe for
// concurrent use.
type sharedBounds struct {
	mu  sync.Mutex
	all map[string][]float64 // by their text
}

// of returns a copy of bounds that others may have too, and nobody changes.
func (s *sharedBounds) of(bounds []float64) []float64 {
	if len(bounds) == 0 {
		return nil
	}
	key := fmt.Sprint(bounds)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[key] == nil {
		if s.all == nil || len(s.all) >= maxSharedBounds {
			s.all = map[string][]float64{}
		}
		s.all[key] = slices.Clone(bounds)
	}
	return s.all[key]
}
