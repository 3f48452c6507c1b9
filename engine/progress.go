package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// maxRanks is how many ranks of a server are judged one by one.
const maxRanks = 1024

// mark is the value of a source of progress on a page.
type mark struct {
	value   float64
	present bool
}

// rank is what is kept of a part of a server that works on its own, such as a
// rank of data parallelism: its series have the same labels.
type rank struct {
	marks  []mark // of each source of progress on the latest page that had it
	worked time.Time
}

// lastProgress returns when the engine was last seen to work or to be idle; the
// zero time where the page has no series that moves while the engine works. Of
// ranks that have requests the one counts that has not worked for longest.
func (r *Reader) lastProgress(c *mapping, s *scratch, idle bool, at time.Time) time.Time {
	first := r.worked.IsZero()
	moved, present := false, false
	for i, n := range c.progress {
		v, ok := n.of(s.results)
		moved = moveMark(r.marks, i, mark{v, ok}) || moved
		present = present || ok
	}
	if !present {
		return time.Time{}
	}
	if first || moved || idle {
		r.worked = at
	}
	if oldest, ok := r.ranksProgress(c, s, at); ok {
		return oldest
	}
	return r.worked
}

// moveMark brings a mark to a page that has its source, and tells whether it
// moved.
func moveMark(marks []mark, i int, now mark) bool {
	if !now.present || marks[i] == now {
		return false
	}
	marks[i] = now
	return true
}

// ranksProgress returns the time of the rank that has requests and has not
// worked for longest; false where the page does not show several ranks that
// tell both their requests and their progress.
func (r *Reader) ranksProgress(c *mapping, s *scratch, at time.Time) (oldest time.Time, ok bool) {
	running := s.running(c)
	if len(running) < 2 || len(running) > maxRanks {
		r.ranks = nil
		return time.Time{}, false
	}
	ranks := make(map[uint64]rank, len(running))
	all := true
	for _, run := range running {
		k, known := r.ranks[run.set]
		if !known {
			k = rank{marks: make([]mark, len(c.progress))}
		}
		moved, present := false, false
		for i, n := range c.progress {
			now := s.mark(n.source, run.set)
			moved = moveMark(k.marks, i, now) || moved
			present = present || now.present
		}
		busy := run.values[0] > 0
		if !known || moved || !busy {
			k.worked = at
		}
		if busy && (!ok || k.worked.Before(oldest)) {
			oldest, ok = k.worked, true
		}
		ranks[run.set] = k
		all = all && (present || !busy)
	}
	r.ranks = ranks
	return oldest, ok && all
}

// running returns the series of running requests, one for each rank.
func (s *scratch) running(c *mapping) []series {
	for _, n := range c.values[config.RequestsRunning] {
		if s.results[n.source].values != nil {
			return s.of(n.source)
		}
	}
	return nil
}

// of returns the series of a source.
func (s *scratch) of(source int) []series {
	compare := func(x series, source int32) int { return cmp.Compare(x.source, source) }
	from, _ := slices.BinarySearchFunc(s.series, int32(source), compare)
	to, _ := slices.BinarySearchFunc(s.series, int32(source)+1, compare)
	return s.series[from:to]
}

// mark returns the value of the series of a source that has the given labels.
func (s *scratch) mark(source int, set uint64) mark {
	of := s.of(source)
	if i, ok := slices.BinarySearchFunc(of, set, func(x series, set uint64) int { return cmp.Compare(x.set, set) }); ok {
		return mark{of[i].values[0], true}
	}
	return mark{}
}
