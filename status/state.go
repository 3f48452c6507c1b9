package status

import (
	"math/bits"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// verdict is the state of an endpoint at a moment, by its latest results.
type verdict struct {
	state State
	// judged series have a result that counts. When every result is too old, all of
	// them count.
	judged int
	now    time.Time
	// next is when the first of those that count becomes too old, and until when
	// the last of all did; the zero time for never.
	next, until time.Time
}

// same reports whether time has changed nothing.
func (v *verdict) same(o *verdict) bool { return v.state == o.state && v.judged == o.judged }

// judge looks at the latest results of all series.
func (e *endpoint) judge(now time.Time) verdict {
	v := verdict{state: Waiting, now: now}
	var failed, slow, old int
	for _, p := range e.series {
		if !p.isValid() && !p.isAwaited() {
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
		v.judged++
	}
	switch {
	case v.judged == 0 && old > 0:
		v.state, v.judged = Stale, old
	case v.judged == 0:
	case failed == v.judged:
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
		module, text := e.change(before)
		e.addChange(e.since, module, text)
	}
	e.touch()
}

// change returns the text of a change of state; module is "" where it is about all.
func (e *endpoint) change(before State) (module, text string) {
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

// fails reports whether the latest result of a series is a failure that counts at
// the moment of the verdict.
func (e *endpoint) fails(p *Probes) bool {
	return p.isValid() && p.failed() && (e.state == Stale || !p.isOld(e.judged.now))
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

// isValid reports whether the latest result of the series counts for the state of
// the endpoint. A pair whose cold half fails has no warm half, so that the warm
// result before it no longer counts.
func (p *Probes) isValid() bool {
	last := p.last()
	return p.counts && last != nil && (p.before == nil || !p.before.failedAt.After(last.result.Start))
}

// isAwaited reports whether the series has no result yet.
func (p *Probes) isAwaited() bool { return p.counts && p.last() == nil && p.before == nil }

// isOld reports whether the latest result is older than three intervals and a
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

// failed reports whether the latest result is a failure.
func (p *Probes) failed() bool { return p.last().result.Outcome != result.Success }

const (
	// paceAnswers is how many of the latest answers decide whether a series is slow,
	// and slowAnswers how many of them must be over an objective: one slow answer is
	// noise, and a change shows after three.
	paceAnswers = 5
	slowAnswers = 3
)

// slowness has a bit for each of the latest answers, set where it was over an
// objective; the lowest is the latest.
type slowness uint8

// add takes in a successful result.
func (s *slowness) add(slo *SLO, r *result.Result) {
	*s <<= 1
	if overObjective(slo, &r.Timing) {
		*s |= 1
	}
}

func (s slowness) isSlow() bool { return bits.OnesCount8(uint8(s)&(1<<paceAnswers-1)) >= slowAnswers }

// overObjective reports whether an answer took longer than an objective.
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
		if len(names) < maxFailing && p.isValid() && !p.failed() && p.slowness.isSlow() && (e.state == Stale || !p.isOld(e.judged.now)) {
			names = append(names, p.title)
		}
	}
	return names
}
