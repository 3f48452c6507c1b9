package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// Want says what a page is read for.
type Want struct {
	// Engine is the mapping to read the page with, where the page has any series of it. Else, and with "" or a
	// name without a mapping, the sentinels decide.
	Engine string
	// Found is the engine that probing identified, "" is unknown: it decides where the page has no sentinel. A
	// page without any series, as engines without expected quantities show before their first request, is taken
	// for its page too.
	Found string
	// Model is the model of the endpoint; "" is unknown.
	Model string
	// Host is that of the page, for accelerators which it does not name the host of; "" is this machine.
	Host string
}

// Reader reads the pages of one server, one after the other, and keeps what is needed to find what
// changed between them. It is for one goroutine at a time.
type Reader struct {
	mappings *Mappings
	shown    *shown // nil of a backend
	leased   int64  // of the memory for what is kept, in bytes

	// All that follows is about pages that were read in the same way.
	way    way
	cells  []cell           // of the counters and histograms, sorted by source and set
	totals map[int32]*total // by source, where a single series is not enough
	start  float64          // of the server's process, Unix time; 0 is unknown
	cache  cacheWindow
	item   int              // of the mapping, where the use of the cache was last read from; 0 after a restart
	marks  []float64        // the value of each source of progress on the latest page that had it; NaN before
	queued bool             // requests were seen to wait since the server started
	models bool             // models of a gateway were ready on an earlier page
	worked time.Time        // when progress was last seen
	ranks  map[uint64]*rank // by the labels of their series

	backends map[string]*Reader   // of a gateway, those on the latest page by name
	xids     map[string]*xidWatch // of accelerators by UUID
}

// way is in which way a page was read.
type way struct {
	mapping  *mapping
	model    string
	filtered bool // samples of other models were left out
}

// Read reads a page that had been received at a time. The error is a *PageError. The page is not kept and
// not changed, but must be for this call alone: its last byte may be written with what it is.
func (r *Reader) Read(text []byte, contentType string, at time.Time, w Want) (*Snapshot, error) {
	p, err := openPage(text, contentType)
	if err != nil {
		return nil, err
	}
	c, names := r.mappings.recognise(p, w.Engine)
	if c != nil && c.exporter != nil && w.Engine != "" && c.name != w.Engine {
		c = nil // configured, or not read at all
	}
	// A new release may have renamed the sentinel. The other names of a fallback prove nothing.
	if m := r.mappings.byName[w.Found]; c == nil && m != nil && !m.config.Fallback {
		c, _ = r.mappings.recognise(p, w.Found)
	}
	if c == nil {
		if c, err = r.unrecognised(p, names, w); err != nil {
			return nil, err
		}
	}
	s := r.mappings.scratch.Get().(*scratch)
	defer func() {
		if s.release() {
			r.mappings.scratch.Put(s)
		}
	}()
	s.host = w.Host
	filtered, p, err := s.gatherOf(p, c, w.Model)
	if err != nil {
		return nil, err
	}
	if c.exporter != nil {
		return r.readDevices(c, s, p, at)
	}
	backends := s.byBackend(c)
	if !r.shown.admit(maps.Keys(backends), maxShownBackends, at) {
		backends = nil
	}
	if err := s.assemble(p, c); err != nil {
		return nil, err
	}
	read := way{c, w.Model, filtered}
	r.follow(read, s)
	snap := r.snapshot(c, s, at)
	snap.Settings = r.settings(c, s, at)
	if len(c.config.Backend) > 0 {
		if err := r.readBackends(read, s, p, snap, backends); err != nil {
			return nil, err
		}
	}
	if err := r.keep(c); err != nil {
		return nil, err
	}
	if err := r.shown.checkBuckets(snap); err != nil {
		return nil, err
	}
	return snap, nil
}

// unrecognised returns the mapping of a page without series where an engine is known, and for any other
// page that no mapping recognises why it is not read: it may be no page at all.
func (r *Reader) unrecognised(p *page, names []string, w Want) (*mapping, error) {
	if p.json { // it may be anything
		return nil, notText(mediaJSON)
	}
	if err := p.each(func() error { return nil }, func() {}); err != nil {
		return nil, err
	}
	m := r.mappings.byName[cmp.Or(w.Engine, w.Found)]
	switch {
	case p.samples > 0 && len(names) == 0:
		return nil, pageErrorf(ReasonUnmapped, "the page has series of a client library only")
	case p.samples > 0:
		return nil, pageErrorf(ReasonUnmapped, "no mapping knows %s, ...", strings.Join(names, ", "))
	case r.mappings.role == Accelerators:
		return nil, pageErrorf(ReasonUnmapped, "no series of %s", cmp.Or(w.Engine, "any known exporter of GPUs"))
	case m == nil, len(r.mappings.mapping(m).expected) > 0:
		return nil, pageErrorf(ReasonFormat, "page without series")
	}
	return r.mappings.mapping(m), nil
}

// follow works out the results of a page, and brings what is kept to it.
func (r *Reader) follow(w way, s *scratch) {
	c := w.mapping
	if r.way != w {
		*r = Reader{mappings: r.mappings, shown: r.shown, leased: r.leased, way: w, marks: noMarks(c)}
	}
	s.gauges(c)
	restarted := !r.advance(c, s)
	if started := s.results[c.start].values; started != nil {
		restarted = restarted || r.start > 0 && r.start != started[0]
		r.start = started[0]
	}
	if restarted { // what was counted before counts no more
		r.cells = slices.DeleteFunc(r.cells, func(c cell) bool { return c.gone })
		clear(r.totals)
		r.item, r.queued = 0, false
	}
	r.counters(c, s)
	r.fold(c, maxGone)
}

// snapshot makes the snapshot of a page of its results.
func (r *Reader) snapshot(c *mapping, s *scratch, at time.Time) *Snapshot {
	snap := &Snapshot{
		Engine: c.name, At: at, PrefixCacheRatio: -1, Role: s.role,
		Values:     c.numbers(s.results),
		Histograms: c.distributions(s.results),

		InputLengths: firstOf(c.inputLengths, s.results), OutputLengths: firstOf(c.outputLengths, s.results),
	}
	snap.Requests, snap.Errors = c.finished(c.requests, s.results)
	if hits, queries, item := c.cacheUse(s, r.item); item >= 0 {
		r.item = item
		snap.Values[config.PrefixCacheHits], snap.Values[config.PrefixCacheAsked] = hits, queries
		snap.PrefixCacheUnit = c.prefixCache[item].Unit
		snap.PrefixCacheRatio = r.cache.ratio(use{at, hits, queries}, item)
	}
	if r.start > 0 {
		snap.Started = time.UnixMilli(int64(r.start * 1e3))
	}
	snap.Ranks = r.readRanks(c, s, at)
	if _, shown := snap.Values[config.ModelsReady]; shown {
		r.models = true
	} else if r.models {
		snap.Values[config.ModelsReady] = 0 // a model that lost its last backend is taken off the page
	}
	r.queued = r.queued || snap.Values[config.RequestsWaiting] > 0
	snap.Missing = c.missing(snap, s, r.queued)
	snap.LastProgress = r.lastProgress(c, s, snap.idle(), at)
	return snap
}

// missing returns what a page of the engine shows and this one did not. A page of other models lacks
// nothing. Queued reports whether requests were seen to wait.
func (c *mapping) missing(snap *Snapshot, s *scratch, queued bool) []config.Quantity {
	if s.models.areTold() && !s.models.own {
		return nil
	}
	var missing []config.Quantity
	for _, q := range c.expected {
		if !snap.has(q) {
			missing = append(missing, q)
		}
	}
	served := snap.served()
	for _, q := range c.afterWork {
		if served && !snap.has(q) && snap.happened(q, queued) {
			missing = append(missing, q)
		}
	}
	if _, read := snap.Values[config.PrefixCacheAsked]; !read {
		if q, ok := c.halfShown(s); ok {
			missing = append(missing, q)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// has reports whether the page has a quantity.
func (s *Snapshot) has(q config.Quantity) bool {
	if q == config.RequestsFinished {
		_, shown := s.ended()
		return shown
	}
	_, number := s.Values[q]
	return number || s.Histograms[q] != nil
}

// count returns how many observations the page shows of a distribution.
func (s *Snapshot) count(q config.Quantity) float64 {
	if h := s.Histograms[q]; h != nil {
		return float64(h.Count)
	}
	return 0
}

// served reports whether the page says that the server has generated tokens and ended a request: only
// then all series are there that come with an event.
func (s *Snapshot) served() bool {
	n, _ := s.ended()
	return (s.idle() || s.count(config.RequestDuration) > 0 || n > 0) && (s.Values[config.GenerationTokens] > 0 || s.count(config.TTFT) > 0)
}

// happened reports whether a server that has served had anything to measure for a quantity. Some show a series
// with the first measurement only, so that the time in the queue appears with the first request that waited, and
// the time between tokens with the first answer of more than one: of more tokens than answers have begun.
func (s *Snapshot) happened(q config.Quantity, queued bool) bool {
	switch q {
	case config.QueueTime:
		return queued
	case config.InterToken, config.TPOT:
		n, _ := s.ended()
		ended := max(n, s.count(config.TTFT), s.count(config.RequestDuration))
		return s.Values[config.GenerationTokens] > ended+s.Values[config.RequestsRunning]
	}
	return true
}

// ended returns how many requests ended without an error, as far as the page shows any: an engine may never have seen the
// others.
func (s *Snapshot) ended() (n float64, shown bool) {
	for finish, count := range s.Requests {
		if finish != config.FinishClientError && finish != config.FinishError {
			n, shown = n+count, true
		}
	}
	return n, shown
}

// sumOf returns how many requests ended in any way.
func sumOf(requests map[string]float64) (sum float64) {
	for _, n := range requests {
		sum += n
	}
	return sum
}

// idle reports whether the page says that there is nothing to do.
func (s *Snapshot) idle() bool {
	requests, known := s.work()
	return known && requests == 0
}

// work returns how many requests the engine has to work on, and whether the page shows all of them: those that run, and
// those in its queue but for deferred ones. What waits for something outside of the engine, such as a transfer of KV cache
// or a grammar, is no work of its own, and while all of it sleeps it has none.
func (s *Snapshot) work() (requests float64, known bool) {
	running, ok := s.Values[config.RequestsRunning]
	waiting, ok2 := s.Values[config.RequestsWaiting]
	if s.Values[config.EnginesSleeping] > 0 && s.Values[config.EnginesAwake] == 0 {
		return 0, true
	}
	return running + max(0, waiting-s.Values[config.RequestsDeferred]), ok && ok2
}
