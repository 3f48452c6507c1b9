package schedule

import (
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// maxSkips is how many skips of a job wait for those before them. Further ones are not
// reported: their receiver hangs.
const maxSkips = 1000

// skips reports the grid points of a job without a run, one after the other, on a
// goroutine that is there while there are any. The scheduler never waits for it.
type skips struct {
	mu      sync.Mutex // never held while a skip is reported
	waiting []skip     // the first one is being reported
}

// skip is a grid point without a run, and whom to report it to.
type skip struct {
	report func(result.SkipReason)
	why    result.SkipReason
}

// add reports a skip after those that wait.
func (s *skips) add(one skip) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == maxSkips {
		return
	}
	if s.waiting = append(s.waiting, one); len(s.waiting) == 1 {
		go s.reportAll(one)
	}
}

// reportAll reports skips until none waits.
func (s *skips) reportAll(first skip) {
	for one, more := first, true; more; one, more = s.next() {
		one.report(one.why)
	}
}

// next ends the skip that was reported and returns the one after it; false is none.
func (s *skips) next() (skip, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting = s.waiting[1:]; len(s.waiting) == 0 {
		s.waiting = nil
		return skip{}, false
	}
	return s.waiting[0], true
}
