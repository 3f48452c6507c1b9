package prober

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// limitError is the cause with which a watchdog cancels a probe. It is written only when it
// is shown, which most never are.
type limitError struct {
	outcome result.Outcome
	format  string
	limit   fmt.Stringer
}

func (e *limitError) Error() string { return fmt.Sprintf(e.format, e.limit) }

func (e *limitError) failure() error { return &failure{outcome: e.outcome, cause: e} }

// errFinished ends a reply that is complete but whose server keeps the stream open without the end marker.
var errFinished = errors.New("no end marker after the finish reason")

// watchdog cancels a context when what it waits for does not come in time: connection, headers, first token, next
// token, one after the other, all within the total limit. What was waited for names the outcome, except between tokens,
// where only the total is over: a server that hangs has one outcome, whichever timer is a hair faster.
type watchdog struct {
	cancel context.CancelCauseFunc
	end    time.Time // of the whole probe
	total  error     // cause when it comes between tokens

	mu       sync.Mutex
	timer    *time.Timer
	deadline time.Time
	cause    error
	between  bool // waits for the next token
	paused   time.Time
}

// newWatchdog waits for the first thing until the deadline.
func newWatchdog(cancel context.CancelCauseFunc, end time.Time, total error, deadline time.Time, cause error) *watchdog {
	w := &watchdog{cancel: cancel, end: end, total: total}
	w.timer = time.AfterFunc(forever, w.fire)
	w.expect(deadline, cause)
	return w
}

// expect sets what to wait for next, and until when.
func (w *watchdog) expect(deadline time.Time, cause error) { w.wait(deadline, cause, false) }

// expectNext sets that the next token is waited for.
func (w *watchdog) expectNext(deadline time.Time, cause error) { w.wait(deadline, cause, true) }

func (w *watchdog) wait(deadline time.Time, cause error, between bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline, w.cause, w.between = w.cut(deadline), cause, between
	w.timer.Reset(time.Until(w.deadline))
}

// extend moves the deadline away without touching the timer, which is cheap
// enough for every token: the timer finds out when it fires.
func (w *watchdog) extend(deadline time.Time) {
	w.mu.Lock()
	w.deadline = w.cut(deadline)
	w.mu.Unlock()
}

// pause waits for nothing until resume.
func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.paused = time.Now()
}

// resume ends a pause, which does not count. What to wait for is to be set
// next, by expect. Without a pause it does nothing.
func (w *watchdog) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused.IsZero() {
		return
	}
	w.end = w.end.Add(time.Since(w.paused))
	w.deadline, w.paused = w.end, time.Time{}
}

func (w *watchdog) cut(deadline time.Time) time.Time {
	if deadline.After(w.end) {
		return w.end
	}
	return deadline
}

func (w *watchdog) stop() { w.timer.Stop() }

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.paused.IsZero() {
		return
	}
	if left := time.Until(w.deadline); left > 0 {
		w.timer.Reset(left)
		return
	}
	if w.between && !w.deadline.Before(w.end) {
		w.cancel(w.total)
		return
	}
	w.cancel(w.cause)
}
