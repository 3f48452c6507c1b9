package app

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/status"
	"github.com/inference-exporter/inference_exporter/tracing"
)

// fleetParts are the parts that a fleet connects.
type fleetParts struct {
	dialer *prober.Dialer
	// probing and scraping start the probes of endpoints and the readings of
	// their servers' pages; nil is none of them.
	probing, scraping *schedule.Scheduler
	probes            *collector.Probes
	servers           *collector.Servers
	self              *collector.Self
	board             *status.Board
	traces            *traces
	budgets           *budgets
	logger            *slog.Logger
}

// fleet turns sets of endpoints into jobs of the schedulers: one task for each
// endpoint, module and rung, and one reading of the servers of each endpoint. It
// is used by one goroutine.
type fleet struct {
	fleetParts
	mappings *engine.Mappings
	modules  map[string]*config.Module
	members  map[string]*member
	refused  map[*config.Endpoint]bool // discovered ones, of which the log has told
	count    atomic.Int64              // of members, for other goroutines
}

// plan is what a fleet is to look at.
type plan struct {
	cfg       *config.Config
	mappings  *engine.Mappings
	endpoints []*config.Endpoint // those of cfg and discovered ones, each under its own name
}

// member is one endpoint with its tasks.
type member struct {
	cfg      *config.Endpoint
	modules  []*config.Module // in the order of cfg.Modules
	mappings *engine.Mappings
	found    *found
	askings  []*asking
	tasks    []*task
	scrape   *scrape // nil where pages are not read
}

func newFleet(parts fleetParts) *fleet { return &fleet{fleetParts: parts} }

// size returns how many endpoints are looked at. It is safe for concurrent use.
func (f *fleet) size() int { return int(f.count.Load()) }

// known returns the endpoints, with that of a member in place of an equal one.
func (f *fleet) known(all []*config.Endpoint) []*config.Endpoint {
	known := slices.Clone(all)
	for i, e := range known {
		if m := f.members[e.Name]; m != nil {
			known[i] = m.cfg
		}
	}
	return known
}

// apply makes the endpoints of p those that are looked at. What stays as it was
// keeps its probers and series. After an error the old plan goes on.
func (f *fleet) apply(p plan) error {
	modules := keepEqual(f.modules, p.cfg.Modules)
	next, fresh, err := f.build(p, modules)
	if err != nil {
		for _, m := range fresh {
			m.close()
		}
		return err
	}
	gone := maps.Clone(f.members)
	maps.DeleteFunc(gone, func(name string, m *member) bool { return next[name] == m })
	f.members, f.modules, f.mappings = next, modules, p.mappings
	f.retire(gone)
	for _, m := range fresh {
		f.introduce(m)
	}
	f.budgets.keep(func(name string) bool { return next[name] != nil })
	f.schedule()
	f.count.Store(int64(len(next)))
	f.self.SetEndpoints(len(next))
	return nil
}

// keepEqual returns the modules of next, with those of before in place of equal
// ones, so that what did not change is the same pointer.
func keepEqual(before, next map[string]*config.Module) map[string]*config.Module {
	kept := maps.Clone(next)
	for name, m := range next {
		if old := before[name]; reflect.DeepEqual(old, m) {
			kept[name] = old
		}
	}
	return kept
}

// build returns the members of a plan, those that are new among them apart, and
// touches nothing else.
func (f *fleet) build(p plan, modules map[string]*config.Module) (next map[string]*member, fresh []*member, err error) {
	next = make(map[string]*member, len(p.endpoints))
	listed := make(map[*config.Endpoint]bool, len(p.cfg.Endpoints))
	for _, e := range p.cfg.Endpoints {
		listed[e] = true
	}
	refused := map[*config.Endpoint]bool{}
	for _, cfg := range p.endpoints {
		if m := f.members[cfg.Name]; m != nil && m.stays(cfg, p.mappings, modules) {
			next[cfg.Name] = m
			continue
		}
		m, err := f.newMember(cfg, p.mappings, modules)
		if err != nil && listed[cfg] {
			return nil, fresh, err
		}
		if err != nil {
			refused[cfg] = true
			if !f.refused[cfg] {
				f.logger.Warn("a discovered endpoint cannot be used", "endpoint", cfg.Name, "err", err)
			}
			continue
		}
		fresh = append(fresh, m)
		next[cfg.Name] = m
	}
	f.refused = refused
	return next, fresh, nil
}

// stays tells whether a member is what a plan wants.
func (m *member) stays(cfg *config.Endpoint, mappings *engine.Mappings, modules map[string]*config.Module) bool {
	if m.mappings != mappings || m.cfg != cfg && !reflect.DeepEqual(m.cfg, cfg) {
		return false
	}
	for i, name := range m.cfg.Modules {
		if m.modules[i] != modules[name] {
			return false
		}
	}
	return true
}

// newMember builds the probers and the readers of an endpoint and touches
// nothing else.
func (f *fleet) newMember(cfg *config.Endpoint, mappings *engine.Mappings, modules map[string]*config.Module) (*member, error) {
	m := &member{cfg: cfg, mappings: mappings, found: &found{known: engine.Known{Model: cfg.Model}}}
	for _, name := range cfg.Modules {
		m.modules = append(m.modules, modules[name])
	}
	err := f.addTasks(m)
	if err == nil {
		err = f.addScrape(m)
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// addTasks gives an endpoint a task for each of its modules.
func (f *fleet) addTasks(m *member) error {
	if f.probing == nil {
		return nil
	}
	cfg := m.cfg
	endpoint, err := prober.NewEndpoint(cfg, prober.Options{Dialer: f.dialer, UserAgent: userAgent()})
	if err != nil {
		return err
	}
	load := new(ownLoad)
	for i, name := range cfg.Modules {
		module := m.modules[i]
		shared := newAsking(cfg, name, module, f.logger.With("endpoint", cfg.Name, "module", name))
		shared.board = f.board
		m.askings = append(m.askings, shared)
		for _, rung := range module.Rungs() {
			p, err := endpoint.New(rung.Module)
			if err != nil {
				return err
			}
			t := f.newTask(cfg, name, rung, p)
			t.asking, t.found, t.load = shared, m.found, load
			m.tasks = append(m.tasks, t)
		}
	}
	return nil
}

// newTask returns the task of one rung of a module.
func (f *fleet) newTask(cfg *config.Endpoint, name string, rung config.Rung, p *prober.Prober) *task {
	id := rungID(cfg, name, rung)
	logger := f.logger.With("endpoint", cfg.Name, "module", name)
	if id.InputTokens != "" {
		logger = logger.With("input_tokens", id.InputTokens)
	}
	if id.OutputTokens != "" {
		logger = logger.With("output_tokens", id.OutputTokens)
	}
	return &task{
		flight: flight{release: p.Close},
		key:    taskKey(id), host: cfg.URL.Host,
		id: id, module: rung.Module, prober: p,
		spending: newSpending(cfg, rung.Module, f.budgets.of(cfg)),
		probes:   f.probes, servers: f.servers, self: f.self, traces: f.traces,
		target: tracing.Target{Endpoint: cfg.Name, Module: name, URL: cfg.URL.String(), MaxTokens: rung.OutputTokens.Max()},
		logger: logger,
	}
}

// taskKey places the task on its grid. The rungs of a ladder come at different
// times.
func taskKey(id collector.ID) string {
	key := id.Endpoint + "\x00" + id.Module
	if id.InputTokens != "" || id.OutputTokens != "" {
		key += "\x00" + id.InputTokens + "\x00" + id.OutputTokens
	}
	return key
}

// addScrape gives an endpoint the reading of its servers' pages.
func (f *fleet) addScrape(m *member) error {
	if f.scraping == nil {
		return nil
	}
	e, err := engine.New(m.cfg, engine.Options{Mappings: m.mappings, UserAgent: userAgent()})
	if err != nil {
		return err
	}
	var from time.Time
	if f.probing != nil {
		from = time.Now().Add(modelPatience)
	}
	m.scrape = &scrape{
		flight: flight{release: e.Close}, endpoint: e, found: m.found, servers: f.servers, board: f.board, from: from,
		id:     serversID(m.cfg),
		logger: f.logger.With("endpoint", m.cfg.Name),
	}
	return nil
}

// modelPatience is how long readings wait for a first probe to tell the model.
const modelPatience = 45 * time.Second

// serversID is how the servers of an endpoint are known before any of them was
// asked.
func serversID(cfg *config.Endpoint) collector.ServersID {
	return collector.ServersID{Endpoint: cfg.Name, Model: cfg.Model, Engine: cfg.Servers.Engine, Labels: cfg.Labels}
}

// userAgent is what every request says of its sender.
func userAgent() string { return "inference_exporter/" + version.Version }

func (f *fleet) introduce(m *member) {
	f.board.SetEndpoint(m.cfg)
	f.probes.SetEndpoint(collector.EndpointInfo{
		Endpoint: m.cfg.Name, Model: m.cfg.Model, API: m.cfg.API, URL: m.cfg.URL.String(), Labels: m.cfg.Labels,
		Hardware: m.cfg.Hardware, Price: m.cfg.Price, Budget: f.budgets.used(m.cfg),
	})
	f.servers.Set(serversID(m.cfg), nil)
	for _, a := range m.askings {
		a.series = f.probes.Findings(a.id)
	}
	for i, t := range m.tasks {
		t.series = openSeries(f.probes, m.cfg, t.module, t.id)
		t.series.show(f.board, m.cfg, t.module, t.id, i == 0)
	}
}

// retire takes members off the page. Their series go after their tasks have
// closed, so that nothing comes back.
func (f *fleet) retire(gone map[string]*member) {
	for name, m := range gone {
		m.close()
		for _, t := range m.tasks {
			closeSeries(f.probes, t.module, t.id)
			hideSeries(f.board, t.module, t.id)
		}
		for _, a := range m.askings {
			f.probes.RemoveFindings(a.id)
		}
		f.probes.RemoveEndpoint(name)
		f.servers.Remove(name)
		f.board.RemoveEndpoint(name)
	}
}

// schedule tells the schedulers what there is to do.
func (f *fleet) schedule() {
	var probes, scrapes []schedule.Job
	for name, m := range f.members {
		for _, t := range m.tasks {
			probes = append(probes, schedule.Job{
				Key: t.key, Host: t.host, Interval: time.Duration(t.module.Interval), Run: t.probe, Skipped: t.skipped,
			})
		}
		if m.scrape != nil {
			scrapes = append(scrapes, schedule.Job{
				Key: name, Host: m.cfg.URL.Host, Interval: time.Duration(m.cfg.Servers.Interval), Run: m.scrape.read,
			})
		}
	}
	if f.probing != nil {
		f.probing.Update(probes)
	}
	if f.scraping != nil {
		f.scraping.Update(scrapes)
	}
}

// close drops what the probers keep.
func (f *fleet) close() {
	for _, m := range f.members {
		m.close()
	}
}

func (m *member) close() {
	for _, t := range m.tasks {
		t.close()
	}
	if m.scrape != nil {
		m.scrape.close()
	}
}
