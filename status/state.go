package status

import (
	"math/bits"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// verdict is what the latest results of an endpoint tell at a moment.
type verdict struct {
	state State
	// asked series have a result that counts. When every result is too old, all of
	// them count.
	asked int
	now   time.Time
	// next is when the first of those that count becomes too old, and until when
	// the last of all did; the zero time for never.
	next, until time.Time
}

// same tells whether time has changed nothing.
func (v *verdict) same(o *verdict) bool { return v.state == o.state && v.asked == o.asked }

// judge looks at the latest results of all series.
func (e *endpoint) judge(now time.Time) verdict {
	v := verdict{state: Waiting, now: now}
	var failed, slow, old int
	for _, p := range e.series {
		if !p.tells() && !p.isAwaited() {
			continue
		}
		end := p.end()
		if p.isOld(now) {
			old++
			if end.After(v.until) {
				v.until = end
			}
			continue
		}
		if p.patience > 0 && (v.next.IsZero() || end.Before(v.next)) {
			v.next = end
		}
		switch {
		case p.isAwaited():
			continue
		case p.failed():
			failed++
		case p.slowness.isSlow():
			slow++
		}
		v.asked++
	}
	switch {
	case v.asked == 0 && old > 0:
		v.state, v.asked = Stale, old
	case v.asked == 0:
	case failed == v.asked:
		v.state = Down
	case failed > 0:
		v.state = Degraded
	case slow > 0:
		v.state = Slow
	default:
		v.state = Up
	}
	return v
}

// notice marks a state that is not what it was; e.mu is held.
func (e *endpoint) notice(now time.Time) {
	v := e.judge(now)
	same := v.same(&e.judged)
	e.judged = v
	if same || v.state == Waiting && e.state == Waiting {
		return
	}
	before := e.state
	e.state = v.state
	if v.state != before {
		e.since = now
		if v.state == Stale {
			e.since = v.until
		}
		module, text := e.inWords(before)
		e.addChange(e.since, module, text)
	}
	e.touch()
}

// inWords tells of a change of state; module is "" where it is about all.
func (e *endpoint) inWords(before State) (module, text string) {
	switch e.state {
	case Up:
		switch before {
		case Waiting:
			return "", "up"
		case Slow:
			return "", "within the objectives again"
		}
		return "", "up again"
	case Slow:
		return "", "slow: " + strings.Join(e.slow(), ", ") + " over the objective"
	case Stale:
		return "", "stale: no result for 3 intervals and a timeout"
	case Waiting:
		return "", "waiting for a probe"
	}
	latest := e.latestFailure()
	outcome := latest.last().result.Outcome.Description()
	if e.state == Degraded {
		return latest.id.Module, "degraded: " + latest.title + " fails: " + outcome
	}
	return "", "down: " + outcome
}

// fails tells whether the latest result of a series is a failure that counts at
// the moment of the verdict.
func (e *endpoint) fails(p *Probes) bool {
	return p.tells() && p.failed() && (e.state == Stale || !p.isOld(e.judged.now))
}

// shownFailure is the latest failure. Of an endpoint that fails it is one of
// what fails, for a module that has recovered since says nothing of it.
func (e *endpoint) shownFailure() *Failure {
	if p := e.latestFailure(); p != nil {
		return p.failure
	}
	return e.failure
}

// latestFailure returns the series that failed last, of those that fail; nil
// for none.
func (e *endpoint) latestFailure() *Probes {
	var latest *Probes
	for _, p := range e.series {
		if e.fails(p) && (latest == nil || p.last().result.Start.After(latest.last().result.Start)) {
			latest = p
		}
	}
	return latest
}

// failing names the series that fail.
func (e *endpoint) failing() []string {
	var names []string
	for _, p := range e.series {
		if len(names) < maxFailing && e.fails(p) {
			names = append(names, p.title)
		}
	}
	return names
}

// tells tells whether the latest result of the series says how the endpoint
// does. A pair whose cold half fails has no warm half, so that what came of the
// one before says nothing any more.
func (p *Probes) tells() bool {
	last := p.last()
	return p.counts && last != nil && (p.before == nil || !p.before.failedAt.After(last.result.Start))
}

// isAwaited returns whether the series is still to have its first result.
func (p *Probes) isAwaited() bool { return p.counts && p.last() == nil && p.before == nil }

// isOld returns whether the latest result is older than three intervals and a
// timeout, or there was none for as long.
func (p *Probes) isOld(now time.Time) bool {
	return p.patience > 0 && now.After(p.end())
}

// end returns when the latest result becomes old, or the wait for the first one too
// long.
func (p *Probes) end() time.Time {
	if last := p.last(); last != nil {
		return last.result.Start.Add(p.patience)
	}
	return p.opened.Add(p.patience)
}

// failed tells whether the latest result is a failure.
func (p *Probes) failed() bool { return p.last().result.Outcome != result.Success }

const (
	// paceAnswers is how many of the latest answers tell whether a series is slow,
	// and slowAnswers how many of them must be over an objective: one slow answer is
	// noise, and a change shows after three.
	paceAnswers = 5
	slowAnswers = 3
)

// slowness tells of the latest answers which were over an objective: a bit for each,
// the latest one the lowest.
type slowness uint8

// add takes in a successful result.
func (s *slowness) add(slo *SLO, r *result.Result) {
	*s <<= 1
	if overObjective(slo, &r.Timing) {
		*s |= 1
	}
}

func (s slowness) isSlow() bool { return bits.OnesCount8(uint8(s)&(1<<paceAnswers-1)) >= slowAnswers }

// overObjective tells whether an answer took longer than is promised.
func overObjective(slo *SLO, t *result.Timing) bool {
	if slo == nil {
		return false
	}
	over := func(limit *float64, d time.Duration) bool { return limit != nil && d.Seconds() > *limit }
	return over(slo.TTFT, t.TTFT) || over(slo.TPOT, t.TPOT) || over(slo.E2E, t.Duration)
}

// slow names the series whose answers are over an objective.
func (e *endpoint) slow() []string {
	var names []string
	for _, p := range e.series {
		if len(names) < maxFailing && p.tells() && !p.failed() && p.slowness.isSlow() && (e.state == Stale || !p.isOld(e.judged.now)) {
			names = append(names, p.title)
		}
	}
	return names
}
