// Package health decides in which state each endpoint is, since when and why. It is
// the only place that judges: the status page, the metrics and the log read it.
//
// The states of an endpoint, by the results of its series. Bursts do not count where
// there is anything else; probes that were canceled or skipped do not count at all, but
// for those after a failure that the server asked to leave out: they are failures.
//
//	state     begins                                       ends
//	waiting   when the endpoint is added                   with the first result
//	down      when the latest result of every series       with the first success
//	          is a failure and at least 2 failures came
//	          in a row; successes from before the failures
//	          count only until 4 came in a row
//	flapping  when it is down for the third time in an     when it is down for over 2 minutes and twice the
//	          incident                                     longest time before, or was not down for twice
//	                                                       recursWithin, and with the incident
//	degraded  with the first failure, and with the first   with a clean run: of that many successes in a row
//	          success after being down                     fewer than 5 % would be chance at the share of
//	                                                       failures so far; at least 3, at most 20
//	slow      when 3 of the latest 5 answers of a series   with a clean run of answers within the objectives,
//	          exceed an objective                          by the same rule
//	stale     when no series had a result for 3 of its     with the next result
//	          intervals and a timeout
//	up        when none of these holds                     when one of these begins
//	muted     when someone mutes the endpoint              at the end of the mute; the state under it goes on
//
// Down, flapping and degraded are one incident: it begins with its first failed probe,
// and its counts and its begin survive the changes between them. Incidents of which each
// begins within recursWithin of the end of the one before are one as well, from the third
// on or the third time down, as far back as at least 5 % of the probes failed. That one ends
// after a clean run, once it was well for twice as long as at any time in between.
package health

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
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
	Muted    State = "muted"
	Up       State = "up"
)

// States lists the closed set, the worst first.
func States() []State { return []State{Down, Flapping, Degraded, Slow, Stale, Waiting, Muted, Up} }

// maxNamed is how many series a status names that fail, or are slow.
const maxNamed = 8

// Status is the state of an endpoint at a moment. It is never changed.
type Status struct {
	// State is the state, and Since when it began: for down, flapping and degraded the start
	// of the first failed probe of the incident, for slow that of the first slow answer,
	// for up that of the first good probe.
	State State
	Since time.Time
	// Unmuted is the state without regard to a mute, and UnmutedSince when that
	// began. Without a mute they are State and Since.
	Unmuted      State
	UnmutedSince time.Time
	// Mute is the mute that is in force; nil is none. It must not be changed.
	Mute *Mute
	// Probes counts the results since UnmutedSince, Failed the failures among them, and
	// Spells how often the endpoint was down, while Unmuted is down, flapping or degraded.
	// While it is slow, Probes counts the answers and Over those over an objective.
	Probes, Failed, Spells, Over int
	// Failing names the series whose latest result is a failure, and Slow those whose
	// answers exceed an objective: at most 8 of each.
	Failing, Slow []string
	// LastFailed is the series that failed last of those that fail; nil is none.
	LastFailed *result.SeriesID
	// Why says for people in one line why the endpoint is not up, the innermost cause
	// first; "" where it is. It may quote a server: bounded, without secrets.
	Why string
}

// equal reports whether nothing has changed.
func (s *Status) equal(o *Status) bool {
	sameSeries := s.LastFailed == o.LastFailed || s.LastFailed != nil && o.LastFailed != nil && *s.LastFailed == *o.LastFailed
	return s.State == o.State && s.Since.Equal(o.Since) && s.Unmuted == o.Unmuted && s.UnmutedSince.Equal(o.UnmutedSince) &&
		s.Mute == o.Mute && s.Probes == o.Probes && s.Failed == o.Failed && s.Spells == o.Spells && s.Over == o.Over && s.Why == o.Why &&
		sameSeries && slices.Equal(s.Failing, o.Failing) && slices.Equal(s.Slow, o.Slow)
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
