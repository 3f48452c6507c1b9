// Package fleet is the runtime of endpoints. A configuration becomes targets, one for each endpoint and module; an
// endpoint owns its targets, tasks, pages and all that is kept of it. The scheduler runs the tasks. A reload builds a
// new snapshot of endpoints and swaps it for the one in use.
package fleet

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/prober"
)

// Options are the parts that a fleet connects.
type Options struct {
	// Probing and Scraping start the probes of endpoints and the readings of their servers' pages; nil is none of them.
	// GPUScraping starts the readings of pages of accelerators, which GPUPages keeps; both or none of them are nil.
	Probing, Scraping, GPUScraping *schedule.Scheduler
	GPUPages                       *page.GPUPages
	Probes                         *collector.Probes
	Self                           *collector.Self
	// Health is what the states of the endpoints have in common.
	Health *health.Shared
	Board  *status.Board
	// GPUs returns the latest readings of the GPUs, by source; nil is none.
	GPUs func() gpu.Snapshots
	// Observers take the results after metrics and status page.
	Observers []Observer
	Logger    *slog.Logger
	// Recorder keeps what was there around incidents; nil is none.
	Recorder *recorder.Recorder
	// Network asks endpoints and servers; nil is the real one.
	Network Network
	// Secrets are what no text of an endpoint or a server repeats.
	Secrets *safetext.Secrets
}

// Fleet runs the endpoints: one task for each endpoint, module and rung, one reading of the servers of each endpoint,
// and probes on request. It is used by one goroutine, but for what says otherwise.
type Fleet struct {
	Options
	dialer  *prober.Dialer
	budgets *budgets
	probers *keptProbers
	before  pasts                     // of an earlier process
	refused map[*config.Endpoint]bool // discovered ones that cannot be used, which was logged
	loading sync.Mutex                // held by the load test that runs: there is one at a time
	lag     lag
	active  atomic.Pointer[snapshot]
	causes  atomic.Pointer[causes]
}

// snapshot is what a fleet looks at, by name, and what it was built of. It is never changed once in use.
type snapshot struct {
	endpoints          map[string]*endpoint
	gateways, gpuPages named
	modules            map[string]*config.Module
	hashes             map[string]uint64 // of the modules
	onRequest          targets
	mappings           *page.Mappings
	engines            map[string]*config.Mapping // that mappings are of
	gatewayMappings    map[string]*config.Mapping // that those of gateways are of
}

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
	if f.GPUs == nil {
		f.GPUs = func() gpu.Snapshots { return nil }
	}
	if f.Network == nil {
		f.Network = network{f.dialer, f.Secrets}
	}
	f.probers = &keptProbers{dialer: f.dialer, probers: map[keptKey]*keptProber{}}
	f.active.Store(new(snapshot))
	f.causes.Store(new(causes))
	return f
}

// endpoint returns the endpoint of a name; nil is none. It is safe for concurrent use.
func (f *Fleet) endpoint(name string) *endpoint { return f.active.Load().endpoints[name] }

// Size returns how many endpoints are looked at. It is safe for concurrent use.
func (f *Fleet) Size() int { return len(f.active.Load().endpoints) }

// Refused returns how many discovered endpoints cannot be used.
func (f *Fleet) Refused() int { return len(f.refused) }

// BudgetUsed is schedule.Budget.Used of the budget of all endpoints. It is safe for concurrent use.
func (f *Fleet) BudgetUsed() (tokens, usd float64) { return f.budgets.all.Used() }

// State returns the state of an endpoint; nil for none of that name. It is safe for concurrent use.
func (f *Fleet) State(name string) *health.Status {
	if e := f.endpoint(name); e != nil {
		return e.health.Status()
	}
	return nil
}

// Mute mutes an endpoint from now on. The error is health.ErrNoEndpoint or one of
// health.Endpoint.Mute. It is safe for concurrent use.
func (f *Fleet) Mute(name string, d time.Duration, reason string) error {
	if e := f.endpoint(name); e != nil {
		return e.health.Mute(d, reason)
	}
	return health.ErrNoEndpoint
}

// Unmute ends the mute of an endpoint, if any. The error is health.ErrNoEndpoint. It is safe for concurrent use.
func (f *Fleet) Unmute(name string) error {
	e := f.endpoint(name)
	if e == nil {
		return health.ErrNoEndpoint
	}
	e.health.Unmute()
	return nil
}

// UserAgent is what every request says of its sender.
func UserAgent() string { return "inference_exporter/" + version.Version }

// Apply makes the endpoints of p those that are looked at. What stays as it was
// keeps its probers and series. After an error the plan before goes on.
func (f *Fleet) Apply(p Plan) error {
	next, fresh, err := f.prepare(p)
	if err != nil {
		return err
	}
	f.use(next, fresh, p)
	f.budgets.keep(func(name string) bool { return next.endpoints[name] != nil })
	f.budgets.limit(p.All)
	f.budgets.share(p.Config.Global.Budget, p.Endpoints, p.Config.Modules)
	return nil
}

// prepare makes all that can fail and touches nothing in use: a snapshot with the endpoints
// that stay as they are, and the connections of those that are new.
func (f *Fleet) prepare(p Plan) (next *snapshot, fresh []*connections, err error) {
	before := f.active.Load()
	next = &snapshot{
		endpoints: make(map[string]*endpoint, len(p.Endpoints)), modules: keepEqual(before.modules, p.Config.Modules),
		mappings: before.mappings, engines: p.Config.Engines, gatewayMappings: p.Config.GatewayMappings,
	}
	defer func() {
		if err != nil {
			for _, c := range fresh {
				c.close()
			}
			next.gateways.closeOthers(before.gateways)
			next.gpuPages.closeOthers(before.gpuPages)
		}
	}()
	next.hashes = make(map[string]uint64, len(next.modules))
	for name, m := range next.modules {
		next.hashes[name] = moduleHash(m)
	}
	if next.mappings == nil || !reflect.DeepEqual(next.engines, before.engines) {
		next.mappings = page.NewMappings(page.Servers, next.engines)
	}
	if next.gateways, err = f.newGateways(p.Config); err != nil {
		return next, nil, err
	}
	if next.gpuPages, err = f.newGPUPages(p.Config); err != nil {
		return next, nil, err
	}
	fresh, err = f.connectAll(p, next)
	return next, fresh, err
}

// connectAll puts the endpoints that stay into a snapshot, and connects new ones but for discovered ones that are unusable.
func (f *Fleet) connectAll(p Plan, next *snapshot) (fresh []*connections, err error) {
	refused := map[*config.Endpoint]bool{}
	for _, cfg := range p.Endpoints {
		s := spec{cfg, targetsOf(cfg, next.modules), next.mappings}
		if e := f.endpoint(cfg.Name); e != nil && e.equals(s) {
			next.endpoints[cfg.Name] = e
			continue
		}
		c, err := f.connect(s)
		switch {
		case err == nil:
			fresh = append(fresh, c)
		case slices.Contains(p.Config.Endpoints, cfg):
			return fresh, err
		default:
			refused[cfg] = true
			if !f.refused[cfg] {
				f.Logger.Warn("discovered endpoint is unusable", "endpoint", cfg.Name, "err", err)
			}
		}
	}
	f.refused = refused
	return fresh, nil
}

// use completes a snapshot by the endpoints of fresh, and puts it in place of the one before: on pages and in schedules.
func (f *Fleet) use(next *snapshot, fresh []*connections, p Plan) {
	before := f.active.Load()
	before.gateways.replace(next.gateways)
	before.gpuPages.replace(next.gpuPages)
	for _, c := range fresh {
		name := c.cfg.Name
		next.endpoints[name] = f.newEndpoint(c, before.endpoints[name], next.hashes)
	}
	for name, e := range before.endpoints {
		if next.endpoints[name] == nil {
			e.close()
			e.page.Close()
			e.track.Close()
		}
	}
	next.onRequest = targets{next.known(p.All), next.modules, p.Config.Global.Labels, p.Config.Probe.Allows}
	f.active.Store(next)
	f.probers.keep(next.onRequest)
	pages := make([]*status.Endpoint, 0, len(next.endpoints))
	for _, e := range next.endpoints {
		pages = append(pages, e.page)
	}
	f.Board.Show(pages)
	f.Self.SetEndpoints(len(next.endpoints))
	f.schedule(next)
}

// known returns the configurations of endpoints, with the one in use in place of an equal one.
func (s *snapshot) known(all []*config.Endpoint) []*config.Endpoint {
	known := slices.Clone(all)
	for i, cfg := range known {
		if e := s.endpoints[cfg.Name]; e != nil {
			known[i] = e.cfg
		}
	}
	return known
}

// keepEqual returns next with modules of before in place of equal ones: what did not change is the same pointer.
func keepEqual(before, next map[string]*config.Module) map[string]*config.Module {
	kept := maps.Clone(next)
	for name, m := range next {
		if old := before[name]; reflect.DeepEqual(old, m) {
			kept[name] = old
		}
	}
	return kept
}

func (f *Fleet) schedule(s *snapshot) {
	var probes, scrapes []schedule.Job
	for name, e := range s.endpoints {
		host := e.cfg.URL.Host
		for _, t := range e.tasks {
			probes = append(probes, schedule.Job{
				Key: t.key(), Host: host, Group: name, Interval: time.Duration(t.Interval), Run: t.probe, Skipped: t.skip,
			})
		}
		for _, l := range e.loads { // beside the limits of a host: it takes minutes, and there is one at a time
			probes = append(probes, schedule.Job{Key: l.key(), Host: "\x00load\x00" + name, Interval: loadRetry, Run: l.tick})
		}
		if e.cfg.Wake == config.WakeDrill && len(e.tasks) > 0 {
			probes = append(probes, schedule.Job{Key: "\x00wake\x00" + name, Host: host, Interval: time.Duration(e.cfg.WakeInterval), Run: e.starts.makeDrillDue})
		}
		if e.scrape != nil {
			scrapes = append(scrapes, schedule.Job{Key: name, Host: host, Interval: time.Duration(e.cfg.Servers.Interval), Run: e.scrape.read})
		}
	}
	scrapes = append(scrapes, s.gateways.jobs("\x00gateway\x00")...)
	if f.Probing != nil {
		f.Probing.Update(probes)
	}
	if f.Scraping != nil {
		f.Scraping.Update(scrapes)
	}
	if f.GPUScraping != nil {
		f.GPUScraping.Update(s.gpuPages.jobs(""))
	}
}

// Close ends the probes and drops what the probers keep. No probe on request may go on.
func (f *Fleet) Close() {
	f.probers.close()
	s := f.active.Load()
	for _, e := range s.endpoints {
		e.end()
	}
	s.gateways.closeOthers(named{})
	s.gpuPages.closeOthers(named{})
	_ = f.dialer.Close()
}
