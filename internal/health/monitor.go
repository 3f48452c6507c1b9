package health

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/store"
)

// Monitor has the states of all endpoints. It is safe for concurrent use.
type Monitor struct {
	now    func() time.Time
	logger *slog.Logger

	mu        sync.Mutex
	endpoints map[string]*Endpoint
	// mutes are by name, so that they outlast a reload and an endpoint that discovery
	// loses for a while.
	mutes    map[string]*Mute
	restored *store.Waiting[string, *saved] // of an earlier process, not yet taken up

	revision, muted atomic.Uint64 // of the states and of the mutes
}

// NewMonitor returns a monitor without endpoints. now is the clock, and that of the
// starts of the results too. The begin and the end of each incident are logged.
func NewMonitor(now func() time.Time, logger *slog.Logger) *Monitor {
	return &Monitor{
		now: now, logger: logger,
		endpoints: map[string]*Endpoint{}, mutes: map[string]*Mute{}, restored: store.NewWaiting[string, *saved](restoredFor),
	}
}

// SetEndpoint returns the endpoint of a name, a new one where there is none. The
// target says what is probed, such as URL and model: a state of an earlier process is
// taken up only for the same target.
func (m *Monitor) SetEndpoint(name, target string) *Endpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.endpoints[name]; e != nil {
		return e
	}
	now := m.now()
	e := &Endpoint{monitor: m, name: name, target: targetHash(target), added: now}
	if r, ok := m.restored.Take(name, now); ok {
		e.restore(r, now)
	}
	if mute := m.mutes[name]; mute != nil && !mute.isOver(now) {
		e.mute = mute
	}
	m.endpoints[name] = e
	return e
}

// RemoveEndpoint forgets an endpoint, but not its mute. What is observed into its
// series later is lost.
func (m *Monitor) RemoveEndpoint(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.endpoints[name]; e != nil {
		e.retire()
		m.revision.Add(1)
		delete(m.endpoints, name)
	}
}

// Endpoint returns the endpoint of a name; nil for none.
func (m *Monitor) Endpoint(name string) *Endpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endpoints[name]
}

// OpenSeries returns the series of id with these options, a new one where there is
// none. What is observed into a series of an unknown endpoint is lost.
func (m *Monitor) OpenSeries(id result.SeriesID, o SeriesOptions) *Series {
	if e := m.Endpoint(id.Endpoint); e != nil {
		return e.openSeries(id, o)
	}
	return &Series{endpoint: &Endpoint{monitor: m}, closed: true}
}

// CloseSeries forgets a series. What is observed into it later is lost.
func (m *Monitor) CloseSeries(id result.SeriesID) {
	if e := m.Endpoint(id.Endpoint); e != nil {
		e.closeSeries(id)
	}
}

// MaxMute is the longest mute.
const MaxMute = 7 * 24 * time.Hour

// maxReason bounds the reason of a mute in bytes.
const maxReason = 256

// Errors of Mute and Unmute.
var (
	ErrNoEndpoint = errors.New("no endpoint with this name")
	ErrNoReason   = errors.New("the mute has no reason")
	ErrDuration   = fmt.Errorf("want a mute of at least 1 minute and at most %d days", MaxMute/(24*time.Hour))
)

// Mute is an operator's word that the state of an endpoint shall not alarm anyone for
// a while. Probes go on.
type Mute struct {
	// At is when it began, and Until when it ends by itself.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// Reason is for people: one bounded line.
	Reason string `json:"reason"`
}

func (m *Mute) isOver(now time.Time) bool { return !now.Before(m.Until) }

// Mute mutes an endpoint from now on. A mute that is in force is replaced, and keeps
// its begin. The error is ErrNoEndpoint, ErrNoReason or ErrDuration.
func (m *Monitor) Mute(name string, d time.Duration, reason string) error {
	reason = safetext.Line(reason, maxReason)
	switch {
	case d < time.Minute || d > MaxMute:
		return ErrDuration
	case reason == "":
		return ErrNoReason
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.endpoints[name]
	if e == nil {
		return ErrNoEndpoint
	}
	now := m.now()
	mute := &Mute{At: now, Until: now.Add(d), Reason: reason}
	if before := m.mutes[name]; before != nil && !before.isOver(now) {
		mute.At = before.At
	}
	m.mutes[name] = mute
	m.muted.Add(1)
	m.dropMutes(now)
	e.setMute(mute, now)
	return nil
}

// Unmute ends the mute of an endpoint, if there is one. The error is ErrNoEndpoint.
func (m *Monitor) Unmute(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.endpoints[name]
	if e == nil {
		return ErrNoEndpoint
	}
	delete(m.mutes, name)
	m.muted.Add(1)
	e.endMute(m.now())
	return nil
}

// dropMutes forgets mutes that are over; m.mu is held.
func (m *Monitor) dropMutes(now time.Time) {
	maps.DeleteFunc(m.mutes, func(_ string, mute *Mute) bool { return mute.isOver(now) })
}
