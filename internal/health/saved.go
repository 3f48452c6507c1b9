package health

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	// restoredFor is how long a restored state waits for its endpoint, and how old it may be
	// to be saved again.
	restoredFor = 24 * time.Hour
	// maxRestored bounds the mutes that are restored.
	maxRestored = 1 << 20
)

// saved is what is kept of an endpoint over a restart: its state, without the series,
// whose next results say how they are. It holds no URL; its texts are those of Status.Why
// and of incidents.
type saved struct {
	Endpoint string `json:"endpoint"`
	// Target is a hash of what is probed.
	Target uint64 `json:"target"`
	// Up is when the latest good time began, and Last when the latest probe that
	// counts started.
	Up   time.Time `json:"up,omitzero"`
	Last time.Time `json:"last,omitzero"`
	// Failing and Slow are the incidents that go on; nil is none. Down, Streak and
	// Cause belong to the first: whether the endpoint is down, how many failures came in
	// a row, and why the latest one failed.
	Failing *Incident `json:"failing,omitempty"`
	Slow    *Incident `json:"slow,omitempty"`
	Down    bool      `json:"down,omitempty"`
	Streak  int       `json:"streak,omitempty"`
	Cause   string    `json:"cause,omitempty"`
	// Past are the incidents that are over, the oldest first.
	Past []Incident `json:"past,omitempty"`
}

// errNotSaved is of a record that Save or SaveMutes does not put, or one that cannot be
// true.
var errNotSaved = errors.New("not a state of an endpoint")

// Revision returns a number that differs when there is something new to Save.
func (m *Monitor) Revision() uint64 { return m.revision.Load() }

// Save puts records from which Restore makes the states again. It returns the first
// error of put, which must not keep a record. It holds no lock while put runs.
func (m *Monitor) Save(put func(record any) error) error {
	m.mu.Lock()
	now := m.now()
	all := slices.Collect(maps.Values(m.endpoints))
	m.mu.Unlock()
	for _, e := range all {
		if s := e.save(now); s != nil {
			if err := put(s); err != nil {
				return err
			}
		}
	}
	for _, s := range m.restored.All(now) {
		if now.Sub(s.Last) > restoredFor {
			continue
		}
		if err := put(s); err != nil {
			return err
		}
	}
	return nil
}

// Restore takes a record of an earlier process, before its endpoint is added, which
// takes it up if it is the same target. What is of the future, by a clock that was
// wrong, is refused.
func (m *Monitor) Restore(record []byte) error {
	s := new(saved)
	if err := json.Unmarshal(record, s); err != nil {
		return err
	}
	now := m.now()
	if s.Endpoint == "" || !s.isSane(now) || !m.restored.Put(s.Endpoint, s, now) {
		return errNotSaved
	}
	return nil
}

// isSane reports whether a record may be of this machine's past.
func (s *saved) isSane(now time.Time) bool {
	for _, i := range []*Incident{s.Failing, s.Slow} {
		if i != nil && (i.Begin.After(now) || i.Begin.IsZero() || i.Bad < 1 || i.Run < 0 || i.Probes < i.Bad+i.Run) {
			return false
		}
	}
	return !s.Last.IsZero() && !s.Up.After(now) && !s.Last.After(now)
}

// savedMute is the mute of an endpoint.
type savedMute struct {
	Endpoint string `json:"endpoint"`
	Mute
}

// MutesRevision returns a number that differs when there is something new for SaveMutes.
func (m *Monitor) MutesRevision() uint64 { return m.muted.Load() }

// SaveMutes is Save for the mutes that are in force.
func (m *Monitor) SaveMutes(put func(record any) error) error {
	m.mu.Lock()
	m.dropMutes(m.now())
	all := maps.Clone(m.mutes)
	m.mu.Unlock()
	for name, mute := range all {
		if err := put(savedMute{name, *mute}); err != nil {
			return err
		}
	}
	return nil
}

// RestoreMutes is Restore for a mute. One that is over is left out.
func (m *Monitor) RestoreMutes(record []byte) error {
	var s savedMute
	if err := json.Unmarshal(record, &s); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	switch {
	case s.Endpoint == "" || s.At.After(now) || s.Until.Sub(now) > MaxMute || len(m.mutes) >= maxRestored:
		return errNotSaved
	case !s.isOver(now):
		m.mutes[s.Endpoint] = &s.Mute
	}
	return nil
}

// save returns the state of the endpoint; nil where there is none to keep.
func (e *Endpoint) save(now time.Time) *saved {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refresh(now)
	if e.last.IsZero() || e.gone {
		return nil
	}
	return &saved{
		Endpoint: e.name, Target: e.target, Up: e.up, Last: e.last, Down: e.down, Streak: e.streak, Cause: e.cause,
		Failing: copyOf(e.failing), Slow: copyOf(e.slow), Past: slices.Clone(e.past),
	}
}

func copyOf(i *Incident) *Incident {
	if i == nil {
		return nil
	}
	return new(*i)
}

// restore takes up the state of an earlier process, unless it is of another target.
func (e *Endpoint) restore(s *saved, now time.Time) {
	if s.Target != e.target {
		return
	}
	e.restored = true
	e.up, e.last, e.down, e.streak, e.cause = s.Up, s.Last, s.Down, s.Streak, s.Cause
	e.failing, e.slow = copyOf(s.Failing), copyOf(s.Slow)
	e.past = slices.Clone(s.Past[max(0, len(s.Past)-maxIncidents):])
	e.refresh(now)
}

func targetHash(target string) uint64 { return xxhash.Sum64String(target) }
