package engine

import "time"

// mark is the value of a source of progress on a page.
type mark struct {
	value   float64
	present bool
}

// lastProgress returns when the engine was last seen to work or to be idle; the
// zero time where the page has no series that moves while the engine works.
func (r *Reader) lastProgress(c *mapping, results []result, idle bool, at time.Time) time.Time {
	first := r.worked.IsZero()
	moved, present := false, false
	for i, n := range c.progress {
		v, ok := n.of(results)
		now := mark{v, ok}
		if ok {
			present = true
			moved = moved || r.marks[i] != now
			r.marks[i] = now
		}
	}
	if !present {
		return time.Time{}
	}
	if first || moved || idle {
		r.worked = at
	}
	return r.worked
}
