package health

import (
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// SetAsleep takes why the model of the endpoint sleeps, as a reading of its servers shows that counts until the given
// time; "" is that a server is awake, or that it is not known. It reports whether it was asleep until now.
func (e *Endpoint) SetAsleep(why string, until time.Time) (woke bool) {
	now := e.lock()
	defer e.mu.Unlock()
	e.asleepUntil = until
	switch slept := e.Asleep != nil; {
	case slept == (why != ""):
		return false
	case slept:
		e.wake(now)
	default:
		e.refresh(now)
		e.fallAsleep(safetext.Line(why, maxFirst), now)
	}
	e.refresh(now)
	return why == ""
}

// fallAsleep ends all that goes on: what does not answer because it sleeps is no incident.
func (e *Endpoint) fallAsleep(why string, now time.Time) {
	if e.Failing != nil {
		e.endFailing(now)
	}
	if e.Slow != nil {
		e.endSlow(now)
	}
	for _, c := range e.raised() {
		e.endUsers(c, now)
	}
	if e.stale != nil {
		e.turnStale(verdict{}, now)
	}
	e.Failures, e.Lates, e.row, e.Streak = suspicion{}, suspicion{}, nil, 0
	e.startOver(now)
	e.Asleep = &Incident{State: Asleep, Begin: now, Text: why}
	e.logger().Info("endpoint asleep", "reason", why)
}

// wake begins to wait for a result.
func (e *Endpoint) wake(now time.Time) {
	i := e.Asleep
	i.End = now
	e.Asleep = nil
	e.keep(*i)
	e.startOver(now)
	e.logger().Info("endpoint awake", "since", i.Begin.UTC(), "duration", now.Sub(i.Begin).Round(time.Second))
}

// startOver forgets the latest results: they say nothing of a model that sleeps, or was loaded again.
func (e *Endpoint) startOver(now time.Time) {
	for _, s := range e.series {
		s.opened, s.start, s.failedAt, s.failedSince, s.heldAt = now, time.Time{}, time.Time{}, time.Time{}, time.Time{}
		s.failed, s.failedNow, s.slowNow, s.cause, s.pace = false, false, false, "", pace{}
	}
	e.Up, e.unknown = time.Time{}, now
}
