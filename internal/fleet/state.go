package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/store"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
)

// How often the parts of the state are saved: what a process that is killed loses. What is spent of budgets is little,
// and a process that starts again and again spends it each time.
const (
	budgetInterval   = time.Second
	muteInterval     = time.Second
	endpointInterval = time.Minute
	learnedInterval  = 5 * time.Minute
)

const (
	// learnedFor is how old what was learned may be: after a week the days are other ones.
	learnedFor = 7 * 24 * time.Hour
	// historyWaits is how long what was restored waits for its endpoint, which discovery may find later, and stateWaits
	// how long its state does, and how old it may be to be saved again.
	historyWaits, stateWaits = time.Hour, 24 * time.Hour
	// maxPasts bounds the endpoints that are restored.
	maxPasts = 1 << 20
)

// Parts returns what survives a restart of the exporter. Loading comes before Apply.
func (f *Fleet) Parts() []store.Part {
	mutes := f.Health.Mutes
	parts := []store.Part{
		{Name: "budgets", Every: budgetInterval, Revision: f.budgets.revision, Save: f.budgets.save, Load: f.budgets.restore},
		{Name: "mutes", Every: muteInterval, Revision: mutes.Revision, Save: mutes.Save, Load: mutes.Restore},
		{Name: "endpoints", Every: endpointInterval, Revision: f.Board.Revision, Save: f.saveEndpoints, Load: f.restore},
		{Name: "learned", Every: learnedInterval, Revision: f.Board.Revision, Save: f.saveLearned, Load: f.restore},
	}
	if r := f.Recorder; r != nil {
		parts = append(parts, store.Part{Name: "recordings", Every: endpointInterval, Revision: r.Revision, Save: r.Save, Load: r.Restore})
	}
	return parts
}

// saved is a record of one of its fields: of the exporter its restarts, as Unix times, of an endpoint the rest. It
// holds names of the configuration, times and numbers, and the texts that health.Saved and drift.SavedServed do.
type saved struct {
	Restarts []int64 `json:"restarts,omitempty"`

	Endpoint string `json:"endpoint,omitempty"`
	// Target is a hash of what is probed.
	Target  uint64        `json:"target,omitempty"`
	State   *health.Saved `json:"state,omitempty"`
	Series  *savedSeries  `json:"series,omitempty"`
	Learned *savedLearned `json:"learned,omitempty"`
	// Models are names of models as the endpoint had them.
	Models *drift.SavedServed `json:"models,omitempty"`
	// Differ is since when the servers have differed in settings; it comes with State.
	Differ map[config.Setting]time.Time `json:"differ,omitempty"`
	// Week is what the servers carried; it comes with State.
	Week *page.SavedWeek `json:"week,omitempty"`
}

type savedSeries struct {
	result.SeriesID
	status.SavedSeries
}

// savedLearned is what estimates learned of the steps of a series, or of the tracker of a module.
type savedLearned struct {
	result.SeriesID
	// Asked is a hash of what is asked.
	Asked uint64 `json:"asked"`
	// At is when it was saved.
	At      time.Time              `json:"at"`
	Steps   *series.Steps          `json:"steps,omitempty"`
	Tracker *workload.SavedTracker `json:"tracker,omitempty"`
}

// past is what is known of an endpoint before it is built.
type past struct {
	target  uint64 // hash
	state   *health.Saved
	served  *result.Result // by the endpoint before; nil is not known
	models  *drift.SavedServed
	differ  map[config.Setting]time.Time
	week    *page.SavedWeek
	series  map[result.SeriesID]*status.Past
	learned map[result.SeriesID]*savedLearned // of a tracker by the module alone
}

func newPast(target uint64) *past {
	return &past{target: target, series: map[result.SeriesID]*status.Past{}, learned: map[result.SeriesID]*savedLearned{}}
}

// learnedOf returns what was learned of a series, or of a module, that asks what asked is a hash of; zero is nothing.
func (p *past) learnedOf(id result.SeriesID, asked uint64) savedLearned {
	if known := p.learned[id]; known != nil && known.Asked == asked {
		return *known
	}
	return savedLearned{}
}

// pasts are what an earlier process knew of endpoints that are not there yet. Safe for concurrent use.
type pasts struct {
	mu     sync.Mutex
	byName map[string]*past // nil where none waits: a map keeps the room that it had
	since  time.Time        // when the first of them came
}

// forget drops what has waited long enough; p.mu is held.
func (p *pasts) forget(now time.Time) {
	switch waits := now.Sub(p.since); {
	case waits > stateWaits:
		p.byName = nil
	case waits > historyWaits:
		for _, known := range p.byName {
			known.series, known.learned = nil, nil
		}
	}
}

// take returns what is known of a target, once; an empty past where that is nothing.
func (p *pasts) take(name string, target uint64, now time.Time) *past {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	known := p.byName[name]
	if delete(p.byName, name); len(p.byName) == 0 {
		p.byName = nil
	}
	if known == nil || known.target != target {
		return new(past)
	}
	return known
}

// of returns the past that a record goes into; nil where there is no room. p.mu is held.
func (p *pasts) of(s *saved, now time.Time) *past {
	if p.byName == nil {
		p.byName, p.since = map[string]*past{}, now
	}
	known := p.byName[s.Endpoint]
	switch {
	case known == nil && len(p.byName) >= maxPasts:
		return nil
	case known == nil || known.target != s.Target:
		known = newPast(s.Target)
		p.byName[s.Endpoint] = known
	}
	return known
}

// records returns what still waits: what was learned, or else the rest.
func (p *pasts) records(now time.Time, learned bool) (all []saved) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	for name, known := range p.byName {
		if learned {
			for _, l := range known.learned {
				l := *l
				if l.Steps != nil {
					l.Steps = l.Steps.Clone() // the endpoint may go on with them meanwhile
				}
				all = append(all, saved{Endpoint: name, Target: known.target, Learned: &l})
			}
			continue
		}
		if known.state != nil && now.Sub(known.state.Last) <= stateWaits {
			all = append(all, saved{Endpoint: name, Target: known.target, State: known.state, Differ: known.differ, Week: known.week})
		}
		if known.models != nil {
			all = append(all, saved{Endpoint: name, Target: known.target, Models: known.models})
		}
		for id, history := range known.series {
			record := &savedSeries{SeriesID: id}
			history.Save(&record.SavedSeries)
			all = append(all, saved{Endpoint: name, Target: known.target, Series: record})
		}
	}
	return all
}

// restore takes a record of an earlier process. What cannot be true is refused.
func (f *Fleet) restore(record []byte) error {
	var s saved
	if err := json.Unmarshal(record, &s); err != nil {
		return err
	}
	if s.Restarts != nil {
		f.Board.RestoreRestarts(s.Restarts)
	}
	if s.State == nil && s.Series == nil && s.Learned == nil && s.Models == nil {
		return nil
	}
	if s.Endpoint == "" {
		return errors.New("not a record of an endpoint")
	}
	now := time.Now()
	f.before.mu.Lock()
	defer f.before.mu.Unlock()
	known := f.before.of(&s, now)
	switch {
	case known == nil:
		return errors.New("no room")
	case s.State != nil:
		if !s.State.IsSane(now) {
			return errors.New("not a state of an endpoint")
		}
		if err := s.Week.Check(now); err != nil {
			return err
		}
		known.state, known.differ, known.week = s.State, s.Differ, s.Week
	case s.Models != nil:
		if err := new(drift.Served).Restore(s.Models, now); err != nil {
			return err
		}
		known.models = s.Models
	case s.Series != nil:
		history, err := s.Series.Restore(now)
		if err != nil {
			return err
		}
		s.Series.Endpoint = s.Endpoint
		known.series[s.Series.SeriesID] = history
	default:
		s.Learned.Endpoint = s.Endpoint
		return known.learn(s.Learned, now)
	}
	return nil
}

// learn takes a record of what was learned that is neither of the future nor old.
func (p *past) learn(s *savedLearned, now time.Time) error {
	switch {
	case s.Module == "" || (s.Steps == nil) == (s.Tracker == nil):
		return errors.New("not a record of what was learned")
	case s.At.After(now) || s.Steps != nil && s.Steps.LastProbe().After(now):
		return errors.New("learned in the future")
	case now.Sub(s.At) > learnedFor:
		return errors.New("too old")
	}
	p.learned[s.SeriesID] = s
	return nil
}

// saveEndpoints puts the states and the histories of all endpoints, and the restarts. It returns the first error of
// put, which must not keep a record. It holds no lock while put runs. It is safe for concurrent use.
func (f *Fleet) saveEndpoints(put func(record any) error) error {
	if err := put(saved{Restarts: f.Board.Restarts()}); err != nil {
		return err
	}
	var room savedSeries // one for all, for its columns
	for name, e := range f.active.Load().endpoints {
		of := saved{Endpoint: name, Target: targetOf(e.cfg), State: e.health.Save(), Differ: e.replicas.Save(), Week: e.week.Save()}
		if of.State != nil {
			if err := put(of); err != nil {
				return err
			}
		}
		if models := e.models.Save(); models != nil {
			if err := put(saved{Endpoint: name, Target: of.Target, Models: models}); err != nil {
				return err
			}
		}
		of.State, of.Differ, of.Week, of.Series = nil, nil, nil, &room
		for _, p := range e.page.Series() {
			room.SeriesID = p.ID
			p.Save(&room.SavedSeries)
			if err := put(of); err != nil {
				return err
			}
		}
	}
	return putAll(f.before.records(time.Now(), false), put)
}

func putAll(all []saved, put func(record any) error) error {
	for _, s := range all {
		if err := put(s); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) saveLearned(put func(record any) error) error {
	now := time.Now()
	for _, e := range f.active.Load().endpoints {
		if err := e.saveLearned(now, put); err != nil {
			return err
		}
	}
	return putAll(f.before.records(now, true), put)
}

// moduleHash is a hash of all that a module asks; 0 is not known.
func moduleHash(m *config.Module) uint64 {
	settings, err := yaml.Marshal(m)
	if err != nil {
		return 0
	}
	prompts, err := json.Marshal(m.Prompts)
	if err != nil {
		return 0
	}
	asked := string(settings) + "\x00" + string(prompts)
	if a := m.Arrivals; a != nil && a.Profile != nil {
		asked += fmt.Sprint("\x00", a.Profile)
	}
	return xxhash.Sum64String(asked)
}

// askedOf is a hash of what a module asks an endpoint: what was learned of anything else does not count.
func askedOf(t Target, module uint64) uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%d\x00%d", targetOf(t.Endpoint), module))
}

func (e *endpoint) saveLearned(now time.Time, put func(record any) error) error {
	of := saved{Endpoint: e.cfg.Name, Target: targetOf(e.cfg)}
	for _, n := range e.findings {
		tracker, err := n.tracker.Save()
		if err != nil {
			return err
		}
		if tracker == nil {
			continue
		}
		of.Learned = &savedLearned{SeriesID: n.id(), Asked: n.asked, At: now, Tracker: tracker}
		if err := put(of); err != nil {
			return err
		}
	}
	for _, t := range e.tasks {
		var steps []saved // copies: no lock is held while put runs
		t.unlessClosed(func() {
			for _, s := range t.series {
				if s.steps != nil && !s.steps.LastProbe().IsZero() {
					of.Learned = &savedLearned{SeriesID: s.page.ID, Asked: s.asked, At: now, Steps: s.steps.Clone()}
					steps = append(steps, of)
				}
			}
		})
		if err := putAll(steps, put); err != nil {
			return err
		}
	}
	return nil
}

func (f *findings) restore(p *past) {
	saved := p.learnedOf(f.id(), f.asked).Tracker
	if saved == nil {
		return
	}
	if err := f.tracker.Restore(saved); err != nil {
		f.logger(f.endpoint.fleet.Logger).Warn("saved estimate is unusable; starting over", "err", err)
	}
	f.last = f.tracker.Findings()
}
