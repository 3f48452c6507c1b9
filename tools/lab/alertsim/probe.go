package main

import (
	"math/rand/v2"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// behavior is how an endpoint answers: which shares of its probes are bad. Each is drawn on
// its own.
type behavior struct {
	failed float64 // end with an error
	ttft   float64 // have their first token after the objective
	tpot   float64 // have slower tokens than the objective
	// memory is the time in which the correlation of two probes falls to 1/e; 0 is none.
	memory time.Duration
	// hangs is all probes, which end at the limit for the first token.
	hangs bool
}

// The durations of probes. Only that of one that hangs matters: a little more than the
// default of timeouts.first_token, and than the shorter intervals.
const (
	answerDuration = 2 * time.Second
	errorDuration  = 100 * time.Millisecond
	hungDuration   = 30*time.Second + 10*time.Millisecond
)

// probe is one that ended.
type probe struct {
	start, end time.Time
	outcome    result.Outcome
	ttft, tpot bool // over the objective
	confirm    bool // an early repetition after a failure
}

func (p *probe) failed() bool { return p.outcome != result.Success }

// source draws the probes of one endpoint.
type source struct {
	failing, ttft, tpot chance
	behavior            func(time.Time) behavior
}

func newSource(random *rand.Rand, b func(time.Time) behavior) *source {
	return &source{chance{random: random}, chance{random: random}, chance{random: random}, b}
}

// probe draws the probe that starts at a time.
func (s *source) probe(start time.Time) probe {
	b := s.behavior(start)
	p := probe{start: start, outcome: result.Success}
	p.ttft, p.tpot = s.ttft.isBad(b.ttft, b.memory, start), s.tpot.isBad(b.tpot, b.memory, start)
	took := answerDuration
	switch failed := s.failing.isBad(b.failed, b.memory, start); {
	case b.hangs:
		p.outcome, took = result.TimeoutFirstToken, hungDuration
	case failed:
		p.outcome, took = result.StreamError, errorDuration
	}
	p.end = start.Add(took)
	return p
}

// The rules of the exporter's scheduler for confirmations, see package schedule.
const (
	maxConfirmDelay = 5 * time.Second
	minConfirmGap   = time.Second
	maxConfirms     = 2
)

// schedule has the probes of an endpoint run that start from one time to another, in the
// order in which they end, until observe returns false. One that is due while another runs is
// left out, a first failure is confirmed soon, and a second timeout in a row is followed by a
// pause.
func (s *source) schedule(interval time.Duration, from, to time.Time, observe func(*probe) bool) {
	failed, timeouts, pauseEnd := false, 0, time.Time{}
	for due := from; due.Before(to); due = due.Add(interval) {
		if due.Before(pauseEnd) {
			continue
		}
		p := s.probe(due)
		if !observe(&p) {
			return
		}
		for due.Add(interval).Before(p.end) {
			due = due.Add(interval) // an overrun
		}
		if p.outcome == result.TimeoutFirstToken {
			timeouts++
		} else {
			timeouts = 0
		}
		if timeouts > 1 {
			pauseEnd = p.end.Add(min(p.end.Sub(p.start), 2*interval))
		}
		switch {
		case !p.failed():
			failed = false
		case !failed: // else it is known to be down
			failed = s.confirm(p, interval, due.Add(interval), observe)
		}
	}
}

// confirm repeats a probe that failed, while there is room before the next one for a run as
// long as the one before, until it succeeds. It returns whether the last one failed.
func (s *source) confirm(last probe, interval time.Duration, next time.Time, observe func(*probe) bool) bool {
	delay := min(maxConfirmDelay, interval/3)
	for range maxConfirms {
		start := last.end.Add(delay)
		if next.Sub(start)-last.end.Sub(last.start) <= minConfirmGap {
			return true
		}
		p := s.probe(start)
		p.confirm = true
		if p.end.After(next) {
			p.outcome, p.end = result.Canceled, next // the next probe does not wait for it
		}
		if !observe(&p) || p.outcome == result.Canceled {
			return true
		}
		if !p.failed() {
			return false
		}
		last = p
	}
	return true
}
