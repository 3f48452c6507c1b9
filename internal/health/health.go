// Package health decides in which state each endpoint is, since when and why. It is
// the only place that judges: the status page, the metrics and the log read it.
//
// The states of an endpoint, by the results of its series. Bursts do not count where
// there is anything else; probes that were canceled or skipped do not count at all, but
// for those after a failure that the server asked to leave out: they are failures.
//
//	state     begins                                       ends
//	waiting   when the endpoint is added                   with the first success, or as down
//	down      when the latest result of every series       with the first success
//	          is a failure and at least 2 failures came
//	          in a row; successes from before the failures
//	          count only until 4 came in a row
//	flapping  when it is down for the third time in an     when it is down for over 2 minutes and twice the
//	          incident, or had no success for              longest time before, or was not down for twice
//	          flappingAfter for the second time            recursWithin, and with the incident
//	degraded  when the failures of a module are more       with a clean run: of that many successes in a row
//	          than chance, see evidence; and with the      fewer than 1 % would be chance at the share of
//	          first success after being down               failures so far; at least 3, at most 40
//	slow      when the late answers of a module are more   with a clean run of answers within the objectives,
//	          than chance                                  by the same rule
//	stale     when no series had a result for 3 of its     with the next result
//	          intervals and a timeout
//	asleep    when a reading shows that its model sleeps   when one shows otherwise or cannot be had, or the
//	                                                       latest one is old; as waiting
//	up        when none of these holds                     when one of these begins
//	muted     when someone mutes the endpoint              at the end of the mute; the state under it goes on
//
// Down, flapping and degraded are one incident: it begins with the first failed probe of those
// that made it one, and its counts and its begin survive the changes between them. Incidents of which each
// begins within recursWithin of the end of the one before are one as well, from the third
// on or the third time down, as far back as at least 5 % of the probes failed, or from the second on that flaps. That one ends
// after a clean run, once it was well for twice as long as at any time in between.
//
// An incident that is certain and bad enough pages, see Paging.
package health

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// State is the state of an endpoint. The set is closed: it is a label value.
type State string

// The states; see the table above.
const (
	Down     State = "down"
	Flapping State = "flapping"
	Degraded State = "degraded"
	Slow     State = "slow"
	Stale    State = "stale"
	Waiting  State = "waiting"
	Asleep   State = "asleep"
	Muted    State = "muted"
	Up       State = "up"
)

// States lists the closed set, the worst first.
func States() []State {
	return []State{Down, Flapping, Degraded, Slow, Stale, Waiting, Asleep, Muted, Up}
}

// maxNamed is how many series a status names that fail, or are slow.
const maxNamed = 8

// Status is the state of an endpoint at a moment. It is never changed.
type Status struct {
	// State is the state, and Since when it began: for down, flapping and degraded the start of the first failed probe of
	// the incident, for slow that of the first slow answer, for up that of the first good probe.
	State State
	Since time.Time
	// Unmuted is the state without regard to a mute, and UnmutedSince when that
	// began. Without a mute they are State and Since.
	Unmuted      State
	UnmutedSince time.Time
	// Mute is the mute that is in force; nil is none. It must not be changed.
	Mute *Mute
	// Paging is the incident that pages; nil is none. A mute does not change it.
	Paging *Paging
	// Probes counts the results since UnmutedSince, Failed the failures among them, and
	// Spells how often the endpoint was down, while Unmuted is down, flapping or degraded.
	// While it is slow, Probes counts the answers and Over those over an objective.
	Probes, Failed, Spells, Over int
	// Failing names the series whose latest result is a failure, and Slow those whose
	// answers exceed an objective: at most 8 of each.
	Failing, Slow []string
	// LastFailed is the series that failed last of those that fail; nil is none.
	LastFailed *result.SeriesID
	// Objectives are those of the endpoint, availability always, and Missed those that are missed
	// by more than chance explains, until the clean run after that.
	Objectives, Missed series.Set
	// Suspect is what the latest results look like while Unmuted is up or waiting, and may be
	// chance: degraded or slow. Nil is nothing. It must not be changed.
	Suspect *Incident
	// Users says for people which requests of users are bad, while they are an incident; "" is none.
	Users string
	// Why says for people in one line why the endpoint is not up, the innermost cause
	// first; "" where it is. It may quote a server: bounded, without secrets.
	Why string
}

// Shown returns the incident that pages, once its scope is known; nil while the endpoint is muted.
func (s *Status) Shown() *Paging {
	if s.Mute != nil || s.Paging == nil || s.Paging.Scope == "" {
		return nil
	}
	return s.Paging
}

func (s *Status) equal(o *Status) bool {
	return s.State == o.State && s.Since.Equal(o.Since) && s.Unmuted == o.Unmuted && s.UnmutedSince.Equal(o.UnmutedSince) &&
		s.Mute == o.Mute && s.Paging == o.Paging && s.Probes == o.Probes && s.Failed == o.Failed && s.Spells == o.Spells && s.Over == o.Over && s.Why == o.Why && s.Users == o.Users && s.Objectives == o.Objectives && s.Missed == o.Missed &&
		same(s.LastFailed, o.LastFailed) && same(s.Suspect, o.Suspect) && slices.Equal(s.Failing, o.Failing) && slices.Equal(s.Slow, o.Slow)
}

// SeriesOptions are what the configuration says of a series.
type SeriesOptions struct {
	// Interval is how often the series is probed, and Timeout how long a probe may
	// take. With an Interval of 0 the series is never stale.
	Interval, Timeout time.Duration
	// Objectives are those by which an answer is slow; nil is none.
	Objectives *series.Objectives
	// First marks the series that counts where there is nothing but bursts; the one
	// that was opened first where none is marked.
	First bool
}

// Shared is what the endpoints of a process have in common.
type Shared struct {
	// Now is the clock, and that of the starts of the results too.
	Now func() time.Time
	// Logger gets the begin and the end of each incident.
	Logger *slog.Logger
	Mutes  *Mutes
}

// NewShared returns that of a process without mutes.
func NewShared(now func() time.Time, logger *slog.Logger) *Shared {
	return &Shared{now, logger, &Mutes{now: now, byName: map[string]*Mute{}}}
}

// MaxMute is the longest mute.
const MaxMute = 7 * 24 * time.Hour

const maxReason = 256

// Errors of a mute. ErrNoEndpoint is for who mutes by name.
var (
	ErrNoEndpoint = errors.New("no endpoint with this name")
	ErrNoReason   = errors.New("the mute has no reason")
	ErrDuration   = fmt.Errorf("want a mute of at least 1 minute and at most %d days", MaxMute/(24*time.Hour))
)

// Mute is an operator's word that the state of an endpoint shall not alarm anyone. Probes go on.
type Mute struct {
	// At is when it began, and Until when it ends by itself.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// Reason is for people: one bounded line.
	Reason string `json:"reason"`
}

func (m *Mute) isOver(now time.Time) bool { return !now.Before(m.Until) }

// Mute mutes the endpoint from now on. A mute that is in force is replaced, and keeps
// its begin. The error is ErrNoReason or ErrDuration.
func (e *Endpoint) Mute(d time.Duration, reason string) error {
	reason = safetext.Line(reason, maxReason)
	switch {
	case d < time.Minute || d > MaxMute:
		return ErrDuration
	case reason == "":
		return ErrNoReason
	}
	now := e.lock()
	defer e.mu.Unlock()
	e.refresh(now)
	at := now
	if e.mute != nil {
		at = e.mute.At
	}
	e.mute = &Mute{At: at, Until: now.Add(d), Reason: reason}
	e.shared.Mutes.set(e.name, e.mute)
	e.logger().Info("endpoint muted", "until", e.mute.Until.UTC(), "reason", reason)
	e.refresh(now)
	return nil
}

// Unmute ends the mute of the endpoint, if there is one.
func (e *Endpoint) Unmute() {
	now := e.lock()
	defer e.mu.Unlock()
	e.shared.Mutes.set(e.name, nil)
	if e.mute != nil {
		e.unmute(now)
	}
	e.refresh(now)
}

// Mutes are the mutes by the endpoint's name, so that they outlast a reload and an endpoint
// that discovery loses for a while. It is safe for concurrent use.
type Mutes struct {
	now      func() time.Time
	mu       sync.Mutex
	byName   map[string]*Mute
	revision uint64
}

func (m *Mutes) set(name string, mute *Mute) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	m.byName[name] = mute
	m.drop()
}

// of returns the mute of an endpoint that is in force; nil is none.
func (m *Mutes) of(name string) *Mute {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop()
	return m.byName[name]
}

// drop forgets mutes that are over; m.mu is held.
func (m *Mutes) drop() {
	now := m.now()
	maps.DeleteFunc(m.byName, func(_ string, mute *Mute) bool { return mute == nil || mute.isOver(now) })
}
