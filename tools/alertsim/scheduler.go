package main

import "time"

// The rules of the exporter's scheduler for confirmations, see package
// schedule.
const (
	maxConfirmDelay = 5 * time.Second
	minConfirmGap   = time.Second
	maxConfirms     = 2
)

// result is a probe that ended.
type result struct {
	start, end int64 // milliseconds
	verdict    verdict
	confirm    bool // an early repetition after a failure
}

// schedule returns the results of the probes of one endpoint that start in
// [from, to), milliseconds, in the order in which they end. Probes start at
// phase, phase+interval and so on; one that is due while another runs is left
// out, a first failure is confirmed soon, and a second timeout in a row is
// followed by a pause. behaviorAt tells how the endpoint answers a probe that
// starts at a time.
func schedule(t *target, from, to, phase int64, behaviorAt func(start int64) behavior) []result {
	step := t.interval.Milliseconds()
	var results []result
	failed, timeouts, pauseEnd := false, 0, int64(0)
	for due := from + phase; due < to; due += step {
		if due < pauseEnd {
			continue
		}
		run := result{start: due, verdict: t.probe(behaviorAt(due))}
		run.end = due + run.verdict.duration.Milliseconds()
		results = append(results, run)
		for due+step < run.end {
			due += step // an overrun
		}
		if run.verdict.outcome == outcomeTimeoutFirstToken {
			timeouts++
		} else {
			timeouts = 0
		}
		if timeouts > 1 {
			pauseEnd = run.end + min(run.end-run.start, 2*step)
		}
		if !run.verdict.failed() {
			failed = false
			continue
		}
		if failed {
			continue // known to be down
		}
		var confirms []result
		confirms, failed = confirm(t, run, due+step, behaviorAt)
		results = append(results, confirms...)
	}
	return results
}

// confirm repeats a probe that failed, while there is room before the next one for
// a run as long as the one before, until it succeeds. It returns whether the last
// repetition failed.
func confirm(t *target, last result, next int64, behaviorAt func(start int64) behavior) ([]result, bool) {
	var results []result
	delay := min(maxConfirmDelay, t.interval/3).Milliseconds()
	for range maxConfirms {
		start := last.end + delay
		if next-start-(last.end-last.start) <= minConfirmGap.Milliseconds() {
			break
		}
		run := result{start: start, verdict: t.probe(behaviorAt(start)), confirm: true}
		run.end = start + run.verdict.duration.Milliseconds()
		if run.end > next {
			// The next probe does not wait for it.
			run.verdict = verdict{outcome: outcomeCanceled}
			run.end = next
			return append(results, run), true
		}
		results = append(results, run)
		last = run
		if !run.verdict.failed() {
			return results, false
		}
	}
	return results, true
}
