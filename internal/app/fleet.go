package app

import (
	"log/slog"
	"maps"
	"reflect"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/tracing"
)

// fleetParts are the parts that a fleet connects.
type fleetParts struct {
	dialer   *prober.Dialer
	mappings *engine.Mappings
	// probing and scraping start the probes of endpoints and the readings of
	// their servers' pages; nil is none of them.
	probing, scraping *schedule.Scheduler
	probes            *collector.Probes
	servers           *collector.Servers
	self              *collector.Self
	traces            *tracing.Exporter // nil without trace export
	logger            *slog.Logger
}

// fleet turns sets of endpoints into jobs of the schedulers: one task for each
// endpoint and module, and one reading of the servers of each endpoint. It is
// used by one goroutine.
type fleet struct {
	fleetParts
	modules map[string]*config.Module
	members map[string]*member
}

// member is one endpoint with its tasks.
type member struct {
	cfg    *config.Endpoint
	tasks  []*task
	scrape *scrape // nil where pages are not read
}

func newFleet(cfg *config.Config, parts fleetParts) *fleet {
	return &fleet{
		fleetParts: parts, modules: cfg.Modules,
		members: map[string]*member{},
	}
}

// apply makes set the endpoints that are probed. Endpoints that stay as they
// were keep their probers and series. After an error the old set goes on.
func (f *fleet) apply(set []*config.Endpoint) error {
	next := make(map[string]*member, len(set))
	var fresh []*member
	for _, cfg := range set {
		if m := f.members[cfg.Name]; m != nil && reflect.DeepEqual(m.cfg, cfg) {
			next[cfg.Name] = m
			continue
		}
		m, err := f.newMember(cfg)
		if err != nil {
			for _, m := range fresh {
				m.close()
			}
			return err
		}
		fresh = append(fresh, m)
		next[cfg.Name] = m
	}
	gone := maps.Clone(f.members)
	maps.DeleteFunc(gone, func(name string, m *member) bool { return next[name] == m })
	f.members = next
	f.retire(gone)
	for _, m := range fresh {
		f.introduce(m)
	}
	f.schedule()
	f.self.SetEndpoints(len(next))
	return nil
}

// newMember builds the probers and the readers of an endpoint and touches
// nothing else.
func (f *fleet) newMember(cfg *config.Endpoint) (*member, error) {
	m := &member{cfg: cfg}
	found := &found{known: engine.Known{Model: cfg.Model}}
	err := f.addTasks(m, found)
	if err == nil {
		err = f.addScrape(m, found)
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// addTasks gives an endpoint a task for each of its modules.
func (f *fleet) addTasks(m *member, found *found) error {
	if f.probing == nil {
		return nil
	}
	cfg := m.cfg
	endpoint, err := prober.NewEndpoint(cfg, prober.Options{Dialer: f.dialer, UserAgent: userAgent()})
	if err != nil {
		return err
	}
	for _, name := range cfg.Modules {
		module := f.modules[name]
		p, err := endpoint.New(module)
		if err != nil {
			return err
		}
		m.tasks = append(m.tasks, &task{
			flight: flight{release: p.Close},
			key:    cfg.Name + "\x00" + name, host: cfg.URL.Host, interval: time.Duration(module.Interval), timeout: time.Duration(module.Timeout),
			id: collector.ID{
				Endpoint: cfg.Name, Module: name, Prefix: string(module.Prefix), Labels: cfg.Labels,
			},
			slo:    cfg.SLOWith(module),
			prober: p, probes: f.probes, servers: f.servers, self: f.self, traces: f.traces, found: found,
			target: tracing.Target{Endpoint: cfg.Name, Module: name, URL: cfg.URL.String(), MaxTokens: module.OutputTokens.Max()},
			logger: f.logger.With("endpoint", cfg.Name, "module", name),
		})
	}
	return nil
}

// addScrape gives an endpoint the reading of its servers' pages.
func (f *fleet) addScrape(m *member, found *found) error {
	if f.scraping == nil {
		return nil
	}
	e, err := engine.New(m.cfg, engine.Options{Mappings: f.mappings, UserAgent: userAgent()})
	if err != nil {
		return err
	}
	var from time.Time
	if f.probing != nil {
		from = time.Now().Add(modelPatience)
	}
	m.scrape = &scrape{
		flight: flight{release: e.Close}, endpoint: e, found: found, servers: f.servers, from: from,
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
	f.probes.SetEndpoint(collector.EndpointInfo{
		Endpoint: m.cfg.Name, Model: m.cfg.Model, API: m.cfg.API, URL: m.cfg.URL.String(), Labels: m.cfg.Labels,
		Hardware: m.cfg.Hardware,
	})
	f.servers.Set(serversID(m.cfg), nil)
	configured, _ := api.Lookup(m.cfg.API)
	for _, t := range m.tasks {
		t.series = f.probes.Series(t.id)
		t.series.SetKind(configured.Kind)
		t.series.SetSLO(t.slo)
		t.series.SetPace(t.interval, t.timeout)
	}
}

// retire takes members off the page. Their series go after their tasks have
// closed, so that nothing comes back.
func (f *fleet) retire(gone map[string]*member) {
	for name, m := range gone {
		m.close()
		for _, t := range m.tasks {
			f.probes.Remove(t.id)
		}
		f.probes.RemoveEndpoint(name)
		f.servers.Remove(name)
	}
}

// schedule tells the schedulers what there is to do.
func (f *fleet) schedule() {
	var probes, scrapes []schedule.Job
	for name, m := range f.members {
		for _, t := range m.tasks {
			probes = append(probes, schedule.Job{
				Key: t.key, Host: t.host, Interval: t.interval, Run: t.probe, Skipped: t.skipped,
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
