package status

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
)

const (
	// maxChanges is how many changes of an endpoint are kept.
	maxChanges = 50
	// windowAge is how old the window in a row may get without a new probe.
	windowAge = time.Minute
)

// Endpoint is what is kept of one endpoint. It is safe for concurrent use.
type Endpoint struct {
	board  *Board
	name   string // never changes
	health *health.Endpoint
	url    string // never changes either

	mu       sync.Mutex
	cfg      *config.Endpoint
	found    identity
	state    *health.Status // of the last look
	cause    explain.Cause  // of the state, as it was found last
	shown    rowFacts
	series   []*Probes // in the order in which they were opened
	failure  *Failure  // the latest
	servers  []page.Status
	load     *Load
	notes    []Change // the latest last
	events   events
	findings []*Module // few, for each endpoint has them
	facts    *workload.Facts

	version uint64 // of the latest change
	row     *Row   // nil is to be rebuilt; never changed
	rowAt   time.Time
}

// identity is what probes found at an endpoint; "" is not known.
type identity struct{ model, api, engine string }

// touch marks a change; e.mu is held.
func (e *Endpoint) touch() {
	e.version = e.board.version.Add(1)
	e.row = nil
}

// NewEndpoint returns an endpoint whose state is that of h and of which facts are known; nil is none. The configuration must not be changed
// afterwards.
func (b *Board) NewEndpoint(cfg *config.Endpoint, h *health.Endpoint, facts *workload.Facts) *Endpoint {
	e := &Endpoint{board: b, name: cfg.Name, health: h, cfg: cfg, state: h.Status(), facts: facts}
	if cfg.URL.URL != nil {
		e.url = cfg.URL.String()
	}
	return e
}

// Configure changes the configuration to another one of the same target. The series and their history stay.
func (e *Endpoint) Configure(cfg *config.Endpoint) {
	now := e.board.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cfg = cfg
	e.events.add(now, "configuration of the endpoint changed")
	e.notice()
	e.touch()
}

// Close ends the endpoint and its state: what is observed into its series later is lost.
func (e *Endpoint) Close() {
	e.health.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.series {
		p.closed = true
	}
	e.board.pool.Add(-len(e.series))
}

// rowFacts are the facts that a row shows.
type rowFacts struct {
	ends    health.Retirement
	changes drift.Changes
}

// notice marks a state, or facts of the row, that are not what they were; e.mu is held.
func (e *Endpoint) notice() {
	var now rowFacts
	now.ends, _ = workload.In[health.Retirement](e.facts.Latest())
	now.changes, _ = workload.In[drift.Changes](e.facts.Latest())
	if s := e.health.Status(); s != e.state || now != e.shown {
		e.state, e.shown = s, now
		e.touch()
	}
}

func (e *Endpoint) identify(r *result.Result) {
	if r.Model != e.found.model {
		e.found.model = cmp.Or(harmless(r.Model), e.found.model)
	}
	e.found.api = cmp.Or(r.API, e.found.api)
	e.found.engine = cmp.Or(r.Engine, e.found.engine)
}

// SetServers replaces what is known of the servers behind the endpoint. The statuses must not be changed afterwards.
func (e *Endpoint) SetServers(statuses []page.Status) {
	load := loadOf(statuses)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.servers = statuses
	e.events.read(e.board.now(), statuses)
	if !reflect.DeepEqual(load, e.load) {
		e.load = load
		e.touch()
	}
}

// Servers returns what SetServers set last.
func (e *Endpoint) Servers() []page.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.servers
}

// SetFindings replaces what the probes of a module show together; nil is nothing. The
// findings must not be changed afterwards.
func (e *Endpoint) SetFindings(module string, f *workload.Findings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropFindings(module)
	if f == nil {
		return
	}
	e.findings = append(e.findings, &Module{module, f})
	slices.SortFunc(e.findings, func(a, b *Module) int { return strings.Compare(a.Module, b.Module) })
	e.touch()
}

// dropFindings forgets the findings of a module; e.mu is held.
func (e *Endpoint) dropFindings(module string) {
	e.findings = slices.DeleteFunc(e.findings, func(m *Module) bool { return m.Module == module })
}

// Note adds something that happened to the changes. The text may quote a server.
func (e *Endpoint) Note(module, text string) {
	now := e.board.now()
	text = harmless(text)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addNote(now, module, text)
	e.events.add(now, text)
	e.touch()
}

// addNote keeps a finding; e.mu is held.
func (e *Endpoint) addNote(at time.Time, module, text string) {
	e.notes = stats.AppendLatest(e.notes, Change{At: stats.UnixSeconds(at), Module: module, Text: text}, maxChanges)
}

// changes returns the findings, the incidents and the restarts of the exporter, the latest first; e.mu is held.
func (e *Endpoint) changes(restarts []int64) []Change {
	all := slices.Clone(e.notes)
	for _, i := range e.health.Incidents() {
		all = append(all, Change{
			At: stats.UnixSeconds(i.Begin), Until: stats.UnixSeconds(i.End), Module: i.Module, Text: harmless(i.String()), State: i.State,
		})
	}
	slices.Reverse(all)
	for _, at := range restarts {
		all = append(all, Change{At: float64(at), Text: restarted})
	}
	slices.SortStableFunc(all, func(x, y Change) int { return cmp.Compare(y.At, x.At) })
	return all[:min(len(all), maxChanges)]
}

// age marks what time alone has changed.
func (e *Endpoint) age(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notice()
	if e.row == nil || now.Sub(e.rowAt) < windowAge {
		return
	}
	e.rowAt = now
	if p := e.first(); p != nil && !reflect.DeepEqual(p.window(now), e.row.Window) {
		e.touch()
	}
}

// latest returns the row, nil where nothing has changed after a version, and the state.
func (e *Endpoint) latest(now time.Time, since uint64) (*Row, health.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version <= since {
		return nil, e.state.State
	}
	return e.currentRow(now), e.state.State
}

// currentRow returns the row; e.mu is held.
func (e *Endpoint) currentRow(now time.Time) *Row {
	if e.row == nil {
		e.row, e.rowAt = e.makeRow(), now
	}
	return e.row
}

func (e *Endpoint) makeRow() *Row {
	row := &Row{
		Name: e.name, URL: e.url, Labels: e.cfg.Labels,
		Model:  cmp.Or(e.found.model, e.cfg.Model),
		API:    cmp.Or(e.found.api, e.cfg.API),
		Engine: cmp.Or(e.found.engine, e.cfg.Servers.Engine),
		State:  e.state.State, Since: stats.UnixSeconds(e.state.Since), Why: e.why(),
		ProbesSince: e.state.Probes, FailedSince: e.state.Failed, SpellsSince: e.state.Spells, OverSince: e.state.Over,
		Failing: e.state.Failing, Slow: e.state.Slow, Failure: e.shownFailure(), Servers: e.load,
		RetiresAt: e.shown.ends.End(), DeprecatedAt: e.shown.ends.Deprecated,
	}
	if e.state.Unmuted != health.Up { // there is something to explain
		row.Cause = e.cause
	}
	if m := e.state.Mute; m != nil {
		row.Muted = &Muted{stats.UnixSeconds(m.Until), m.Reason, e.state.Unmuted, stats.UnixSeconds(e.state.UnmutedSince)}
	}
	if c := cmp.Or(e.shown.changes.Names, e.shown.changes.Scores); c != nil {
		row.ModelChanged = &ModelChange{stats.UnixSeconds(c.Since), c.Source, harmless(c.From), harmless(c.To)}
	}
	if p := e.state.Shown(); p != nil {
		row.Incident, row.Scope, row.IncidentStart = p.Kind, p.Scope, stats.UnixSeconds(p.Start)
		row.Witness, row.SeenBy = p.Witness, harmless(p.Means())
	}
	if p := e.first(); p != nil {
		p.fill(row)
	}
	e.sum(row)
	return row
}

// SetCause sets the likeliest cause of what ails the endpoint; "" is none.
func (e *Endpoint) SetCause(c explain.Cause) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c != e.cause {
		e.cause = c
		e.touch()
	}
}

// why says why the endpoint is not up: of a slow one with its queue.
func (e *Endpoint) why() string {
	if e.state.Unmuted != health.Slow || e.load == nil || e.load.Waiting == nil {
		return e.state.Why
	}
	return fmt.Sprintf("%s; %.0f requests wait in the queue", e.state.Why, *e.load.Waiting)
}

// shownFailure is the latest failure. Of an endpoint that fails it is one of
// what fails, for a module that has recovered since says nothing of it.
func (e *Endpoint) shownFailure() *Failure {
	if id := e.state.LastFailed; id != nil {
		if p := e.find(*id); p != nil && p.failure != nil {
			return p.failure
		}
	}
	return e.failure
}

// sum sets what a row shows of all series that count.
func (e *Endpoint) sum(row *Row) {
	now := e.board.now()
	var counted []*series.Log
	for _, p := range e.series {
		if !p.Health.Counts() {
			continue
		}
		counted = append(counted, p.Log)
		if left := p.Log.BudgetLeft(p.options.Objectives, now); left != nil && (row.BudgetLeft == nil || *left < *row.BudgetLeft) {
			row.BudgetLeft = left
		}
		if last, ok := p.Log.Last(); ok {
			row.LastAt = max(row.LastAt, stats.UnixSeconds(last.Start()))
		}
	}
	row.Uptime = series.UptimeOf(now, counted...)
}

// first returns the series whose numbers the row shows; nil without series.
func (e *Endpoint) first() *Probes {
	if len(e.series) == 0 {
		return nil
	}
	i := slices.IndexFunc(e.series, func(p *Probes) bool { return p.options.First })
	return e.series[max(0, i)]
}

// Version returns the version of the latest change of an endpoint; false without an endpoint of this name.
func (b *Board) Version(name string) (uint64, bool) {
	e := named(b.all(), name)
	if e == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notice()
	return e.version, true
}

// Detail returns the page of an endpoint; false without an endpoint of this name.
func (b *Board) Detail(name string) (*Detail, bool) {
	e := named(b.all(), name)
	if e == nil {
		return nil, false
	}
	now, restarts := b.now(), b.Restarts()
	e.mu.Lock()
	e.notice()
	d := &Detail{Row: *e.currentRow(now), At: stats.UnixSeconds(now), Version: b.version.Load(), Facts: e.facts.Latest()}
	d.Restarts, d.Changes = restarts, e.changes(restarts)
	servers, target := e.servers, result.Target{Endpoint: e.name, URL: e.url, Price: e.cfg.Price}
	gateway := e.cfg.Gateway
	d.Findings = append([]*Module(nil), e.findings...)
	d.Series = make([]*Series, len(e.series))
	complete := make([]func(), len(e.series))
	for i, p := range e.series {
		d.Series[i], complete[i] = p.page(now, target)
	}
	e.mu.Unlock() // a page takes longer to make than a probe should wait

	for _, do := range complete {
		do()
	}
	d.Gateway = b.gateway(gateway)
	d.Pages = pagesOf(servers)
	return d, true
}

// page returns the series as the page shows it at a moment, but for what complete adds, which
// takes longer and needs no lock. e.mu is held.
func (p *Probes) page(now time.Time, t result.Target) (s *Series, complete func()) {
	t.Module = p.ID.Module
	points, kept, from := p.Log.Points(series.MaxPoints), p.Log.Kept(), p.from
	s = &Series{
		Module: p.ID.Module, Prefix: p.ID.Prefix,
		InputTokens: p.ID.InputTokens, OutputTokens: p.ID.OutputTokens, Concurrency: p.ID.Concurrency,
		Interval: p.options.Interval.Seconds(), SLO: p.options.Objectives, Runs: p.runsOf(points), Uptime: series.UptimeOf(now, p.Log),
		BudgetLeft: p.Log.BudgetLeft(p.options.Objectives, now), Fluidity: p.fluidity, Window: p.window(now),
		Steps: slices.Clone(p.steps), Probes: make([]*result.Document, 0, len(kept)),
	}
	slices.Reverse(s.Steps)
	return s, func() {
		s.History = historyOf(points, from)
		for _, k := range slices.Backward(kept) {
			s.Probes = append(s.Probes, k.Document(t))
		}
	}
}

// pagesOf returns the readings of the servers' own pages.
func pagesOf(statuses []page.Status) []*Server {
	return stats.Map(statuses, func(st page.Status) *Server {
		s := &Server{Server: st.Server, URL: st.URL, At: stats.UnixSeconds(st.At), State: st.State, Reason: st.Reason}
		if st.Err != nil {
			s.Error = harmless(st.Err.Error())
		}
		if snap := st.Snapshot; snap != nil {
			s.Engine, s.Hits, s.Settings = snap.Engine, snap.HitRatio(), snap.Settings
			s.Values = make(map[string]float64, len(snap.Values))
			for q, v := range snap.Values {
				s.Values[string(q)] = v
			}
		}
		return s
	})
}

// loadOf sums up what the servers of an endpoint say; nil without servers.
func loadOf(statuses []page.Status) *Load {
	if len(statuses) == 0 {
		return nil
	}
	l := &Load{Known: len(statuses)}
	all := page.NewTotal(statuses)
	if all == nil {
		return l
	}
	l.Up, l.Hits = len(all.Servers), all.HitRatio
	for q, into := range map[config.Quantity]**float64{
		config.RequestsRunning: &l.Running, config.RequestsWaiting: &l.Waiting, config.KVCacheUsage: &l.KVUsage,
	} {
		if v, ok := all.Values[q]; ok {
			*into = &v
		}
	}
	return l
}
