package page

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// of works out a number from the results of the sources; false without one.
func (n *number) of(results []series) (float64, bool) {
	if n.when != nil {
		if w, ok := n.when.of(results); !ok || w <= 0 {
			return 0, false
		}
	}
	v, shown := 0.0, results[n.source].values != nil
	if shown {
		v = results[n.source].values[0] * n.scale
	}
	if n.plus != nil {
		p, ok := n.plus.of(results)
		v += p
		shown = shown || ok && n.either
	}
	if !shown {
		return 0, false
	}
	if n.times != nil {
		t, ok := n.times.of(results)
		if !ok {
			return 0, false
		}
		v *= t
	}
	if n.over != nil {
		d, ok := n.over.of(results)
		if !ok || d == 0 {
			return 0, false
		}
		v /= d
	}
	return v, !math.IsInf(v, 0) && !math.IsNaN(v)
}

// of works out a histogram from the results of the sources; nil without one.
func (d *distribution) of(results []series) *Histogram {
	if d.sum != nil {
		sum, ok := d.sum.of(results)
		count, ok2 := d.count.of(results)
		if !ok || !ok2 || count > maxCount {
			return nil
		}
		return &Histogram{Count: uint64(count), Sum: sum}
	}
	res := &results[d.source]
	if res.values == nil {
		return nil
	}
	n := len(res.bounds)
	h := &Histogram{Bounds: res.bounds, Counts: make([]uint64, n), Sum: res.values[n+1] * d.scale}
	if d.scale != 1 {
		h.Bounds = slices.Clone(res.bounds)
		for i := range h.Bounds {
			h.Bounds[i] *= d.scale
		}
	}
	if !(res.values[n] <= maxCount) || math.IsInf(h.Sum, 0) {
		return nil
	}
	h.Count = uint64(res.values[n])
	last := math.Inf(-1)
	for i, b := range h.Bounds {
		h.Counts[i] = uint64(res.values[i])
		if !(b > last) || math.IsInf(b, 0) {
			return nil
		}
		last = b
	}
	return h
}

// maxCount is the largest count that is read: up to it, all whole numbers are exact.
const maxCount = 1 << 53

// numbers works out the quantities that are one number.
func (c *mapping) numbers(results []series) map[config.Quantity]float64 {
	values := map[config.Quantity]float64{}
	for q, sources := range c.values {
		for _, n := range sources {
			if v, ok := n.of(results); ok {
				if !config.IsRatio(q) || v <= 1 {
					values[q] = v
				}
				break
			}
		}
	}
	return values
}

// distributions works out the histograms.
func (c *mapping) distributions(results []series) map[config.Quantity]*Histogram {
	histograms := map[config.Quantity]*Histogram{}
	for q, sources := range c.histograms {
		if h := firstOf(sources, results); h != nil {
			histograms[q] = h
		}
	}
	return histograms
}

// firstOf returns the histogram of the first source that is there; nil for none.
func firstOf(sources []*distribution, results []series) *Histogram {
	for _, d := range sources {
		if h := d.of(results); h != nil {
			return h
		}
	}
	return nil
}

// finished adds up the ended requests of a page by how they ended, and returns what its errors consist of.
func (c *mapping) finished(items []ended, results []series) (map[string]float64, Errors) {
	requests := map[string]float64{}
	add := func(vague bool) {
		for _, item := range items {
			for i, source := range item.sources {
				if v := results[source].values; v != nil && item.vague == vague && !math.IsInf(v[0], 0) {
					requests[c.finishes[i]] += v[0]
				}
			}
		}
	}
	if add(false); len(requests) == 0 {
		add(true)
	}
	errs := Errors{requests[config.FinishError], requests[config.FinishErrorAgain], requests[config.FinishFailed]}
	n := len(requests)
	delete(requests, config.FinishErrorAgain)
	delete(requests, config.FinishFailed)
	if len(requests) < n {
		requests[config.FinishError] = max(errs.Certain, errs.Again) + errs.Maybe
	}
	return requests, errs
}

// cacheUse works out the hits of the prefix cache, the queries, and which item of the mapping they come from; an
// item < 0 is for none. The item of before comes first, as another one counts something else.
func (c *mapping) cacheUse(s *scratch, before int) (hits, queries float64, item int) {
	item = -1
	for i := range c.prefixCache {
		if h, q, ok := c.prefixCache[i].of(s); ok && (item < 0 || i == before) {
			hits, queries, item = h, q, i
		}
	}
	return hits, queries, item
}

// of works out hits and queries. Where the mapping says so, a counter of hits that does not exist yet has
// counted none.
func (p *cacheHits) of(s *scratch) (hits, queries float64, ok bool) {
	hits, shown := p.hits.of(s.results)
	queries, ok = p.queries.of(s.results)
	shown = shown || p.ZeroIfAbsent == config.ZeroOnAll || p.ZeroIfAbsent == config.ZeroOnRay && s.isOfRay(p.queries.source)
	return hits, queries, ok && shown
}

// halfShown returns the other half where the page shows only the hits or only the queries of a prefix cache:
// that one was probably renamed.
func (c *mapping) halfShown(s *scratch) (config.Quantity, bool) {
	for i := range c.prefixCache {
		p := &c.prefixCache[i]
		_, hits := p.hits.of(s.results)
		_, queries := p.queries.of(s.results)
		switch {
		case hits && !queries:
			return config.PrefixCacheAsked, true
		case queries && !hits && p.alone:
			return config.PrefixCacheHits, true
		}
	}
	return "", false
}

// windowSteps is into how many steps RatioWindow is divided.
const windowSteps = 30

// use is how a prefix cache was used up to a time.
type use struct {
	at            time.Time
	hits, queries float64
}

// cacheWindow holds what is needed to compute the use of a prefix cache over the last RatioWindow.
type cacheWindow struct {
	item   int   // of the mapping, the source
	latest use   // as the page has it
	total  use   // the same without restarts
	past   []use // totals, oldest first, at least a step apart; only the first may be out of the window
}

// ratio takes in the use at a time and returns hits over queries since the beginning of the window, or since the
// first reading where that is less; -1 where nothing was asked or the numbers contradict each other.
func (w *cacheWindow) ratio(now use, item int) float64 {
	if len(w.past) == 0 || w.item != item || now.at.Before(w.latest.at) {
		*w = cacheWindow{item: item, latest: now, total: now, past: append(w.past[:0], now)}
		return -1
	}
	w.total = use{
		at:      now.at,
		hits:    w.total.hits + increase(w.latest.hits, now.hits),
		queries: w.total.queries + increase(w.latest.queries, now.queries),
	}
	w.latest = now
	for len(w.past) > 1 && now.at.Sub(w.past[1].at) >= RatioWindow {
		w.past = slices.Delete(w.past, 0, 1)
	}
	hits, queries := w.total.hits-w.past[0].hits, w.total.queries-w.past[0].queries
	if now.at.Sub(w.past[len(w.past)-1].at) >= RatioWindow/windowSteps {
		w.past = append(w.past, w.total)
	}
	if queries > 0 && hits <= queries {
		return hits / queries
	}
	return -1
}

// increase returns what a counter has counted between two readings.
func increase(last, now float64) float64 {
	if now < last {
		return now
	}
	return now - last
}
