// Package fleet is the runtime of endpoints. A configuration becomes targets, one for
// each endpoint and module; the targets of an endpoint are a member of the fleet; a
// member has tasks, which the scheduler runs, and whose results go to the observers
// in their order.
package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/store"
	"github.com/inference-exporter/inference_exporter/prober"
)

// Options are the parts that a fleet connects.
type Options struct {
	// Probing and Scraping start the probes of endpoints and the readings of
	// their servers' pages; nil is none of them. GPUScraping starts the readings of
	// pages of accelerators, which GPUPages keeps; both or none of them are nil.
	Probing, Scraping, GPUScraping *schedule.Scheduler
	GPUPages                       *page.GPUPages
	Probes                         *collector.Probes
	Servers                        *collector.Servers
	Self                           *collector.Self
	// Gateways shows the pages of gateways. Default: they are read and not shown.
	Gateways *collector.Gateways
	Health   *health.Monitor
	Board    *status.Board
	// GPUs returns the latest readings of the GPUs, by source; nil is none.
	GPUs func() gpu.Snapshots
	// Observers take the results after metrics and status page.
	Observers []Observer
	Logger    *slog.Logger
	// Network asks endpoints and servers; nil is the real one.
	Network Network
	// Secrets are what no text of an endpoint or a server repeats.
	Secrets *safetext.Secrets
}

// Fleet runs the endpoints: one task for each endpoint, module and rung, one reading
// of the servers of each endpoint, and probes on request. It is used by one
// goroutine, but for what says otherwise.
type Fleet struct {
	Options
	dialer   *prober.Dialer
	budgets  *budgets
	onDemand *onDemand
	explains *explainer
	learned  *learned
	engines  map[string]*config.Mapping // that mappings are of
	mappings *page.Mappings
	modules  map[string]*config.Module
	hashes   map[string]uint64 // of the modules that members are built with
	members  members
	gateways named
	gpuPages named
	// gatewayMappings are what the mappings of gateways are of.
	gatewayMappings map[string]*config.Mapping
	refused         map[*config.Endpoint]bool // discovered ones that cannot be used, which was logged
	active          atomic.Pointer[members]   // for other goroutines
}

// members are those of a plan, by the endpoint's name. They are never changed once they
// are active.
type members map[string]*member

// Plan is what a fleet is to look at.
type Plan struct {
	Config *config.Config
	// Endpoints are those to look at, of the configuration and discovered ones, each
	// under its own name. All are those that may be probed on request.
	Endpoints, All []*config.Endpoint
}

// New returns a fleet without endpoints, which must be closed.
func New(o Options) *Fleet {
	f := &Fleet{Options: o, dialer: prober.NewDialer(), budgets: newBudgets(config.Budget{})}
	if f.Gateways == nil {
		f.Gateways = collector.NewGateways()
	}
	if f.Network == nil {
		f.Network = network{f.dialer, f.Secrets}
	}
	f.onDemand = newOnDemand(f.dialer, f.budgets)
	f.active.Store(new(members))
	f.explains, f.learned = newExplainer(&f.Options, &f.active), &learned{active: &f.active, waiting: store.NewWaiting[result.SeriesID, *savedLearned](learnedWaits)}
	return f
}

// Size returns how many endpoints are looked at. It is safe for concurrent use.
func (f *Fleet) Size() int { return len(*f.active.Load()) }

// Refused returns how many discovered endpoints cannot be used.
func (f *Fleet) Refused() int { return len(f.refused) }

// Probe probes a configured endpoint, or a URL at a host that the configuration
// allows. An error means that it did not probe; a *Refusal says what is wrong with the
// request. It is safe for concurrent use.
func (f *Fleet) Probe(ctx context.Context, r ProbeRequest) (*ProbeAnswer, error) {
	return f.onDemand.probe(ctx, r)
}

// BudgetUsed returns the used shares of the budget of all endpoints, as
// schedule.Budget does. It is safe for concurrent use.
func (f *Fleet) BudgetUsed() (tokens, usd float64) { return f.budgets.all.Used() }

// Explain returns what the fleet knows of why an endpoint is as it is; false without an
// endpoint of this name. It is safe for concurrent use.
func (f *Fleet) Explain(name string) (*explain.Report, bool) { return f.explains.explain(name) }

// UserAgent is what every request says of its sender.
func UserAgent() string { return "inference_exporter/" + version.Version }

// Apply makes the endpoints of p those that are looked at. What stays as it was
// keeps its probers and series. After an error the plan before goes on.
func (f *Fleet) Apply(p Plan) error {
	mappings, err := f.mappingsOf(p.Config)
	if err != nil {
		return err
	}
	modules := keepEqual(f.modules, p.Config.Modules)
	f.hashes = moduleHashes(modules)
	nextGateways, err := f.newGateways(p.Config)
	if err != nil {
		return err
	}
	nextGPUPages, err := f.newGPUPages(p.Config)
	if err != nil {
		nextGateways.closeOthers(f.gateways)
		return err
	}
	next, fresh, err := f.build(p, modules, mappings)
	if err != nil {
		for _, m := range fresh {
			m.close()
		}
		nextGateways.closeOthers(f.gateways)
		nextGPUPages.closeOthers(f.gpuPages)
		return err
	}
	f.useGateways(nextGateways)
	f.useGPUPages(nextGPUPages)
	for _, m := range next {
		if m.parts != nil {
			m.parts.gateway.Store(nextGateways.of(m.endpoint.Gateway))
		}
	}
	gone := maps.Clone(f.members)
	maps.DeleteFunc(gone, func(name string, m *member) bool { return next[name] == m })
	f.members, f.modules, f.mappings, f.engines, f.gatewayMappings = next, modules, mappings, p.Config.Engines, p.Config.GatewayMappings
	for name, m := range gone {
		f.remove(name, m)
	}
	for _, m := range fresh {
		if before := gone[m.endpoint.Name]; before != nil {
			if sameTarget(before.endpoint, m.endpoint) {
				m.memory.Adopt(before.memory, m.seriesIDs())
				f.learned.carry(before, time.Now())
			}
			before.letGo() // one by one, so that not all are there twice
		}
		f.add(m)
	}
	f.schedule()
	f.active.Store(&next)
	f.Self.SetEndpoints(len(next))
	f.budgets.keep(func(name string) bool { return next[name] != nil })
	f.budgets.limit(p.All)
	f.budgets.share(p.Config.Global.Budget, p.Endpoints, p.Config.Modules)
	f.onDemand.use(p.Config, modules, f.known(p.All))
	return nil
}

// mappingsOf returns the mappings of a configuration: those in use where they stay
// as they are, so that the readers of pages stay too.
func (f *Fleet) mappingsOf(cfg *config.Config) (*page.Mappings, error) {
	if f.mappings != nil && reflect.DeepEqual(cfg.Engines, f.engines) {
		return f.mappings, nil
	}
	return page.NewMappings(cfg.Engines)
}

// known returns the endpoints, with that of a member in place of an equal one.
func (f *Fleet) known(all []*config.Endpoint) []*config.Endpoint {
	known := slices.Clone(all)
	for i, e := range known {
		if m := f.members[e.Name]; m != nil {
			known[i] = m.endpoint
		}
	}
	return known
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
func (f *Fleet) build(p Plan, modules map[string]*config.Module, mappings *page.Mappings) (next members, fresh []*member, err error) {
	next = make(members, len(p.Endpoints))
	listed := make(map[*config.Endpoint]bool, len(p.Config.Endpoints))
	for _, e := range p.Config.Endpoints {
		listed[e] = true
	}
	refused := map[*config.Endpoint]bool{}
	for _, e := range p.Endpoints {
		s := spec{e, targetsOf(e, modules), mappings}
		if m := f.members[e.Name]; m != nil && m.equals(s) {
			next[e.Name] = m
			continue
		}
		m, err := f.newMember(s)
		if err != nil && listed[e] {
			return nil, fresh, err
		}
		if err != nil {
			refused[e] = true
			if !f.refused[e] {
				f.Logger.Warn("discovered endpoint is unusable", "endpoint", e.Name, "err", err)
			}
			continue
		}
		fresh = append(fresh, m)
		next[e.Name] = m
	}
	f.refused = refused
	return next, fresh, nil
}

// add puts a member on the pages. The order matters: the status page reads the states.
func (f *Fleet) add(m *member) {
	e := m.endpoint
	state := f.Health.SetEndpoint(e.Name, targetOf(e))
	f.Board.SetEndpoint(e, state)
	f.Probes.SetEndpoint(collector.EndpointInfo{
		Endpoint: e.Name, Model: e.Model, API: e.API, URL: e.URL.String(), Labels: e.Labels,
		Hardware: e.Hardware, Price: e.Price, Budget: f.budgets.used(e),
		State: state.Status, Cause: func() explain.Cause { return f.explains.cause(e.Name) },
	})
	f.Servers.Set(serversID(e), nil)
	f.Gateways.SetEndpoint(e.Name, e.Gateway)
	for _, n := range m.findings {
		n.series = f.Probes.Findings(n.id)
		n.restore(f.learned, time.Now())
	}
	for i, t := range m.tasks {
		t.openSeries(i == 0)
		t.restoreSteps(f.learned, time.Now())
	}
}

// remove takes a member off the pages. Its series go after its tasks have closed, so
// that nothing comes back. A member of the same name and target, with other settings,
// keeps on the status page what is known of it.
func (f *Fleet) remove(name string, m *member) {
	m.close()
	for _, id := range m.seriesIDs() {
		f.Probes.Remove(id)
	}
	for _, n := range m.findings {
		f.Probes.RemoveFindings(n.id)
	}
	f.Probes.RemoveEndpoint(name)
	f.Servers.Remove(name)
	f.Gateways.SetEndpoint(name, "")
	next := f.members[name]
	if next == nil || !sameTarget(m.endpoint, next.endpoint) {
		f.Board.RemoveEndpoint(name)
		f.Health.RemoveEndpoint(name)
		return
	}
	kept := next.seriesIDs()
	for _, id := range m.seriesIDs() {
		if !slices.Contains(kept, id) {
			f.Health.CloseSeries(id)
			f.Board.CloseSeries(id)
		}
	}
}

// sameTarget reports whether results of one endpoint are results of the other.
func sameTarget(a, b *config.Endpoint) bool { return targetOf(a) == targetOf(b) }

// targetOf says whose the results of an endpoint are.
func targetOf(e *config.Endpoint) string { return e.URL.String() + "\x00" + e.API + "\x00" + e.Model }

// schedule gives the schedulers the jobs of all members.
func (f *Fleet) schedule() {
	var probes, scrapes []schedule.Job
	for name, m := range f.members {
		for _, t := range m.tasks {
			probes = append(probes, schedule.Job{
				Key: t.key(), Host: m.endpoint.URL.Host, Group: name, Interval: time.Duration(t.Interval), Run: t.probe, Skipped: t.skip,
			})
		}
		if m.scrape != nil {
			scrapes = append(scrapes, schedule.Job{
				Key: name, Host: m.endpoint.URL.Host, Interval: time.Duration(m.endpoint.Servers.Interval), Run: m.scrape.read,
			})
		}
	}
	scrapes = append(scrapes, f.gateways.jobs("\x00gateway\x00")...)
	if f.Probing != nil {
		f.Probing.Update(probes)
	}
	if f.Scraping != nil {
		f.Scraping.Update(scrapes)
	}
	if f.GPUScraping != nil {
		f.GPUScraping.Update(f.gpuPages.jobs(""))
	}
}

// Close ends the probes and drops what the probers keep. No probe on request may run
// with a context that goes on.
func (f *Fleet) Close() {
	f.onDemand.close()
	for _, m := range f.members {
		m.close()
	}
	f.gateways.closeOthers(named{})
	f.gpuPages.closeOthers(named{})
	_ = f.dialer.Close()
}

// spec is what a member is built from.
type spec struct {
	endpoint *config.Endpoint
	targets  []Target // in the order of the endpoint's modules
	mappings *page.Mappings
}

// equals reports whether a member of one is a member of the other too.
func (s spec) equals(other spec) bool {
	return s.mappings == other.mappings &&
		(s.endpoint == other.endpoint || reflect.DeepEqual(s.endpoint, other.endpoint)) &&
		slices.EqualFunc(s.targets, other.targets, func(a, b Target) bool { return a.Module == b.Module })
}

// check finds in a discovered endpoint what a configuration is refused for.
func (s spec) check() error {
	if name := s.endpoint.Servers.Engine; name != "" && s.mappings.Mapping(name) == nil {
		return fmt.Errorf("unknown engine %.64q", name)
	}
	for _, t := range s.targets {
		if err := prober.Suits(s.endpoint.API, t.Module); err != nil {
			return fmt.Errorf("module %q: %w", t.Name, err)
		}
	}
	return nil
}

// member is one endpoint with its tasks.
type member struct {
	spec
	identity *identity
	memory   *explain.Memory
	findings []*findings // by index in targets
	traffic  *traffic    // nil where no module asks what users ask
	parts    *ttftParts  // nil where pages are not read
	tasks    []*task
	scrape   *source // nil where pages are not read
}

// newMember builds the probers and the readers of an endpoint and touches
// nothing else.
func (f *Fleet) newMember(s spec) (*member, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	m := &member{spec: s, identity: &identity{known: page.Known{Model: s.endpoint.Model}}}
	m.traffic = newTraffic(s.targets)
	if f.Scraping != nil {
		m.parts = &ttftParts{endpoint: s.endpoint.Name, servers: f.Servers, board: f.Board}
	}
	m.memory = explain.NewMemory(s.endpoint)
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

// addTasks gives a member a task for each rung of its targets.
func (f *Fleet) addTasks(m *member) error {
	if f.Probing == nil {
		return nil
	}
	newRunner, err := f.runners(m.endpoint)
	if err != nil {
		return err
	}
	bursts := new(burstLoad)
	for _, target := range m.targets {
		found := newFindings(target, f.hashes[target.Name], m.traffic.of(), f.Board, f.Logger)
		m.findings = append(m.findings, found)
		for _, rung := range target.rungs() {
			p, err := newRunner(rung.Module)
			if err != nil {
				return err
			}
			if m.traffic != nil {
				m.traffic.follow(rung, p)
			}
			m.tasks = append(m.tasks, f.newTask(rung, p, m, found, bursts))
		}
	}
	return nil
}

// addScrape gives a member the reading of its servers' pages.
func (f *Fleet) addScrape(m *member) error {
	if f.Scraping == nil || m.endpoint.MissingSecret != "" {
		return nil
	}
	mappings := m.mappings
	if m.traffic != nil {
		mappings = mappings.WithLengths()
	}
	e, err := f.Network.Reader(m.endpoint, mappings)
	if err != nil {
		return err
	}
	m.scrape = f.readServers(m, e)
	return nil
}

// serversID identifies the servers of an endpoint before any of them was asked.
func serversID(e *config.Endpoint) collector.ServersID {
	return collector.ServersID{Endpoint: e.Name, Model: e.Model, Engine: e.Servers.Engine, Labels: e.Labels}
}

// seriesIDs returns the series of the tasks.
func (m *member) seriesIDs() []result.SeriesID {
	var all []result.SeriesID
	for _, t := range m.tasks {
		for _, v := range variantsOf(t.Module) {
			all = append(all, v.id(t.id()))
		}
	}
	return all
}

// letGo lets go of the series of a member that was closed.
func (m *member) letGo() {
	for _, t := range m.tasks {
		t.letGo()
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
