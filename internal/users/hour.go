package users

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// hourLength is how long the past is kept, in slots of slotLength.
	hourLength, slotLength = time.Hour, 5 * time.Minute
	// minP50 and minP99 are the fewest requests with a median and a 99th percentile, as of probes.
	minP50, minP99 = 10, 100
	// muchMore is how many times as much as in the hour before is worth a word.
	muchMore = 2
)

// moment is what users' requests were like for a while.
type moment struct {
	bounds   []float64 // of the TTFT
	counts   []uint64  // up to each bound, and of all; nil where servers have different bounds
	ended    float64   // requests of which it is known whether they failed
	failures failures
	lengths  float64 // requests of which the prompts have been counted
	prompts  float64 // their tokens
}

// momentOf returns what increments show that count for objectives: of how requests ended, and of the TTFT.
func momentOf(used series.Set, ends, ttft []increment) *moment {
	m := new(moment)
	for i := range ends {
		if c := &ends[i]; used.Has(series.Availability) && !c.late {
			m.ended += c.good
			for kind, n := range c.failures {
				m.failures[kind], m.ended = m.failures[kind]+n, m.ended+n
			}
		}
	}
	mixed := false
	for i := range ttft {
		c := &ttft[i]
		h := c.latency[series.TTFT]
		if !used.Has(series.TTFT) || c.late || h == nil {
			continue
		}
		one := moment{bounds: h.Bounds, counts: append(slices.Clone(h.Counts), h.Count)}
		if c.prompts > 0 {
			one.lengths, one.prompts = float64(h.Count), c.prompts
		}
		mixed = mixed || m.counts != nil && !slices.Equal(m.bounds, h.Bounds)
		m.add(&one)
	}
	if mixed {
		m.counts = nil
	}
	return m
}

// add adds another moment. A histogram with other bounds takes the place of the one before.
func (m *moment) add(more *moment) {
	m.ended, m.lengths, m.prompts = m.ended+more.ended, m.lengths+more.lengths, m.prompts+more.prompts
	for kind, n := range more.failures {
		m.failures[kind] += n
	}
	if more.counts == nil {
		return
	}
	if m.counts == nil || !slices.Equal(m.bounds, more.bounds) {
		m.bounds, m.counts = more.bounds, make([]uint64, len(more.counts))
	}
	for i, n := range more.counts {
		m.counts[i] += n
	}
}

type hour struct{ slots []slot }

type slot struct {
	start time.Time
	moment
}

// add adds the moment that ended at a time and, where requests of it are bad, returns what is different from what was usual.
// As long as something is, the moment is not usual.
func (h *hour) add(at time.Time, m *moment, bad bool) (why string) {
	h.slots = stats.DropOld(h.slots, func(s slot) bool { return at.Sub(s.start) > hourLength })
	if usual := h.since(time.Time{}); bad {
		if why = m.different(usual); why != "" && usual.ended+usual.lengths > 0 {
			m = &moment{bounds: m.bounds, counts: m.counts}
		}
	}
	if n := len(h.slots); n == 0 || at.Sub(h.slots[n-1].start) >= slotLength {
		h.slots = append(h.slots, slot{start: at})
	}
	h.slots[len(h.slots)-1].add(m)
	return why
}

// since returns all that is kept since a time, of the TTFT what has the bounds of the latest.
func (h *hour) since(from time.Time) *moment {
	all := new(moment)
	for i := range h.slots {
		if s := &h.slots[i]; !s.start.Before(from) {
			all.add(&s.moment)
		}
	}
	return all
}

// window returns the times to first token of the last hour.
func (h *hour) window(now time.Time) Window {
	m := h.since(now.Add(-hourLength))
	if m.counts == nil {
		return Window{}
	}
	w := Window{Samples: m.counts[len(m.counts)-1], Seconds: map[string]float64{}}
	between := func(name string, least uint64, p float64) {
		if w.Samples < least {
			return
		}
		rank := uint64(stats.Rank(int(w.Samples), p))
		i := slices.IndexFunc(m.counts, func(n uint64) bool { return n >= rank })
		w.Seconds[name+"_lower"] = append([]float64{0}, m.bounds...)[i]
		if i < len(m.bounds) {
			w.Seconds[name+"_upper"] = m.bounds[i]
		}
	}
	between("p50", minP50, 0.5)
	between("p99", minP99, 0.99)
	return w
}

// different says in what a moment differs from what was usual before.
func (m *moment) different(before *moment) string {
	var grew []string
	for kind, words := range [numFailures]string{
		ended: "ended with an error", status: "had a status of 5xx", rejected: "were rejected at admission", perhaps: "failed, perhaps for mistakes of clients",
	} {
		if n := m.failures[kind]; n > 0 && (before.ended == 0 || n*before.ended > muchMore*before.failures[kind]*m.ended) {
			grew = append(grew, fmt.Sprintf("%.0f %s", n, words))
		}
	}
	var all []string
	if len(grew) > 0 {
		all = append(all, fmt.Sprintf("of %.0f requests %s", m.ended, strings.Join(grew, ", ")))
	}
	if mean, usual := m.prompts/m.lengths, before.prompts/before.lengths; m.lengths >= minP50 && before.lengths >= minP99 && mean > muchMore*usual {
		all = append(all, fmt.Sprintf("prompts of %.0f tokens in the mean, %.0f in the hour before", mean, usual))
	}
	return strings.Join(all, "; ")
}
