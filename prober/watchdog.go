package prober

import (
	"context"
	"errors"
	"sync"
	"time"
)

// limitError is the cause with which a watchdog cancels a probe.
type limitError struct {
	outcome Outcome
	text    string
}

func (e *limitError) Error() string { return e.text }

// errFinished ends a reply that is complete but whose server keeps the stream
// open without the end marker.
var errFinished = errors.New("no end marker after the finish reason")

// watchdog cancels a context when what it waits for does not come in time. It
// waits for one thing after the other: connection, headers, first token, next
// token.
type watchdog struct {
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	timer    *time.Timer
	deadline time.Time
	cause    error
}

func newWatchdog(cancel context.CancelCauseFunc, limit time.Duration, cause error) *watchdog {
	w := &watchdog{cancel: cancel, deadline: time.Now().Add(limit), cause: cause}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(limit, w.fire)
	return w
}

// expect sets what to wait for next, and until when.
func (w *watchdog) expect(deadline time.Time, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline, w.cause = deadline, cause
	w.timer.Reset(time.Until(deadline))
}

// extend moves the deadline away without touching the timer, which is cheap
// enough for every token: the timer finds out when it fires.
func (w *watchdog) extend(deadline time.Time) {
	w.mu.Lock()
	w.deadline = deadline
	w.mu.Unlock()
}

func (w *watchdog) stop() { w.timer.Stop() }

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := time.Until(w.deadline); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.cancel(w.cause)
}
