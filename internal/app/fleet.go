package app

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/status"
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
	f.hide(gone)
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
		}
		for _, a := range m.askings {
			f.probes.RemoveFindings(a.id)
		}
		f.probes.RemoveEndpoint(name)
		f.servers.Remove(name)
	}
}

// hide takes what nobody looks at any more off the status page. An endpoint that
// stays, with other settings, keeps there what was found out of it.
func (f *fleet) hide(gone map[string]*member) {
	for name, m := range gone {
		next := f.members[name]
		if next == nil || !sameTarget(m.cfg, next.cfg) {
			f.board.RemoveEndpoint(name)
			continue
		}
		kept := next.shown()
		for id := range m.shown() {
			if !kept[id] {
				f.board.CloseSeries(id)
			}
		}
	}
}

// sameTarget tells whether results of one endpoint are results of the other.
func sameTarget(a, b *config.Endpoint) bool {
	return a.URL.String() == b.URL.String() && a.API == b.API && a.Model == b.Model
}

// schedule tells the schedulers what there is to do.
func (f *fleet) schedule() {
	var probes, scrapes []schedule.Job
	for name, m := range f.members {
		for _, t := range m.tasks {
			probes = append(probes, schedule.Job{
				Key: t.key, Host: t.host, Group: name, Interval: time.Duration(t.module.Interval), Run: t.probe, Skipped: t.skip,
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
