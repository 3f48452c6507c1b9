package health

import (
	"fmt"
	"time"
)

// why says in one line why the endpoint is not up; last is the series that failed
// last, nil for none.
func (e *Endpoint) why(s *Status, last *Series, now time.Time) string {
	switch s.Unmuted {
	case Down, Flapping, Degraded:
		if e.failing.recurs() {
			return e.whyFailed(s, last) + ", again and again"
		}
		return e.whyFailing(s, last)
	case Slow:
		return e.whySlow(s, now)
	case Stale:
		return "no result since " + clock(e.latest(), now) + e.because()
	case Waiting:
		return "no result yet" + e.because()
	}
	return ""
}

// whyFailing is as in "connection refused: 10.0.0.5:8000 (interactive)".
func (e *Endpoint) whyFailing(s *Status, last *Series) string {
	if last == nil {
		return fmt.Sprintf("recovering: %d of %d successes in a row; latest failure: %s", e.failing.Run, e.failing.needed(), e.cause)
	}
	return e.whyFailed(s, last)
}

// whyFailed is why the latest probe of those that fail did, or the latest that failed.
func (e *Endpoint) whyFailed(s *Status, last *Series) string {
	if last == nil {
		return e.cause
	}
	cause := last.cause
	if cause == "" { // it failed before the incident that goes on
		cause = e.cause
	}
	text := cause + " (" + last.title + ")"
	switch others := len(s.Failing) - 1; others {
	case 0:
		return text
	case maxNamed - 1:
		return text + fmt.Sprintf(" and at least %d more", others)
	default:
		return text + fmt.Sprintf(" and %d more", others)
	}
}

// whySlow is as in "interactive: TTFT 1.2s, objective 500ms; 12 of 14 answers over an
// objective since 06:15 UTC".
func (e *Endpoint) whySlow(s *Status, now time.Time) string {
	counts := "; " + e.slow.overs() + " since " + clock(e.slow.Begin, now)
	for _, p := range e.series {
		if p.isValid() && !p.failed && p.pace.isSlow() {
			return p.title + ": " + p.pace.last.String() + counts
		}
	}
	return fmt.Sprintf("recovering: %d of %d answers in a row within the objectives; before: %s%s", e.slow.Run, e.slow.needed(), e.slow.Text, counts)
}

// because says why runs were left out since the latest result; "" where none was.
func (e *Endpoint) because() string {
	if e.skipped == "" {
		return ""
	}
	return ": not probed: " + e.skipped
}

// latest returns when the latest result started, or when the wait for it began.
func (e *Endpoint) latest() time.Time {
	if e.last.IsZero() {
		return e.added
	}
	return e.last
}

// clock returns a time as people read it, with the date where it is not of the last 24
// hours.
func clock(t, now time.Time) string {
	if now.Sub(t) < 24*time.Hour {
		return t.UTC().Format("15:04 UTC")
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}
