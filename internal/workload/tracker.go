package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Tracker draws conclusions from the results of one endpoint and module, all
// rungs of its ladders together. Its methods may be called at the same time.
type Tracker struct {
	now       func() time.Time
	estimates func() []Estimate

	mu    sync.Mutex
	model string
	all   []Estimate // of the model, in the order of the workloads; nil for those without
}

// NewTracker returns an empty tracker. estimates returns those of a model, in the order of the workloads; nil is none.
func NewTracker(now func() time.Time, estimates func() []Estimate) *Tracker {
	return &Tracker{now: now, estimates: estimates, all: estimates()}
}

// Observe adds the results of one run, and returns what all give together: nil
// where that is nothing. Results of a new model make it forget the old one.
func (t *Tracker) Observe(results []*result.Result) *Findings {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range results {
		t.serve(r.Model)
	}
	return t.findings(func(e Estimate, now time.Time) { e.Observe(results, now) })
}

// serve makes t forget all that it knows of another model; "" is not known. t.mu is held.
func (t *Tracker) serve(model string) {
	if model == "" || model == t.model {
		return
	}
	if t.model != "" {
		t.all = t.estimates()
	}
	t.model = model
}

// Take adds a run that is no probe, such as a load test of a model, and returns what Observe does.
func (t *Tracker) Take(model string, run any) *Findings {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serve(model)
	return t.findings(func(e Estimate, now time.Time) {
		if taker, ok := e.(Taker); ok {
			taker.Take(run, now)
		}
	})
}

// Findings returns what all results give together by now: nil where that is nothing.
func (t *Tracker) Findings() *Findings {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.findings(func(Estimate, time.Time) {})
}

// findings has each estimate learn something, and returns what all give together by now. t.mu is held.
func (t *Tracker) findings(learn func(e Estimate, now time.Time)) *Findings {
	found := &Findings{Model: t.model, All: make([]Finding, len(t.all))}
	now, empty := t.now(), true
	for i, e := range t.all {
		if e == nil {
			continue
		}
		learn(e, now)
		found.All[i] = e.Finding(now)
		empty = empty && found.All[i] == nil
	}
	if empty {
		return nil
	}
	return found
}

// Saved is what a part of a Tracker learned, in the form in which it survives a restart.
type Saved struct {
	Part    string          `json:"part"`
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

// SavedTracker is what a Tracker learned of one model.
type SavedTracker struct {
	Model string  `json:"model,omitempty"`
	Parts []Saved `json:"parts"`
}

// maxSavedBytes bounds the data of a part: one with more is not saved.
const maxSavedBytes = 512 << 10

// learned lists the parts that go on after a restart.
func (t *Tracker) learned() (all []Learned) {
	for _, e := range t.all {
		if l, ok := e.(Learner); ok {
			all = append(all, l.Learned()...)
		}
	}
	return all
}

// Save returns what the tracker learned; nil where that is nothing.
func (t *Tracker) Save() (*SavedTracker, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := &SavedTracker{Model: t.model}
	for _, l := range t.learned() {
		learned := l.Save()
		if learned == nil {
			continue
		}
		data, err := json.Marshal(learned)
		switch {
		case err != nil:
			return nil, fmt.Errorf("encode what was learned of %s: %w", l.Part, err)
		case len(data) <= maxSavedBytes:
			all.Parts = append(all.Parts, Saved{l.Part, l.Version, data})
		}
	}
	if len(all.Parts) == 0 {
		return nil, nil
	}
	return all, nil
}

// Restore takes up what Save returned, before the first result. Unusable parts begin again; the error names them.
func (t *Tracker) Restore(all *SavedTracker) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.model = all.Model
	learned := t.learned()
	var failed []error
	for _, s := range all.Parts {
		i := slices.IndexFunc(learned, func(l Learned) bool { return l.Part == s.Part && l.Version == s.Version })
		err := errors.New("no such part in this version of the program")
		if i >= 0 {
			err = learned[i].Restore(s.Data)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("restore %.64q of version %d: %w", s.Part, s.Version, err))
		}
	}
	return errors.Join(failed...)
}
