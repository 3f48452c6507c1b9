package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober"
)

// spec is what a member is built from.
type spec struct {
	endpoint *config.Endpoint
	targets  []Target // in the order of the endpoint's modules
	mappings *engine.Mappings
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
	findings []*findings // by index in targets
	tasks    []*task
	scrape   *scrape // nil where pages are not read
}

// newMember builds the probers and the readers of an endpoint and touches
// nothing else.
func (f *Fleet) newMember(s spec) (*member, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	m := &member{spec: s, identity: &identity{known: engine.Known{Model: s.endpoint.Model}}}
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
	endpoint, err := prober.NewEndpoint(m.endpoint, prober.Options{Dialer: f.dialer, UserAgent: UserAgent()})
	if err != nil {
		return err
	}
	bursts := new(burstLoad)
	for _, target := range m.targets {
		found := newFindings(target, f.Board, f.Logger.With("endpoint", m.endpoint.Name, "module", target.Name))
		m.findings = append(m.findings, found)
		for _, rung := range target.rungs() {
			p, err := endpoint.NewProber(rung.Module)
			if err != nil {
				return err
			}
			m.tasks = append(m.tasks, f.newTask(rung, p, m.identity, found, bursts))
		}
	}
	return nil
}

// addScrape gives a member the reading of its servers' pages.
func (f *Fleet) addScrape(m *member) error {
	if f.Scraping == nil {
		return nil
	}
	e, err := engine.New(m.endpoint, engine.Options{Mappings: m.mappings, UserAgent: UserAgent()})
	if err != nil {
		return err
	}
	var from time.Time
	if f.Probing != nil {
		from = time.Now().Add(modelPatience)
	}
	m.scrape = &scrape{
		lifecycle: lifecycle{release: e.Close}, endpoint: e, identity: m.identity, servers: f.Servers, board: f.Board, from: from,
		id:     serversID(m.endpoint),
		logger: f.Logger.With("endpoint", m.endpoint.Name),
	}
	return nil
}

// modelPatience is how long readings wait for the model that a first probe finds.
const modelPatience = 45 * time.Second

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

func (m *member) close() {
	for _, t := range m.tasks {
		t.close()
	}
	if m.scrape != nil {
		m.scrape.close()
	}
}
