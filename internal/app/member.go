package app

import (
	"fmt"
	"reflect"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/tracing"
)

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
	if err := checkMember(cfg, mappings, modules); err != nil {
		return nil, err
	}
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

// checkMember finds in a discovered endpoint what a configuration is refused for.
func checkMember(cfg *config.Endpoint, mappings *engine.Mappings, modules map[string]*config.Module) error {
	if name := cfg.Servers.Engine; name != "" && mappings.Mapping(name) == nil {
		return fmt.Errorf("unknown engine %.64q", name)
	}
	for _, name := range cfg.Modules {
		if err := prober.Suits(cfg.API, modules[name]); err != nil {
			return fmt.Errorf("module %q: %w", name, err)
		}
	}
	return nil
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
			p, err := endpoint.NewProber(rung.Module)
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
func taskKey(id result.SeriesID) string {
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

// shown returns the series of a member on the status page.
func (m *member) shown() map[result.SeriesID]bool {
	all := map[result.SeriesID]bool{}
	for _, t := range m.tasks {
		for _, v := range variantsOf(t.module) {
			all[v.id(t.id)] = true
		}
	}
	return all
}

func (m *member) close() {
	for _, t := range m.tasks {
		t.close()
	}
	if m.scrape != nil {
		m.scrape.close()
	}
}
