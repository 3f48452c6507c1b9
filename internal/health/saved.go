package health

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// sleepsOn is for how long an endpoint that was asleep is taken to be so after a restart, until its pages are read:
// longer than a first reading may wait.
const sleepsOn = 2 * time.Minute

// maxRestored bounds the mutes that are restored.
const maxRestored = 1 << 20

// Saved is what is kept of an endpoint over a restart: its state, without the series, whose next results say how they are.
// It holds no URL; its texts are those of Status.Why and of incidents.
type Saved struct {
	// Up is when the latest good time began, zero before the first success, and Last when the latest probe that counts started.
	Up   time.Time `json:"up,omitzero"`
	Last time.Time `json:"last,omitzero"`
	// Failing and Slow are the incidents that go on; nil is none. Down, Streak and Cause belong to the first: whether the
	// endpoint is down, how many failures came in a row in all series that count, and why the latest one failed, with its series.
	Failing *Incident `json:"failing,omitempty"`
	Slow    *Incident `json:"slow,omitempty"`
	Down    bool      `json:"down,omitempty"`
	Streak  int       `json:"streak,omitempty"`
	Cause   string    `json:"cause,omitempty"`
	// Asleep is the sleep that goes on; nil is none.
	Asleep *Incident `json:"asleep,omitempty"`
	// Paging is the incident that pages; nil is none.
	Paging *Paging `json:"paging,omitempty"`
	// Failures and Lates are the bad probes that may be chance, and Modules what is known of each module.
	Failures suspicion `json:"failures,omitzero"`
	Lates    suspicion `json:"lates,omitzero"`
	Modules  []*module `json:"modules,omitempty"`
	// Users is what is known of users' requests, by objective.
	Users [series.NumObjectives]*crowd `json:"users,omitzero"`
	// Past are the incidents that are over, the oldest first.
	Past []Incident `json:"past,omitempty"`
}

// IsSane reports whether it may be of this machine's past: what is of the future is by a wrong clock.
func (s *Saved) IsSane(now time.Time) bool {
	for _, i := range []*Incident{s.Failing, s.Slow, s.Failures.Incident, s.Lates.Incident} {
		if i != nil && (i.Begin.After(now) || i.Begin.IsZero() || i.Bad < 1 || i.Run < 0 || i.Probes < i.Bad+i.Run) {
			return false
		}
	}
	if s.Asleep != nil && (s.Asleep.State != Asleep || s.Asleep.Begin.After(now)) {
		return false
	}
	if s.Paging != nil && !s.Paging.isSane(now) {
		return false
	}
	for _, m := range s.Modules {
		if !m.isSane(now) {
			return false
		}
	}
	for _, c := range s.Users {
		if !c.isSane(now) {
			return false
		}
	}
	return (!s.Last.IsZero() || s.Asleep != nil) && !s.Up.After(now) && !s.Last.After(now)
}

type savedMute struct {
	Endpoint string `json:"endpoint"`
	Mute
}

// errNotSaved is of a record that Save does not put, or one that cannot be true.
var errNotSaved = errors.New("not a mute of an endpoint")

// Revision returns a number that differs when there is something new to Save.
func (m *Mutes) Revision() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

// Save puts the mutes that are in force as records, from which Restore makes them again. It returns the first error of
// put, which must not keep a record. It holds no lock while put runs.
func (m *Mutes) Save(put func(record any) error) error {
	m.mu.Lock()
	m.drop()
	all := maps.Clone(m.byName)
	m.mu.Unlock()
	for name, mute := range all {
		if err := put(savedMute{name, *mute}); err != nil {
			return err
		}
	}
	return nil
}

// Restore takes a record of an earlier process. A mute that is over is left out.
func (m *Mutes) Restore(record []byte) error {
	var s savedMute
	if err := json.Unmarshal(record, &s); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	switch {
	case s.Endpoint == "" || s.At.After(now) || s.Until.Sub(now) > MaxMute || len(m.byName) >= maxRestored:
		return errNotSaved
	case !s.isOver(now):
		m.byName[s.Endpoint] = &s.Mute
	}
	return nil
}

// Save returns what is kept of the endpoint; nil where there is nothing.
func (e *Endpoint) Save() *Saved {
	now := e.lock()
	defer e.mu.Unlock()
	e.refresh(now)
	if e.Last.IsZero() && e.Asleep == nil {
		return nil
	}
	return new(e.Saved.clone())
}

// clone returns a copy that shares nothing that changes.
func (s Saved) clone() Saved {
	s.Failing, s.Slow, s.Asleep, s.Paging = copyOf(s.Failing), copyOf(s.Slow), copyOf(s.Asleep), copyOf(s.Paging)
	s.Failures.Incident, s.Lates.Incident = copyOf(s.Failures.Incident), copyOf(s.Lates.Incident)
	s.Modules, s.Past = slices.Clone(s.Modules), slices.Clone(s.Past)
	for i, m := range s.Modules {
		s.Modules[i] = m.clone()
	}
	for i, c := range s.Users {
		s.Users[i] = c.clone()
	}
	return s
}

func copyOf[T any](v *T) *T {
	if v == nil {
		return nil
	}
	return new(*v)
}
