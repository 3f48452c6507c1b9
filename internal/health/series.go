package health

import (
	"errors"
	"math/bits"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// Series are the probes of one result.SeriesID. It is safe for concurrent use.
type Series struct {
	endpoint   *Endpoint // whose lock guards the rest
	id         result.SeriesID
	objectives *series.Objectives
	interval   time.Duration
	patience   time.Duration // after which the latest result is old; 0 is never
	opened     time.Time
	first      bool
	closed     bool
	counts     bool // for the state of the endpoint; see relate

	// What follows from the other series of the endpoint; see relate.
	title  string
	module *module
	before *Series // the cold half of a pair of which this is the warm one; nil is none

	start    time.Time // of the latest result; zero is none
	failed   bool      // the latest result is a failure
	failedAt time.Time // when the latest failure started
	// failedSince is when the first of the failures in a row started, of which the latest result is one, and heldAt when
	// the latest run was due that was left out since because the server asked for it, or let probes time out.
	failedSince, heldAt time.Time
	cause               string // of the latest failure, while there is an incident
	pace                pace
	// failedNow and slowNow report whether the series had a bad result in the incident that goes on.
	failedNow, slowNow bool
}

// Counts reports whether results of the series count for the state of the endpoint.
func (s *Series) Counts() bool {
	s.endpoint.mu.Lock()
	defer s.endpoint.mu.Unlock()
	return s.counts
}

// Observe takes a result, judged by the objectives of the series. A canceled one says nothing.
func (s *Series) Observe(o *series.Observation) {
	if o.Outcome == result.Canceled {
		return
	}
	e := s.endpoint
	now := e.lock()
	defer e.mu.Unlock()
	if s.closed {
		return
	}
	e.refresh(now) // it may have been stale until now
	if e.Asleep != nil {
		return // of a run that began before
	}
	s.take(o.Result)
	if s.counts {
		e.count(s, o)
		e.endClean(now)
	}
	e.refresh(now)
}

// Skip takes notice that a run was left out. It changes no state, but for a server that asked to wait: as long as the
// latest result is a failure it goes on failing, or its first refusal would be the only one for as long as that. Text
// says why; "" is the words of the reason.
func (s *Series) Skip(reason result.SkipReason, text string) {
	e := s.endpoint
	now := e.lock()
	defer e.mu.Unlock()
	if s.closed || !s.counts || reason == result.SkipAsleep {
		return
	}
	if reason == result.SkipBackoff && s.failed {
		s.heldAt = now
		e.Streak++
		if e.Failing != nil {
			e.Failing.Latest = now
		}
	}
	if text == "" {
		text = reason.Description()
	}
	e.skipped = safetext.Line(text, maxCause)
	e.refresh(now)
}

func (s *Series) take(r *result.Result) {
	if !s.failed {
		s.failedSince = r.Start
	}
	s.start, s.failed = r.Start, r.Outcome != result.Success
	if s.failed {
		s.failedAt = r.Start
		s.cause = causeOf(r)
	}
}

// isValid reports whether the latest result of the series counts. A pair whose cold
// half fails has no warm half, so that the warm result before it no longer counts.
func (s *Series) isValid() bool {
	return s.counts && !s.start.IsZero() && (s.before == nil || !s.before.failedAt.After(s.start))
}

func (s *Series) isAwaited() bool { return s.counts && s.start.IsZero() && s.before == nil }

// isOld reports whether the latest result, or the wait for one, is older than three intervals and a timeout.
func (s *Series) isOld(now time.Time) bool { return s.patience > 0 && now.After(s.end()) }

// end returns when the latest result becomes old, or the wait for the first one too long.
func (s *Series) end() time.Time {
	if s.start.IsZero() {
		return s.opened.Add(s.patience)
	}
	if s.heldAt.After(s.start) {
		return s.heldAt.Add(s.patience)
	}
	return s.start.Add(s.patience)
}

const (
	// paceAnswers is how many of the latest answers say which series of a slow endpoint
	// are slow, and slowAnswers how many of them exceed an objective.
	paceAnswers = 5
	slowAnswers = 3
)

// pace knows which of the latest answers exceeded an objective.
type pace struct {
	over uint8         // a bit for each of the latest answers, the lowest is the latest
	last series.Excess // the latest
}

// add takes an answer and reports whether it exceeded an objective.
func (p *pace) add(o *series.Observation) bool {
	p.over = p.over << 1 & (1<<paceAnswers - 1)
	over := o.Judgement.IsLate()
	if over {
		p.over |= 1
		p.last = o.Judgement.Worst
	}
	return over
}

// isSlow reports whether the series is one of those that make the endpoint slow.
func (p *pace) isSlow() bool { return bits.OnesCount8(p.over) >= slowAnswers }

// maxCause bounds the text of the latest cause in bytes, and maxFirst that of the first
// one, of which each of the kept incidents has one.
const (
	maxCause = 1024
	maxFirst = 256
)

// causeOf returns why a probe failed, the innermost cause first: "connection refused:
// 10.0.0.5:8000", or the text of the error, which is in that order.
func causeOf(r *result.Result) string {
	if dial, ok := errors.AsType[*net.OpError](r.Err); ok && dial.Op == "dial" && dial.Addr != nil {
		if why, ok := errors.AsType[syscall.Errno](dial); ok {
			return why.Error() + ": " + dial.Addr.String()
		}
	}
	if r.Err == nil {
		return r.Outcome.Description()
	}
	return safetext.Line(r.Err.Error(), maxCause)
}

// titleOf names a series so that those of a module differ.
func titleOf(id *result.SeriesID) string {
	parts := []string{id.Prefix}
	for _, part := range []struct{ name, value string }{
		{"input_tokens", id.InputTokens}, {"output_tokens", id.OutputTokens}, {"concurrency", id.Concurrency},
	} {
		if part.value != "" {
			parts = append(parts, part.name+"="+part.value)
		}
	}
	return id.Module + " (" + strings.Join(parts, ", ") + ")"
}
