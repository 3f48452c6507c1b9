package collector

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// servers are those of an endpoint. The lock of its store guards them.
type servers struct {
	model    string             // that they serve; "" is not known
	block    *labelBlock        // of the endpoint; nil while there is nothing to show
	all      map[string]*server // by name; nil is none
	states   [numStates]int     // servers by index in states
	overhead overhead
}

// server is what is known of one server. Its blocks are rebuilt only when a label changes.
type server struct {
	engine string // that of the latest page, also while there is none
	// The labels that only info has.
	url, unit, role string
	block           *labelBlock
	info            []*labelBlock             // one; nil before the first page
	settings        map[config.Setting]string // of settingBlocks
	settingBlocks   []*labelBlock             // one for each
	status          *page.Status
}

// SetServers replaces what is known of the servers, and of the model: those without a status go. Snapshots and failures
// in statuses must not be changed afterwards. Latencies of another model are not compared with those of the one before.
func (e *Endpoint) SetServers(model string, statuses []page.Status) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	s := &e.servers
	model = boundModel(model)
	relabel := model != s.model
	if relabel {
		if s.model != "" {
			s.overhead = newOverhead()
		}
		s.model, s.block = model, nil
		e.store.stale.Store(true)
	}
	var all map[string]*server
	if len(statuses) > 0 {
		all = make(map[string]*server, len(statuses))
	}
	s.states = [numStates]int{}
	for i := range statuses {
		st := statuses[i]
		srv, ok := s.all[st.Server]
		if !ok {
			srv = &server{engine: e.info.ServerEngine}
		}
		all[st.Server] = srv
		srv.status = &st
		e.label(srv, relabel)
		if i := slices.Index(states(), st.State); i >= 0 {
			s.states[i]++
		}
	}
	if len(all) != len(s.all) {
		e.store.stale.Store(true)
	}
	s.all = all
	s.overhead.scraped(statuses)
}

// labelServed renders the labels of what servers show of the endpoint itself once there is something.
func (e *Endpoint) labelServed() {
	s, isKnown := &e.servers, func(v float64) bool { return !math.IsNaN(v) }
	if s.block == nil && (s.states != [numStates]int{} || slices.ContainsFunc(s.overhead.latest[:], isKnown) || e.info.Facts.Latest() != nil) {
		s.block = e.store.labels.block([]pair{{"endpoint", e.info.Endpoint}, {"model", s.model}}, e.info.Labels)
		e.store.stale.Store(true)
	}
}

// label renders the labels of a server that has a new status. The engine stays
// that of the latest page while a server is down, so that its series go on.
func (e *Endpoint) label(srv *server, relabel bool) {
	block := func(all []pair) *labelBlock { return e.store.labels.block(all, e.info.Labels) }
	base := []pair{{"endpoint", e.info.Endpoint}, {"model", e.servers.model}, {"server", srv.status.Server}, {"engine", srv.engine}}
	relabel = relabel || srv.block == nil
	snapshot := srv.status.Snapshot
	if snapshot != nil && snapshot.Engine != srv.engine {
		srv.engine, base[3].value, relabel = snapshot.Engine, snapshot.Engine, true
	}
	if relabel {
		srv.block = block(base)
		srv.info, srv.settings, srv.settingBlocks = nil, nil, nil
		e.store.stale.Store(true)
	}
	if snapshot == nil {
		return
	}
	if srv.info == nil || srv.url != srv.status.URL || srv.unit != snapshot.PrefixCacheUnit || srv.role != snapshot.Role {
		srv.url, srv.unit, srv.role = srv.status.URL, snapshot.PrefixCacheUnit, snapshot.Role
		all := append(base, pair{"url", srv.url}, pair{"prefix_cache_unit", srv.unit}, pair{"disaggregation_role", srv.role})
		srv.info = []*labelBlock{block(all)}
	}
	if !maps.Equal(srv.settings, snapshot.Settings) {
		srv.settings, srv.settingBlocks = snapshot.Settings, nil
		for _, name := range slices.Sorted(maps.Keys(srv.settings)) {
			all := append(base, pair{"setting", string(name)}, pair{"value", srv.settings[name]})
			srv.settingBlocks = append(srv.settingBlocks, block(all))
		}
	}
}

// ObserveProbe takes from a result the time that the servers do not see. untimed means that its latencies do not count.
func (e *Endpoint) ObserveProbe(r *result.Result, untimed bool) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	e.servers.overhead.observe(r, !untimed && !r.Imprecise)
}

// CountBursts adds to the number of loads that the exporter puts on the endpoint: 1 as one begins, -1 as it ends. Their requests are
// neither probes nor others' traffic, so that the comparison with histograms, which count them, begins again after each.
func (e *Endpoint) CountBursts(n int) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	o := &e.servers.overhead
	o.bursts = max(0, o.bursts+n) // it may have begun with another model
	o.restart()
}

// readServers takes what servers show now.
func (p *probesPage) readServers() {
	p.servedNow, p.serversNow = make([]labelled[servedValues], len(p.served)), make([]labelled[serverValues], len(p.servers))
	for i, e := range p.served {
		s := &e.servers
		p.servedNow[i] = labelled[servedValues]{s.block, servedValues{s.states, s.overhead.latest, e.info.Facts.Latest()}}
	}
	for i, srv := range p.servers {
		v := serverValues{status: srv.status}
		if srv.status.Snapshot != nil {
			v.info, v.settings = srv.info, srv.settingBlocks
		}
		p.serversNow[i] = labelled[serverValues]{srv.block, v}
	}
}

// numStates is the number of states of a server.
const numStates = 4

// states lists the closed set of states of a server.
func states() []page.State {
	return []page.State{page.Up, page.Down, page.Unreadable, page.Unmapped}
}

// scrapeReasons lists the closed set of reasons why a page was not read.
func scrapeReasons() []page.Reason {
	return []page.Reason{
		page.ReasonDNS, page.ReasonConnect, page.ReasonTLS, page.ReasonTimeout, page.ReasonStatus,
		page.ReasonTooLarge, page.ReasonFormat, page.ReasonDuplicate, page.ReasonType, page.ReasonBuckets,
		page.ReasonUnmapped,
	}
}

// serverValues is the state behind the samples of one server.
type serverValues struct {
	info     []*labelBlock // one; none without a page
	settings []*labelBlock
	status   *page.Status
}

// serverFamilies returns the families of servers in the order of the documentation.
func serverFamilies() []*familyOf[serverValues] {
	ratio := statusGauge("server_prefix_cache_hit_ratio", func(st *page.Status) float64 {
		return workload.Part(st.Snapshot, func(s *page.Snapshot) float64 { return workload.Known(s.HitRatio()) })
	})
	finishes := config.Finishes()
	requests := newOf("server_requests_total", emitEach(func(v serverValues, i int) float64 {
		return workload.Part(v.status.Snapshot, func(s *page.Snapshot) float64 { return measure(Counter, s.Requests, finishes[i]) })
	}))
	return slices.Concat(
		readingFamilies(),
		rankFamilies(),
		quantityFamilies("load"),
		quantityFamilies("prefix cache"), []*familyOf[serverValues]{ratio}, quantityFamilies("external cache"),
		quantityFamilies("tokens"), []*familyOf[serverValues]{requests}, quantityFamilies("work"),
		quantityFamilies("transfers"),
		quantityFamilies("estimates"),
		quantityFamilies("distributions"),
	)
}

// readingFamilies are how the readings of the pages went.
func readingFamilies() []*familyOf[serverValues] {
	reasons, quantities := scrapeReasons(), config.Quantities(config.ServerSoftware)
	return []*familyOf[serverValues]{
		statusGauge("server_up", func(st *page.Status) float64 { return workload.Number(st.State == page.Up) }),
		newInfo("server_info", func(v serverValues) []*labelBlock { return v.info }),
		newInfo("server_setting_info", func(v serverValues) []*labelBlock { return v.settings }),
		statusGauge("server_scrape_duration_seconds", func(st *page.Status) float64 {
			return workload.If(!st.At.IsZero(), st.Duration.Seconds())
		}),
		statusGauge("server_last_scrape_timestamp_seconds", func(st *page.Status) float64 { return workload.Unix(st.At) }),
		newOf("server_scrape_failures_total", func(e encoder, f *family, v serverValues) {
			for _, i := range f.order {
				if n := v.status.Failures[reasons[i]]; n > 0 || !e.out().compact {
					e.counter(i, float64(n))
				}
			}
		}),
		newOf("server_quantity_missing", emitEach(func(v serverValues, i int) float64 {
			s := v.status.Snapshot
			return workload.If(s != nil && slices.Contains(s.Missing, quantities[i]), 1)
		})),
		statusGauge("server_last_progress_timestamp_seconds", func(st *page.Status) float64 { return workload.Unix(st.LastProgress) }),
	}
}

// rankStats lists the closed set of which rank a number is of.
func rankStats() []string { return []string{"smallest", "largest"} }

// rankFamilies are what the ranks of a server show.
func rankFamilies() []*familyOf[serverValues] {
	families := []*familyOf[serverValues]{newOf("server_ranks", emitOne(func(v serverValues) float64 {
		return workload.Positive(float64(v.ranks().Number))
	}))}
	for i, name := range []string{"requests_running", "requests_waiting", "kv_cache_usage_ratio", "generation_tokens_per_second"} {
		q := page.RankQuantities()[i]
		families = append(families, newOf("server_rank_"+name, emitEach(func(v serverValues, bound int) float64 {
			bounds, known := v.ranks().Bounds[q]
			return workload.If(known, bounds[bound])
		})))
	}
	return append(families, newOf("server_rank_lag_start_timestamp_seconds", emitEach(func(v serverValues, i int) float64 {
		return workload.Unix([]time.Time{v.ranks().Starved, v.ranks().Slow}[i])
	})))
}

// ranks returns what the ranks of the server show; an empty value without any.
func (v serverValues) ranks() page.Ranks {
	if s := v.status.Snapshot; s != nil && s.Ranks != nil {
		return *s.Ranks
	}
	return page.Ranks{}
}

// quantityFamilies are the families of a section of the vocabulary of servers' pages.
func quantityFamilies(section string) []*familyOf[serverValues] {
	var all []*familyOf[serverValues]
	for _, row := range config.Vocabulary(config.ServerSoftware) {
		if row.Section != section {
			continue
		}
		q := row.Quantity
		f := Family{
			Name: namePrefix + "server_" + q.MetricName(), Group: GroupServer, Type: Type(row.Kind), Unit: row.Unit, Help: row.Help,
			Labels: []string{"endpoint", "model", "server", "engine"},
		}
		if f.Type == Histogram {
			f.Help += " Buckets are those of the engine; only +Inf if it reports only a sum and a count."
		}
		shown := f.Type
		if f.Unit == "seconds" { // times are no whole numbers
			shown = Gauge
		}
		all = append(all, &familyOf[serverValues]{newFamily(f, nil), func(e encoder, f *family, v serverValues) {
			s := v.status.Snapshot
			switch {
			case s == nil:
			case f.Type == Histogram:
				if h := s.Histograms[q]; isShown(h) {
					e.engineHistogram(h)
				}
			default:
				emitValue(e, f.Type, 0, measure(shown, s.Values, q))
			}
		}})
	}
	return all
}

// statusGauge returns a family of one gauge for each server, up or not.
func statusGauge(name string, get func(st *page.Status) float64) *familyOf[serverValues] {
	return newOf(name, emitOne(func(v serverValues) float64 { return get(v.status) }))
}

// measure returns the value of a key, a whole number of a counter; NaN where there is none.
func measure[K comparable](t Type, values map[K]float64, key K) float64 {
	v, ok := values[key]
	switch {
	case !ok || !isMeasure(v):
		return math.NaN()
	case t == Counter:
		return math.Round(v)
	}
	return v
}

// isMeasure reports whether v is finite and not negative.
func isMeasure(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
