package fleet

import (
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// waiting are the instants at which a probe of a task was due while the one before still
// ran: a probe is not started then, but a user who comes waits as well. It is safe
// for concurrent use.
type waiting struct {
	mu  sync.Mutex
	due []time.Time
}

func (w *waiting) add(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = append(w.due, at)
}

// take returns the instants since the last call.
func (w *waiting) take() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.due
	w.due = nil
	return due
}

// countWaiting counts the users who came while the results of a run waited for their first
// token.
func (t *task) countWaiting(results []*result.Result, counts bool) {
	due := t.waiting.take()
	if !counts {
		return
	}
	limit := t.promised.TTFT
	for _, at := range due {
		for _, r := range results {
			if wait, ok := waited(r, at, limit); ok {
				of := t.series.of(r)
				of.wait(at, wait, limit)
				break
			}
		}
	}
}

// waited returns how long a user who came at an instant waited for a first token, if the
// probe waited for its own then: until that token came, as the server was frozen
// for both. Where the probe was given up without one it is result.Absent, no token,
// unless the user had not yet waited for longer than limit: whether the wait would have
// been too long is not known.
func waited(r *result.Result, at time.Time, limit time.Duration) (time.Duration, bool) {
	if at.Before(r.Start) || r.Imprecise || r.Outcome == result.Canceled {
		return 0, false
	}
	if r.Timing.TTFT >= 0 {
		wait := r.Sent.Add(r.Timing.TTFT).Sub(at)
		return wait, wait > 0
	}
	end := r.Start.Add(max(0, r.Timing.Duration))
	return result.Absent, r.Outcome != result.Success && end.Sub(at) > limit
}
