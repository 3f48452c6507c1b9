package health

import (
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Saved is what a Monitor hands to the next process. It holds no URL and no secret.
type Saved struct {
	// Endpoints are the states by the names of their endpoints, and Mutes the mutes.
	Endpoints map[string]Record `json:"endpoints,omitempty"`
	Mutes     map[string]Mute   `json:"mutes,omitempty"`
}

// Record is the state of one endpoint.
type Record struct {
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

// Export returns the states of all endpoints, and the mutes that are in force.
func (m *Monitor) Export() *Saved {
	m.mu.Lock()
	now := m.now()
	m.dropMutes(now)
	saved := &Saved{Endpoints: make(map[string]Record, len(m.endpoints)), Mutes: make(map[string]Mute, len(m.mutes))}
	for name, mute := range m.mutes {
		saved.Mutes[name] = *mute
	}
	all := maps.Clone(m.endpoints)
	m.mu.Unlock()
	for name, e := range all {
		if r, ok := e.record(now); ok {
			saved.Endpoints[name] = r
		}
	}
	return saved
}

// Import takes up what an earlier process exported: a mute at once, a state when its
// endpoint is added, if that still is the same target. It belongs before the first
// SetEndpoint. What is of the future, by a clock that was wrong, is left out.
func (m *Monitor) Import(saved *Saved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for name, mute := range saved.Mutes {
		if !mute.At.After(now) && !mute.isOver(now) && mute.Until.Sub(now) <= MaxMute {
			m.mutes[name] = &mute
		}
	}
	for name, r := range saved.Endpoints {
		if r.isSane(now) {
			m.restored[name] = &r
		}
	}
}

// isSane reports whether a record may be of this machine's past.
func (r *Record) isSane(now time.Time) bool {
	for _, i := range []*Incident{r.Failing, r.Slow} {
		if i != nil && (i.Begin.After(now) || i.Begin.IsZero() || i.Bad < 1 || i.Run < 0 || i.Probes < i.Bad+i.Run) {
			return false
		}
	}
	return !r.Up.After(now) && !r.Last.After(now)
}

// record returns the state of the endpoint; false where there is none to keep.
func (e *Endpoint) record(now time.Time) (Record, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refresh(now)
	if e.last.IsZero() {
		return Record{}, false
	}
	return Record{
		Target: e.target, Up: e.up, Last: e.last, Down: e.down, Streak: e.streak, Cause: e.cause,
		Failing: copyOf(e.failing), Slow: copyOf(e.slow), Past: slices.Clone(e.past),
	}, true
}

func copyOf(i *Incident) *Incident {
	if i == nil {
		return nil
	}
	return new(*i)
}

// restore takes up the state of an earlier process, unless it is of another target.
func (e *Endpoint) restore(r *Record, now time.Time) {
	if r.Target != e.target {
		return
	}
	e.restored = true
	e.up, e.last, e.down, e.streak, e.cause = r.Up, r.Last, r.Down, r.Streak, r.Cause
	e.failing, e.slow = r.Failing, r.Slow
	e.past = r.Past[max(0, len(r.Past)-maxIncidents):]
	e.refresh(now)
}

func targetHash(target string) uint64 { return xxhash.Sum64String(target) }
