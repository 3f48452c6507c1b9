package estimate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Saved is what a part of a Tracker learned, in the form in which it survives a restart.
type Saved struct {
	// Part is its name, and Version that of its data: another version is not read.
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

// learner is a part of a state that goes on after a restart.
type learner struct {
	part    string
	version int
	// save returns what is encoded as the data; nil is nothing to keep. restore takes
	// it up, and changes nothing after an error.
	save    func() any
	restore func(data []byte) error
}

// learners lists the parts that go on after a restart. The others learn again within
// minutes, or say what is true of the latest run only.
func (s *state) learners() []learner {
	return []learner{
		{"logprob", 1, s.score.save, s.score.restore},
		{"first_token", 1, s.saveFirst, s.restoreFirst},
		{"drift", 1, s.saveDrift, s.restoreDrift},
		{"integrity", 1, s.integrity.save, s.integrity.restore},
	}
}

// Save returns what the tracker learned; nil where that is nothing.
func (t *Tracker) Save() (*SavedTracker, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := &SavedTracker{Model: t.state.model}
	for _, l := range t.state.learners() {
		learned := l.save()
		if learned == nil {
			continue
		}
		data, err := json.Marshal(learned)
		switch {
		case err != nil:
			return nil, fmt.Errorf("encode what was learned of %s: %w", l.part, err)
		case len(data) <= maxSavedBytes:
			all.Parts = append(all.Parts, Saved{l.part, l.version, data})
		}
	}
	if len(all.Parts) == 0 {
		return nil, nil
	}
	return all, nil
}

// Restore takes up what Save returned, before the first result. Parts that cannot be
// used begin again; the error names them.
func (t *Tracker) Restore(all *SavedTracker) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.model = all.Model
	learners := t.state.learners()
	var failed []error
	for _, s := range all.Parts {
		i := slices.IndexFunc(learners, func(l learner) bool { return l.part == s.Part && l.version == s.Version })
		err := errors.New("no such part in this version of the program")
		if i >= 0 {
			err = learners[i].restore(s.Data)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("restore %.64q of version %d: %w", s.Part, s.Version, err))
		}
	}
	return errors.Join(failed...)
}

// savedScore is the JSON of a score.
type savedScore struct {
	Baseline []float64 `json:"baseline"` // sorted
	Up       float64   `json:"up"`
	Down     float64   `json:"down"`
	Changed  time.Time `json:"changed,omitzero"`
}

func (s *score) save() any {
	if len(s.shift.baseline) == 0 {
		return nil
	}
	return savedScore{s.shift.baseline, s.shift.up, s.shift.down, s.last}
}

func (s *score) restore(data []byte) error {
	var j savedScore
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	sums := 0 <= j.Up && j.Up <= threshold && 0 <= j.Down && j.Down <= threshold
	if len(j.Baseline) > maxBaseline || !slices.IsSorted(j.Baseline) || !sums {
		return errors.New("a baseline that no scores lead to")
	}
	var next shift
	for _, v := range j.Baseline {
		if math.Abs(v) > maxSavedScore {
			return errors.New("a score that no answer has")
		}
		next.baseline = append(next.baseline, v)
	}
	if len(next.baseline) >= minBaseline {
		next.judgeBy()
	}
	next.up, next.down = j.Up, j.Down
	s.shift, s.last = next, j.Changed
	return nil
}

// maxSavedScore bounds the log-probabilities that can be true, in nats per token.
const maxSavedScore = 1000
