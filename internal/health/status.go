package health

import (
	"strings"
	"time"
)

// verdict counts the series by their latest results at a moment.
type verdict struct {
	// judged series have a result that is not old, of which some failed and some are slow.
	judged, failed, slow, old int
	// outdated are successes from before all those that fail began to.
	outdated int
	// next is when the first of those not old becomes so, until when the last of the old did; zero for never.
	next, until time.Time
}

func (v *verdict) isStale() bool { return v.judged == 0 && v.old > 0 }

func (e *Endpoint) judge(now time.Time) verdict {
	var v verdict
	if e.Asleep != nil {
		return v
	}
	failing := e.failingSince(now)
	for _, s := range e.series {
		if !s.isValid() && !s.isAwaited() {
			continue
		}
		end := s.end()
		if s.isOld(now) {
			v.old++
			if end.After(v.until) {
				v.until = end
			}
			continue
		}
		if s.patience > 0 && (v.next.IsZero() || end.Before(v.next)) {
			v.next = end
		}
		if s.isAwaited() {
			continue
		}
		v.judged++
		if !s.failed && s.start.Before(failing) {
			v.outdated++
		}
		switch {
		case s.failed:
			v.failed++
		case s.pace.isSlow():
			v.slow++
		}
	}
	return v
}

// failingSince returns when the first of the series that fail began to; zero where none does.
func (e *Endpoint) failingSince(now time.Time) time.Time {
	var first time.Time
	for _, s := range e.series {
		if s.failed && s.isValid() && !s.isOld(now) && (first.IsZero() || s.failedSince.Before(first)) {
			first = s.failedSince
		}
	}
	return first
}

// state returns the state without regard to a mute, and when it began.
func (e *Endpoint) state(v verdict) (State, time.Time) {
	failed, late := e.usersIncident(Degraded), e.usersIncident(Slow)
	switch {
	case e.Asleep != nil:
		return Asleep, e.Asleep.Begin
	case e.stale != nil:
		return Stale, e.stale.Begin
	case e.Failing != nil && e.Failing.isFlapping(e.Down, e.Last, e.recursWithin()):
		return Flapping, earliest(e.Failing, failed)
	case e.Failing != nil && e.Down:
		return Down, earliest(e.Failing, failed)
	case e.Failing != nil || failed != nil:
		return Degraded, earliest(e.Failing, failed)
	case e.Slow != nil || late != nil:
		return Slow, earliest(e.Slow, late)
	case v.judged == 0 || e.Up.IsZero():
		return Waiting, e.unknown
	}
	return Up, e.Up
}

// earliest returns when the first of two incidents began, of which one may be nil.
func earliest(a, b *Incident) time.Time {
	if a == nil || b != nil && b.Begin.Before(a.Begin) {
		return b.Begin
	}
	return a.Begin
}

func (e *Endpoint) makeStatus(v verdict, now time.Time) *Status {
	s := &Status{Mute: e.mute, Paging: e.Paging}
	s.Unmuted, s.UnmutedSince = e.state(v)
	s.State, s.Since = s.Unmuted, s.UnmutedSince
	if e.mute != nil {
		s.State, s.Since = Muted, e.mute.At
	}
	switch s.Unmuted {
	case Down, Flapping, Degraded:
		if i := e.Failing; i != nil {
			s.Probes, s.Failed, s.Spells = i.Probes, i.Bad, i.Spells
		}
	case Slow:
		if i := e.Slow; i != nil {
			s.Probes, s.Over = i.Probes, i.Bad
		}
	}
	s.Objectives = e.objectives
	for _, i := range []*Incident{e.Failing, e.Slow} {
		if i != nil {
			s.Missed |= i.Missed
		}
	}
	var bad []string
	for _, c := range e.raised() {
		s.Missed |= c.Spell.Missed
		bad = append(bad, c.Spell.users(now))
	}
	s.Users = strings.Join(bad, "; ")
	last := e.nameSeries(s, now)
	if last != nil {
		s.LastFailed = &last.id
	}
	if s.Unmuted == Up || s.Unmuted == Waiting {
		s.Suspect = e.suspect(last != nil, len(s.Slow) > 0)
	}
	s.Why = e.why(s, last, now)
	return s
}

// minSuspicious is how many failures look like more than one by chance.
const minSuspicious = 2

// suspect returns what the latest results look like: whether the latest one of a series is a
// failure, and whether the answers of one are late.
func (e *Endpoint) suspect(failing, slow bool) *Incident {
	switch f := e.Failures.Incident; {
	case f != nil && (failing || f.Bad >= minSuspicious):
		return copyOf(f)
	case slow:
		return copyOf(e.Lates.Incident)
	}
	return nil
}

// nameSeries names the series that fail and those that are slow, and returns the one that failed last; nil for none.
func (e *Endpoint) nameSeries(s *Status, now time.Time) (last *Series) {
	for _, p := range e.series {
		if !p.isValid() || e.stale == nil && p.isOld(now) {
			continue
		}
		switch {
		case p.failed:
			s.Failing = append(s.Failing, p.title)
			if last == nil || p.start.After(last.start) {
				last = p
			}
		case p.pace.isSlow():
			s.Slow = append(s.Slow, p.title)
		}
	}
	s.Failing, s.Slow = s.Failing[:min(len(s.Failing), maxNamed)], s.Slow[:min(len(s.Slow), maxNamed)]
	return last
}
