package engine

import (
	"cmp"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// Want says what a page is read for.
type Want struct {
	// Engine is the mapping to read the page with, where the page has any
	// series of it. Else, and with "" or a name without a mapping, the
	// sentinels decide.
	Engine string
	// Found is the engine that probing found out, "" is unknown: a page without
	// any series, as engines without expected quantities show before their
	// first request, is taken for its page.
	Found string
	// Model is the model of the endpoint; "" is unknown.
	Model string
}

// Reader reads the pages of one server, one after the other, and keeps what is
// needed to tell what changed between them. It is for one goroutine at a time.
type Reader struct {
	mappings *Mappings

	// All that follows is about pages that were read in the same way.
	way    way
	cells  []cell  // of the counters and histograms, sorted by source and set
	totals []total // by source
	start  float64 // of the server's process, Unix time; 0 is unknown
	cache  window
	marks  []mark    // of each source of progress on the latest page that had it
	worked time.Time // when progress was last seen
}

// way is in which way a page was read.
type way struct {
	mapping  *mapping
	model    string
	filtered bool // samples of other models were left out
}

// Read reads a page that had been received at a time. The error is a *PageError.
// The page is not kept and not changed, but must be for this call alone: its
// last byte may be written with what it is.
func (r *Reader) Read(text []byte, contentType string, at time.Time, w Want) (*Snapshot, error) {
	p, err := openPage(text, contentType)
	if err != nil {
		return nil, err
	}
	c, names := r.mappings.recognise(text, w.Engine)
	if c == nil {
		if err := unmapped(p, names); err != nil {
			return nil, err
		}
		if c = r.mappings.byName[cmp.Or(w.Engine, w.Found)]; c == nil || len(c.expected) > 0 {
			return nil, pageErrorf(ReasonFormat, "page without series")
		}
	}
	s := r.mappings.scratch.Get().(*scratch)
	defer func() {
		if s.release() {
			r.mappings.scratch.Put(s)
		}
	}()
	filtered, err := s.gather(p, c, w.Model)
	if err != nil {
		return nil, err
	}
	s.assemble(c)
	r.follow(way{c, w.Model, filtered}, s)
	return r.snapshot(c, s.results, at), nil
}

// unmapped returns why a page is not read that no mapping knows: it may be no
// page at all. It returns nil for a page without series.
func unmapped(p *page, names []string) *PageError {
	for {
		entry, err := p.next()
		switch {
		case err != nil:
			return err
		case entry >= 0:
			continue
		case p.samples == 0:
			return nil
		}
		return pageErrorf(ReasonUnmapped, "%s", describe(names))
	}
}

// follow works out the results of a page, and brings what is kept to it.
func (r *Reader) follow(w way, s *scratch) {
	c := w.mapping
	if r.way != w {
		*r = Reader{mappings: r.mappings, way: w, totals: make([]total, len(c.sources)), marks: make([]mark, len(c.progress))}
	}
	s.gauges(c)
	restarted := !r.advance(c, s)
	if started := s.results[c.start].values; started != nil {
		restarted = restarted || r.start > 0 && r.start != started[0]
		r.start = started[0]
	}
	if restarted {
		r.restart()
	}
	r.counters(c, s)
	r.fold(c)
}

// snapshot makes the snapshot of a page of its results.
func (r *Reader) snapshot(c *mapping, results []result, at time.Time) *Snapshot {
	snap := &Snapshot{
		Engine: c.name, At: at, PrefixCacheRatio: -1,
		Values:     c.numbers(results),
		Histograms: c.distributions(results),
		Requests:   c.finished(results),
	}
	if hits, queries, item := c.cacheUse(results); item >= 0 {
		snap.Values[config.PrefixCacheHits], snap.Values[config.PrefixCacheAsked] = hits, queries
		snap.PrefixCacheUnit = c.prefixCache[item].unit
		snap.PrefixCacheRatio = r.cache.ratio(use{at, hits, queries}, item)
	}
	for _, q := range c.expected {
		if !snap.has(q) {
			snap.Missing = append(snap.Missing, q)
		}
	}
	snap.LastProgress = r.lastProgress(c, results, snap.idle(), at)
	return snap
}

// has tells whether the page told a quantity.
func (s *Snapshot) has(q config.Quantity) bool {
	if q == config.RequestsFinished {
		return len(s.Requests) > 0
	}
	_, number := s.Values[q]
	return number || s.Histograms[q] != nil
}

// idle tells whether the page says that there is nothing to do.
func (s *Snapshot) idle() bool {
	running, ok := s.Values[config.RequestsRunning]
	waiting, ok2 := s.Values[config.RequestsWaiting]
	return ok && ok2 && running == 0 && waiting == 0
}
