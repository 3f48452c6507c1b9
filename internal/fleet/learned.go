package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/store"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

const (
	// learnedFor is how old what was learned may be: after a week the days are other ones.
	learnedFor = 7 * 24 * time.Hour
	// learnedWaits is how long what was restored waits for its endpoint, which discovery
	// may find later.
	learnedWaits = time.Hour
)

// savedLearned is a record of what estimates learned: of the steps of a series, or of
// the tracker of an endpoint and module. It holds names, times and numbers.
type savedLearned struct {
	Endpoint     string `json:"endpoint"`
	Module       string `json:"module"`
	Prefix       string `json:"prefix,omitempty"`
	InputTokens  string `json:"input_tokens,omitempty"`
	OutputTokens string `json:"output_tokens,omitempty"`
	// Asked is a hash of the endpoint's URL, model and api and of the module.
	Asked uint64 `json:"asked"`
	// At is when it was saved.
	At      time.Time              `json:"at"`
	Steps   *series.Steps          `json:"steps,omitempty"`
	Tracker *workload.SavedTracker `json:"tracker,omitempty"`
}

// id identifies what a record is of: a tracker has no prefix.
func (s *savedLearned) id() result.SeriesID {
	return result.SeriesID{
		Endpoint: s.Endpoint, Module: s.Module, Prefix: s.Prefix, InputTokens: s.InputTokens, OutputTokens: s.OutputTokens,
	}
}

// learned keeps what estimates learned over a restart, and over a change of settings
// that asks the same. It is safe for concurrent use.
type learned struct {
	revision atomic.Uint64 // grows with each run

	active *atomic.Pointer[members]

	waiting *store.Waiting[result.SeriesID, *savedLearned]
}

// SaveLearned puts what estimates learned as records, from which RestoreLearned makes it
// again in another process. It returns the first error of put, which must not keep a
// record. No task is held up while put runs. It is safe for concurrent use.
func (f *Fleet) SaveLearned(put func(record any) error) error { return f.learned.save(time.Now(), put) }

// RestoreLearned takes a record of an earlier process. It comes before Apply.
func (f *Fleet) RestoreLearned(record []byte) error { return f.learned.restore(record, time.Now()) }

// LearnedRevision returns a number that differs when there is something new for
// SaveLearned. It is safe for concurrent use.
func (f *Fleet) LearnedRevision() uint64 { return f.learned.revision.Load() }

func (l *learned) save(now time.Time, put func(record any) error) error {
	for _, m := range *l.active.Load() {
		if err := m.saveLearned(now, put); err != nil {
			return err
		}
	}
	for _, s := range l.waiting.All(now) {
		if err := put(s); err != nil {
			return err
		}
	}
	return nil
}

// restore takes a record that is neither of the future nor old.
func (l *learned) restore(record []byte, now time.Time) error {
	s := new(savedLearned)
	if err := json.Unmarshal(record, s); err != nil {
		return fmt.Errorf("decode what was learned: %w", err)
	}
	switch {
	case s.Endpoint == "" || s.Module == "" || (s.Steps == nil) == (s.Tracker == nil):
		return errors.New("not a record of what was learned")
	case s.At.After(now) || s.Steps != nil && s.Steps.LastProbe().After(now):
		return errors.New("learned in the future")
	case now.Sub(s.At) > learnedFor:
		return errors.New("too old")
	case !l.waiting.Put(s.id(), s, now):
		return errors.New("no room")
	}
	return nil
}

// carry keeps what a member learned for one that takes its place.
func (l *learned) carry(m *member, now time.Time) {
	_ = m.saveLearned(now, func(record any) error {
		s := record.(*savedLearned)
		l.waiting.Put(s.id(), s, now)
		return nil
	})
}

// take returns what was learned of a series or a tracker, once; nil where that is nothing
// or something else was asked.
func (l *learned) take(id result.SeriesID, asked uint64, now time.Time) *savedLearned {
	if s, ok := l.waiting.Take(id, now); ok && s.Asked == asked {
		return s
	}
	return nil
}

// moduleHashes returns a hash of each module, by name.
func moduleHashes(modules map[string]*config.Module) map[string]uint64 {
	all := make(map[string]uint64, len(modules))
	for name, m := range modules {
		all[name] = moduleHash(m)
	}
	return all
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

// askedOf is a hash of what an endpoint is asked by a module: what was learned of
// anything else says nothing of it.
func askedOf(t Target, module uint64) uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%s\x00%d", targetOf(t.Endpoint), module))
}

// saveLearned puts what the estimates of the member learned.
func (m *member) saveLearned(now time.Time, put func(record any) error) error {
	for _, n := range m.findings {
		tracker, err := n.tracker.Save()
		if err != nil {
			return err
		}
		if tracker == nil {
			continue
		}
		s := &savedLearned{Endpoint: n.id.Endpoint, Module: n.id.Module, Asked: n.asked, At: now, Tracker: tracker}
		if err := put(s); err != nil {
			return err
		}
	}
	for _, t := range m.tasks {
		for i := range variantsOf(t.Module) {
			s := t.savedSteps(i, now)
			if s == nil {
				continue
			}
			if err := put(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// savedSteps returns the record of the steps of one series; nil without probes.
func (t *task) savedSteps(i int, now time.Time) *savedLearned {
	steps := t.copyOfSteps(i)
	if steps == nil {
		return nil
	}
	id := variantsOf(t.Module)[i].id(t.id())
	return &savedLearned{
		Endpoint: id.Endpoint, Module: id.Module, Prefix: id.Prefix, InputTokens: id.InputTokens, OutputTokens: id.OutputTokens,
		Asked: t.findings.asked, At: now, Steps: steps,
	}
}

// copyOfSteps returns a copy of the steps of one series; nil without probes. A result is
// published before or after it.
func (t *task) copyOfSteps(i int) *series.Steps {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i >= len(t.series) {
		return nil
	}
	steps := t.series[i].steps
	if steps == nil || steps.LastProbe().IsZero() {
		return nil
	}
	return steps.Clone()
}

// restoreSteps takes up what was learned of the series of a task, and shows the steps
// that were found.
func (t *task) restoreSteps(l *learned, now time.Time) {
	for i := range t.series {
		of := &t.series[i]
		if of.steps == nil {
			continue
		}
		s := l.take(of.id(t.id()), t.findings.asked, now)
		if s == nil || s.Steps == nil {
			continue
		}
		of.steps = s.Steps.Clone() // the record may be being saved
		for _, step := range of.steps.Latest() {
			of.metrics.SetStep(step)
		}
	}
}

// restore takes up what was learned of the endpoint and module.
func (f *findings) restore(l *learned, now time.Time) {
	s := l.take(result.SeriesID{Endpoint: f.id.Endpoint, Module: f.id.Module}, f.asked, now)
	if s == nil || s.Tracker == nil {
		return
	}
	if err := f.tracker.Restore(s.Tracker); err != nil {
		f.endpointLogger().Warn("saved estimate is unusable; starting over", "err", err)
	}
}
