package page

import (
	"maps"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// Total is what the pages of the servers of an endpoint, or of the replicas of a gateway,
// show together at one time. It is immutable.
type Total struct {
	// Engine is the mapping that the first page was read with.
	Engine string
	// At is when the first of the pages had been received.
	At time.Time
	// Servers are the names of those whose pages were read; Failed is how many could not be.
	Servers []string
	Failed  int
	// Values are the numbers as in a Snapshot: the largest of what does not add up, else the
	// sum. A sum is absent where a page lacks the number, unless that is a counter which
	// another page of the same software shows: many appear with the first event.
	Values map[config.Quantity]float64
	// Histograms are the distributions that all pages show, those with different bounds
	// by count and sum alone.
	Histograms map[config.Quantity]*Histogram
	// Requests counts ended requests by how they ended, as in a Snapshot.
	Requests map[string]float64
	// HitRatio is the mean PrefixCacheRatio of the servers that looked anything up; nil
	// where none did.
	HitRatio *float64
	// Backends are what the replicas of a gateway show of each backend, by name.
	Backends map[string]*Total

	pages []*Snapshot // by index of Servers
}

// NewTotal returns what the pages of servers show together; nil where none could be read.
func NewTotal(statuses []Status) *Total {
	t := new(Total)
	for i := range statuses {
		if st := &statuses[i]; st.Snapshot != nil {
			t.add(st.Server, st.Snapshot)
		}
	}
	if len(t.pages) == 0 {
		return nil
	}
	t.Failed = len(statuses) - len(t.pages)
	t.sum()
	return t
}

// add takes in the page of a server, before sum.
func (t *Total) add(server string, s *Snapshot) {
	if len(t.pages) == 0 {
		t.Engine, t.At = s.Engine, s.At
	}
	if s.At.Before(t.At) {
		t.At = s.At
	}
	t.Servers, t.pages = append(t.Servers, server), append(t.pages, s)
}

// sum works out all but the servers.
func (t *Total) sum() {
	t.Values, t.Histograms, t.Requests = t.pages[0].Values, t.pages[0].Histograms, t.pages[0].Requests
	if len(t.pages) > 1 {
		t.Values, t.Histograms, t.Requests = map[config.Quantity]float64{}, map[config.Quantity]*Histogram{}, map[string]float64{}
	}
	hits, asked := 0.0, 0
	for i, s := range t.pages {
		if s.PrefixCacheUnit != "" && s.PrefixCacheRatio >= 0 {
			hits, asked = hits+s.PrefixCacheRatio, asked+1
		}
		for name, b := range s.Backends {
			if t.Backends == nil {
				t.Backends = map[string]*Total{}
			}
			if t.Backends[name] == nil {
				t.Backends[name] = new(Total)
			}
			t.Backends[name].add(t.Servers[i], b)
		}
		if len(t.pages) > 1 {
			t.sumWith(s)
		}
	}
	for _, b := range t.Backends {
		b.sum()
	}
	if asked > 0 {
		t.HitRatio = new(hits / float64(asked))
	}
}

// sumWith sets what all pages together have of what one of them shows.
func (t *Total) sumWith(s *Snapshot) {
	for q := range s.Values {
		if v, ok := t.value(q); ok {
			t.Values[q] = v
		}
	}
	for q := range s.Histograms {
		if h := t.histogram(q); h != nil {
			t.Histograms[q] = h
		}
	}
	for finish, n := range s.Requests {
		t.Requests[finish] += n
	}
}

// value returns a number of all pages.
func (t *Total) value(q config.Quantity) (sum float64, ok bool) {
	for _, s := range t.pages {
		v, shown := s.Values[q]
		switch {
		case !config.AddsUp(q):
			sum = max(sum, v)
		case !shown && !(config.IsCounter(q) && t.shows(s.Engine, q)):
			return 0, false
		default:
			sum += v
		}
	}
	return sum, true
}

// shows reports whether a page of a software shows a number.
func (t *Total) shows(engine string, q config.Quantity) bool {
	return slices.ContainsFunc(t.pages, func(s *Snapshot) bool {
		_, shown := s.Values[q]
		return shown && s.Engine == engine
	})
}

// histogram returns a distribution of all pages; nil where one lacks it.
func (t *Total) histogram(q config.Quantity) *Histogram {
	var sum *Histogram
	for _, s := range t.pages {
		h := s.Histograms[q]
		switch {
		case h == nil:
			return nil
		case sum == nil:
			sum = &Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts), Count: h.Count, Sum: h.Sum}
			continue
		case !slices.Equal(sum.Bounds, h.Bounds):
			sum.Bounds, sum.Counts = nil, nil
		}
		for i := range sum.Counts {
			sum.Counts[i] += h.Counts[i]
		}
		sum.Count, sum.Sum = sum.Count+h.Count, sum.Sum+h.Sum
	}
	return sum
}

// Follows reports whether the total is of the same servers as an earlier one, and none of
// them was restarted in between: only then can the two be compared. None follows nil.
func (t *Total) Follows(before *Total) bool {
	if before == nil || !slices.Equal(t.Servers, before.Servers) {
		return false
	}
	for i, s := range t.pages {
		if s.fell(before.pages[i]) {
			return false
		}
	}
	return true
}

// fell reports whether anything that only grows is less than before.
func (s *Snapshot) fell(before *Snapshot) bool {
	for q, v := range s.Values {
		if v < before.Values[q] && config.IsCounter(q) {
			return true
		}
	}
	for finish, n := range before.Requests {
		if s.Requests[finish] < n {
			return true
		}
	}
	for q, h := range s.Histograms {
		if b := before.Histograms[q]; b != nil && (h.Count < b.Count || h.Sum < b.Sum) {
			return true
		}
	}
	return false
}

// page returns the page of a server; an empty one where the total has none.
func (t *Total) page(server string) *Snapshot {
	if i := slices.Index(t.Servers, server); i >= 0 {
		return t.pages[i]
	}
	return new(Snapshot)
}

// Counted returns by how much a counter grew since a total that this one Follows; nil where
// it is not known. A server that showed none before counts from 0.
func (t *Total) Counted(before *Total, q config.Quantity) *float64 {
	if _, ok := t.Values[q]; !ok {
		return nil
	}
	sum := 0.0
	for i, s := range t.pages {
		sum += max(0, s.Values[q]-before.page(t.Servers[i]).Values[q])
	}
	return &sum
}

// Mean returns the mean of what was measured since a total that this one Follows, in the
// unit of the quantity; nil where it is not known, or nothing was measured.
func (t *Total) Mean(before *Total, q config.Quantity) *float64 {
	if t.Histograms[q] == nil {
		return nil
	}
	count, sum := uint64(0), 0.0
	for i, s := range t.pages {
		h := s.Histograms[q]
		count, sum = count+h.Count, sum+h.Sum
		if b := before.page(t.Servers[i]).Histograms[q]; b != nil {
			if b.Count > h.Count || b.Sum > h.Sum { // of a backend, whose series may end
				return nil
			}
			count, sum = count-b.Count, sum-b.Sum
		}
	}
	if count == 0 {
		return nil
	}
	return new(sum / float64(count))
}

// Ended returns how many requests ended since a total that this one Follows, by how they
// ended; nil where it is not known.
func (t *Total) Ended(before *Total) map[string]float64 {
	if len(t.Requests) == 0 {
		return nil
	}
	ended := maps.Clone(t.Requests)
	for i := range t.pages {
		for finish, n := range before.page(t.Servers[i]).Requests {
			ended[finish] = max(0, ended[finish]-n)
		}
	}
	return ended
}
