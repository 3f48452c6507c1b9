package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// source reads pages whenever the scheduler says so: of an endpoint's servers, a gateway or accelerators.
type source struct {
	lifecycle
	reader Reader
	// facts have what probes identified; nil is nothing. Readings begin at from while the
	// model is not known, which is a label of all values of servers.
	facts *workload.Facts
	from  time.Time
	// take publishes what became of a reading of all pages.
	take func(known page.Known, statuses []page.Status)

	// Of what has a name in the configuration: fresh puts it on the pages, gone takes it off them.
	cfg         *config.MetricsPages
	fresh, gone func()
	gateway     *explain.Gateway // nil of what is none
}

// knownOf returns what probes identified by facts.
func knownOf(facts *workload.Facts) page.Known {
	known, _ := workload.In[page.Known](facts.Latest())
	return known
}

func (s *source) read(ctx context.Context, _ schedule.Run) schedule.Report {
	known := knownOf(s.facts)
	if known.Model == "" && time.Now().Before(s.from) {
		return schedule.Report{}
	}
	var statuses []page.Status
	s.run(ctx, func(ctx context.Context) { statuses = s.reader.Scrape(ctx, known) }, func() {
		short := slices.ContainsFunc(statuses, func(st page.Status) bool { return foreign.IsShortage(st.Err) })
		if ctx.Err() == nil && !short { // else ended by us, or for a lack of ours, which says nothing of the other side
			s.take(known, statuses)
		}
	})
	return schedule.Report{}
}

// readServers prepares the reading of the pages of the servers of an endpoint.
func (e *endpoint) readServers(r Reader) *source {
	log := pageLog{logger: e.fleet.Logger.With("endpoint", e.cfg.Name), section: "engines"}
	s := &source{lifecycle: newLifecycle(r.Close), reader: r, facts: e.facts}
	if e.fleet.Probing != nil {
		s.from = time.Now().Add(modelPatience)
	}
	s.take = func(known page.Known, statuses []page.Status) {
		e.seeSleep(statuses)
		there := present(statuses)
		e.metrics.SetServers(known.Model, there)
		e.metrics.SetPrecision(storedPrecision(there))
		e.read(there)
		log.all(statuses)
	}
	return s
}

// storedPrecision returns the number format of the weights that all pages that can be read show, "" where one does not.
func storedPrecision(there []page.Status) string {
	read := slices.DeleteFunc(slices.Clone(there), func(s page.Status) bool { return s.Snapshot == nil })
	if len(read) == 0 {
		return ""
	}
	first := config.StoredPrecision(read[0].Snapshot.Settings)
	if slices.ContainsFunc(read, func(s page.Status) bool { return config.StoredPrecision(s.Snapshot.Settings) != first }) {
		return ""
	}
	return first
}

// modelPatience is how long readings wait for the model that a first probe finds.
const modelPatience = 45 * time.Second

// named are sources with names in the configuration: gateways, or pages of accelerators. Never changed once in use.
type named struct {
	mappings *page.Mappings
	byName   map[string]*source
}

// newNamed returns the sources of a section of the configuration, with those of before in place of equal ones. complete
// says what becomes of the readings of one. It touches nothing else; an error leaves nothing to close.
func (f *Fleet) newNamed(
	section string, before named, m *page.Mappings, pages map[string]*config.MetricsPages, complete func(name string, s *source),
) (named, error) {
	next := named{m, make(map[string]*source, len(pages))}
	var errs []error
	for name, cfg := range pages {
		if old := before.byName[name]; old != nil && before.mappings == m && reflect.DeepEqual(old.cfg, cfg) {
			next.byName[name] = old
			continue
		}
		reader, err := f.Network.Reader(cfg.Endpoint(name), m)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", section, name, err))
			continue
		}
		next.byName[name] = &source{lifecycle: newLifecycle(reader.Close), reader: reader, cfg: cfg}
		complete(name, next.byName[name])
	}
	if err := errors.Join(errs...); err != nil {
		next.closeOthers(before)
		return named{}, err
	}
	return next, nil
}

func (n named) closeOthers(kept named) {
	for name, s := range n.byName {
		if kept.byName[name] != s {
			s.close()
		}
	}
}

// replace closes the sources that are not among next, takes names that are gone off the pages, and puts new ones on them.
func (n named) replace(next named) {
	n.closeOthers(next)
	for name, s := range n.byName {
		if next.byName[name] == nil {
			s.gone()
		}
	}
	for name, s := range next.byName {
		if n.byName[name] != s {
			s.fresh()
		}
	}
}

func (n named) jobs(prefix string) []schedule.Job {
	var jobs []schedule.Job
	for name, s := range n.byName {
		jobs = append(jobs, schedule.Job{Key: prefix + name, Host: s.cfg.Endpoint(name).URL.Host, Interval: time.Duration(s.cfg.Interval), Run: s.read})
	}
	return jobs
}

// newGateways returns the gateways of a configuration, as newNamed does.
func (f *Fleet) newGateways(cfg *config.Config) (next named, err error) {
	if f.Scraping == nil || len(cfg.Gateways) == 0 {
		return named{}, nil
	}
	before := f.active.Load()
	mappings := before.gateways.mappings
	if mappings == nil || !reflect.DeepEqual(before.gatewayMappings, cfg.GatewayMappings) {
		mappings = page.NewMappings(page.Gateways, cfg.GatewayMappings)
	}
	return f.newNamed("gateway", before.gateways, mappings, cfg.Gateways, f.completeGateway)
}

// completeGateway says what becomes of the readings of a gateway.
func (f *Fleet) completeGateway(name string, s *source) {
	log := pageLog{logger: f.Logger.With("gateway", name), section: "gateway_mappings"}
	s.gateway = explain.NewGateway(name)
	s.fresh = func() {
		s.gateway.View(func(statuses []page.Status, uses *page.GatewayUses, usuallyReady *float64) {
			f.Board.SetGateway(status.NewGateway(name, s.cfg.Software, statuses, uses, usuallyReady))
		})
	}
	s.take = func(_ page.Known, statuses []page.Status) {
		there := present(statuses)
		s.gateway.Add(there)
		s.fresh()
		log.all(statuses)
	}
	s.gone = func() { f.Board.RemoveGateway(name) }
}

// Gateways returns all gateways as they were read last. It is safe for concurrent use.
func (f *Fleet) Gateways() (all []collector.Gateway) {
	for name, s := range f.active.Load().gateways.byName {
		s.gateway.View(func(statuses []page.Status, uses *page.GatewayUses, _ *float64) {
			g := collector.Gateway{Name: name, Software: s.cfg.Software, Statuses: statuses}
			if latest := uses.Latest(); latest != nil {
				g.Software = latest.Engine
			}
			all = append(all, g)
		})
	}
	return all
}

// BehindGateways returns the gateway of each endpoint that is behind one, by its name. It is safe for concurrent use.
func (f *Fleet) BehindGateways() map[string]string {
	all := map[string]string{}
	for name, e := range f.active.Load().endpoints {
		if e.cfg.Gateway != "" {
			all[name] = e.cfg.Gateway
		}
	}
	return all
}

// ownGateway returns the latest reading of the gateway of an endpoint, if no other one is behind it.
func (f *Fleet) ownGateway(of *endpoint) []page.Status {
	if of.cfg.Gateway == "" {
		return nil
	}
	for _, e := range f.active.Load().endpoints {
		if e != of && e.cfg.Gateway == of.cfg.Gateway {
			return nil
		}
	}
	return of.gateway().Latest()
}

// newGPUPages returns the pages of accelerators of a configuration, as newNamed does.
func (f *Fleet) newGPUPages(cfg *config.Config) (named, error) {
	if f.GPUPages == nil {
		return named{}, nil
	}
	return f.newNamed("page of GPUs", f.active.Load().gpuPages, f.GPUPages.Mappings, cfg.GPUs.Pages, func(name string, s *source) {
		s.fresh = func() { f.GPUPages.Open(name, s.cfg) }
		s.gone = func() { f.GPUPages.Remove(name) }
		s.take = func(_ page.Known, statuses []page.Status) { f.GPUPages.Set(name, statuses) }
	})
}

// present returns the statuses that are published.
func present(statuses []page.Status) []page.Status {
	return slices.DeleteFunc(slices.Clone(statuses), func(st page.Status) bool { return st.Absent })
}

// pageLog logs what changes from one reading of pages to the next. It is used by one reading at a time.
type pageLog struct {
	logger  *slog.Logger
	section string                 // of the configuration, with the mappings
	states  map[string]serverState // of the last reading, by server
}

// all reports servers that come, go or change their state, and quantities that a page no longer shows.
func (s *pageLog) all(statuses []page.Status) {
	states := make(map[string]serverState, len(statuses))
	for i := range statuses {
		st := &statuses[i]
		before, seen := s.states[st.Server]
		now := serverState{st.State, st.Reason, st.Absent, before.missing}
		if !seen || before != now {
			s.one(st, seen)
		}
		if now.missing = ""; st.Snapshot != nil && len(st.Snapshot.Missing) > 0 {
			now.missing = fmt.Sprint(st.Snapshot.Missing)
		}
		if now.missing != "" && now.missing != before.missing {
			s.logger.Warn("the server's page lacks quantities that this engine always showed; if it renamed them, set them under "+s.section,
				"server", st.Server, "engine", st.Snapshot.Engine, "missing", now.missing)
		}
		states[st.Server] = now
	}
	for server := range s.states {
		if _, ok := states[server]; !ok {
			s.logger.Warn("server is gone", "server", server)
		}
	}
	s.states = states
}

type serverState struct {
	state   page.State
	reason  page.Reason
	absent  bool
	missing string // quantities
}

func (s *pageLog) one(st *page.Status, seen bool) {
	_, lacksFile := errors.AsType[*foreign.FileError](st.Err) // of this machine
	switch {
	case st.State == page.Up && seen:
		s.logger.Info("server's page is back", "server", st.Server, "engine", st.Snapshot.Engine)
	case st.State == page.Up:
		s.logger.Info("reading the server's page", "server", st.Server, "engine", st.Snapshot.Engine, "url", st.URL)
	case st.Absent && lacksFile:
		s.logger.Warn("server's page not read: a required file is unusable", "server", st.Server, "url", st.URL, "err", st.Err)
	case st.Absent:
		s.logger.Info("not a server metrics page", "server", st.Server, "url", st.URL, "reason", string(st.Reason), "err", st.Err)
	default:
		s.logger.Warn("cannot read the server's page", "server", st.Server, "url", st.URL, "state", string(st.State),
			"reason", string(st.Reason), "err", st.Err)
	}
}
