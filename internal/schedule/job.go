package schedule

import (
	"container/heap"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// maxPause bounds what a server may ask for in Retry-After.
	maxPause = time.Hour
	// maxConfirmDelay is the longest time from a failure to its confirmation.
	maxConfirmDelay = 5 * time.Second
	// minConfirmGap is between a confirmation and the next grid point for it to be worth its load.
	minConfirmGap = time.Second
	// maxConfirms is how many confirmations one failure may have.
	maxConfirms = 2
)

// ErrOvertaken is the cause with which a confirmation ends whose job has its next run. It is a context.Canceled.
var ErrOvertaken = fmt.Errorf("%w: the next run is due", context.Canceled)

// job is a Job with its state. Times are wall clock, nanoseconds since 1970.
type job struct {
	Job
	grid      uint64 // the hash that places it
	next      int64  // the next grid point
	confirmAt int64  // the planned confirmation, before next; 0 is none
	pauseEnd  int64  // no grid point before this has a run
	slot      *slot  // the start that waits; nil is none
	run       *run   // the run in flight; nil is none
	group     *group // nil is none
	lasted    int64  // how long the last run took
	skips     *skips // nil before the first
	index     int    // in the agenda
	timeouts  int    // runs that timed out since the last one that did not
	confirms  int8   // confirmations planned since the first failure
	failed    bool   // the verdict of the last run
}

type run struct {
	slot     *slot
	started  int64
	canceled bool
	cancel   context.CancelCauseFunc
	report   Report // once it has ended
}

// stop cancels the run, with what errors.Is reports as context.Canceled, and makes its report void.
func (r *run) stop(cause error) {
	r.canceled = true
	r.cancel(cause)
}

func (j *job) nextEvent() int64 {
	if j.confirmAt != 0 {
		return j.confirmAt
	}
	return j.next
}

func (j *job) gone() bool { return j.index == unlisted }

func (j *job) restart(now int64) {
	j.next = gridAfter(j.grid, j.Interval, now)
	j.confirmAt, j.pauseEnd, j.confirms, j.failed, j.timeouts = 0, 0, 0, false, 0
}

func (j *job) shift(now int64, step time.Duration) {
	j.next = gridAfter(j.grid, j.Interval, now)
	j.confirmAt = 0
	j.pauseEnd += int64(step)
	if j.slot != nil {
		j.slot.due += int64(step)
	}
}

// skip has a grid point without a run reported.
func (j *job) skip(why result.SkipReason) {
	if j.Skipped == nil {
		return
	}
	if j.skips == nil {
		j.skips = new(skips)
	}
	report := j.Skipped
	j.skips.add(func() { report(why) })
}

// handle does what is due for a job: a confirmation or a grid point.
func (s *Scheduler) handle(j *job, now int64) {
	if j.confirmAt != 0 {
		due := j.confirmAt
		j.confirmAt = 0
		s.slots.ask(j, due, true, now)
		return
	}
	due := j.next
	j.next += int64(j.Interval)
	switch {
	case due < j.pauseEnd:
		j.skip(result.SkipBackoff)
	case j.slot != nil:
		j.postpone(due)
	case j.run == nil:
		s.slots.ask(j, due, false, now)
	case j.run.slot.confirm:
		// A confirmation never delays the grid.
		j.run.stop(ErrOvertaken)
		s.slots.hold(j, due, false)
	default:
		j.skip(result.SkipOverrun)
	}
}

// postpone gives a start that waits to a new grid point: it keeps its place in the line, and the old grid point is lost.
func (j *job) postpone(due int64) {
	switch {
	case j.slot.confirm:
	case j.run != nil: // held back by a confirmation that does not end
		j.skip(result.SkipOverrun)
	default:
		j.skip(result.SkipLimit)
	}
	j.slot.due, j.slot.confirm = due, false
}

func (s *Scheduler) start(ctx context.Context, sl *slot, now int64) {
	j := sl.job
	j.slot = nil
	if sl.confirm && !j.roomToConfirm(now) {
		s.slots.release(sl, now)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	j.run = &run{slot: sl, started: now, cancel: cancel, report: Report{Failed: true}}
	go s.work(ctx, j.run, j.Job, Run{Scheduled: time.Unix(0, sl.due), Confirm: sl.confirm})
}

// work is the goroutine of one run. It sends its end whatever the job does.
func (s *Scheduler) work(ctx context.Context, r *run, do Job, info Run) {
	defer r.cancel(nil)
	defer func() { s.done <- r }()
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic in a run", "key", do.Key, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	r.report = do.Run(ctx, info)
}

func (s *Scheduler) finish(r *run, now int64) {
	j := r.slot.job
	j.run = nil
	r.slot.group.ran(r, now)
	s.slots.release(r.slot, now)
	if j.gone() {
		s.forget(j)
		return
	}
	if j.slot != nil {
		s.slots.admit(j.slot, now)
	}
	if !r.canceled {
		j.learn(r, now)
		heap.Fix(&s.agenda, j.index)
	}
}

func (j *job) learn(r *run, now int64) {
	if r.report.Skipped {
		return
	}
	before := j.failed
	j.failed, j.lasted = r.report.Failed, now-r.started
	j.countTimeout(r.report.TimedOut, now)
	if r.report.RetryAfter > 0 {
		j.pauseEnd = now + int64(min(r.report.RetryAfter, maxPause))
		return
	}
	if !j.failed {
		return
	}
	if !before {
		j.confirms = 0
	} else if !r.slot.confirm {
		return // known to be down; the grid goes on
	}
	at := now + int64(min(maxConfirmDelay, j.Interval/3))
	if j.confirms < maxConfirms && j.roomToConfirm(at) {
		j.confirmAt = at
		j.confirms++
	}
}

// countTimeout gives a server that let two runs in a row time out a pause as long as the run, so that it is asked for
// at most half of the time: it may still work on requests that were given up. The first one has no pause, as an outage
// is to be known soon, and none is longer than two intervals, as its end is too.
func (j *job) countTimeout(timedOut bool, now int64) {
	if !timedOut {
		j.timeouts = 0
		return
	}
	j.timeouts++
	if j.timeouts > 1 {
		j.pauseEnd = now + min(j.lasted, 2*int64(j.Interval))
	}
}

// roomToConfirm reports whether a confirmation that begins then and takes as long as the failed run ends well before
// the next grid point, which else does its work.
func (j *job) roomToConfirm(at int64) bool {
	return j.next-at-j.lasted > int64(minConfirmGap)
}

// unlisted is the index of a job that is not in the agenda.
const unlisted = -1

type agenda []*job

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].nextEvent() < a[j].nextEvent() }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

func (a *agenda) Push(x any) {
	j := x.(*job)
	j.index = len(*a)
	*a = append(*a, j)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	j := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	j.index = unlisted
	return j
}

// maxSkips is how many skips of a job wait. Further ones are not reported: their receiver hangs.
const maxSkips = 1000

// skips reports the grid points of a job without a run, one after the other, on a
// goroutine that is there while there are any. The scheduler never waits for it.
type skips struct {
	mu      sync.Mutex // never held while a skip is reported
	waiting []func()   // the first one is being called
}

// add reports a skip after those that wait.
func (s *skips) add(report func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == maxSkips {
		return
	}
	if s.waiting = append(s.waiting, report); len(s.waiting) == 1 {
		go func() {
			for ; report != nil; report = s.next() {
				report()
			}
		}()
	}
}

// next ends the skip that was reported and returns the one after it; nil is none.
func (s *skips) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting = s.waiting[1:]; len(s.waiting) == 0 {
		s.waiting = nil
		return nil
	}
	return s.waiting[0]
}
