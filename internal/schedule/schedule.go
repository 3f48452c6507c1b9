// Package schedule decides when each job runs: on a grid of its own interval, never twice at once, within limits,
// sooner after a failure and later where the other side asks for a pause. It does not know what a job does.
package schedule

import (
	"cmp"
	"container/heap"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// maxSleep bounds a sleep of the loop, so that a step of the wall clock is noticed within this time.
const maxSleep = 10 * time.Second

// maxStandstill is after how long without a pass the loop is taken to hang: three of its longest sleeps.
const maxStandstill = 3 * maxSleep

// Job is one thing to run again and again.
type Job struct {
	// Key is the identity of the job. It survives Update, and its hash places
	// the job's grid, so that load is spread and a restart does not shift it.
	Key string
	// Host is what Options.InFlightPerHost counts by.
	Host string
	// Group names the jobs that ask the same server; "" is a group of its own. After a run timed out beside another one
	// of its group, those of the group run one at a time for an hour.
	Group string
	// Interval is the time between two points of the grid; it must be positive.
	Interval time.Duration
	// Run does the job once. It must return soon after ctx ends: by ErrOvertaken, or context.Canceled as its job or the
	// Scheduler goes. A panic is logged and counts as a failure.
	Run func(ctx context.Context, r Run) Report
	// Skipped is called for each grid point without a run, one after the other, on a
	// goroutine of the job's own, also after Run of the Scheduler has returned; it
	// may be nil. While it blocks, up to 1,000 calls wait; the rest is lost.
	Skipped func(result.SkipReason)
}

// Run is what a job knows of one of its runs.
type Run struct {
	// Scheduled is when the run was due. It may start later, when it had to wait for a slot.
	Scheduled time.Time
	// Confirm marks an extra run soon after a failure.
	Confirm bool
}

// Report is what a run reports. That of a run that the scheduler canceled is ignored.
type Report struct {
	// Failed asks for a confirmation, when the run before had not failed.
	Failed bool
	// TimedOut reports that the other side did not answer in time. Jobs whose last run timed out get at most half of
	// the places that the limits allow, and a pause after the second such run in a row.
	TimedOut bool
	// Skipped means that nothing was done, so that the outcome of the run before still holds.
	Skipped bool
	// RetryAfter is a pause that the other side asked for, of at most an hour; zero and negative are none.
	RetryAfter time.Duration
}

// Options are the settings of a Scheduler.
type Options struct {
	// InFlight limits the runs at any moment; 0 is no limit.
	InFlight int
	// InFlightPerHost limits them per Job.Host; 0 is no limit.
	InFlightPerHost int
	// Salt gives each process with the same jobs a grid of its own, not to ask all at once; "" is none.
	Salt string
	// Logger logs panics and jobs that cannot be scheduled; nil discards.
	Logger *slog.Logger
}

// Scheduler runs jobs. The goroutine of Run owns all state save the fields that are marked as shared.
type Scheduler struct {
	log   *slog.Logger
	salt  string
	clock clock

	jobs   map[string]*job
	agenda agenda // every job that is not gone, by its next event
	slots  slots  // who may start

	// Shared with the callers of the methods and with the runs.
	loopedAt atomic.Pointer[time.Time] // of the latest pass of the loop; nil while it does not run
	update   atomic.Pointer[[]Job]     // the latest set not yet taken over
	limits   atomic.Pointer[limits]    // the latest ones not yet taken over
	wake     chan struct{}
	done     chan *run // that have ended
}

// New returns a Scheduler without jobs.
func New(o Options) *Scheduler {
	return &Scheduler{
		log:   cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		salt:  o.Salt,
		clock: newClock(),
		jobs:  map[string]*job{},
		slots: slots{limits: limits{o.InFlight, o.InFlightPerHost}, hosts: map[string]*host{}, groups: map[string]*group{}},
		wake:  make(chan struct{}, 1),
		done:  make(chan *run),
	}
}

// Update replaces the set of jobs. A job that keeps its Key and Interval keeps its place on the grid, its pause and its
// run in flight; another Interval gives it a new grid. A run of a job that is gone is canceled. A new job starts at its
// first grid point. Update does not wait for any of this, and may be called before Run.
func (s *Scheduler) Update(jobs []Job) {
	s.update.Store(&jobs)
	s.wakeUp()
}

// SetLimits replaces those of Options. Runs in flight beyond a lower limit end as
// they would; a start that waits gets its slot at once where there is room now.
func (s *Scheduler) SetLimits(inFlight, inFlightPerHost int) {
	s.limits.Store(&limits{inFlight, inFlightPerHost})
	s.wakeUp()
}

// wakeUp makes the loop look for what was set.
func (s *Scheduler) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is due to look anyway
	}
}

// Hangs reports whether the loop makes no progress. It does not while Run does not run.
func (s *Scheduler) Hangs() bool {
	at := s.loopedAt.Load()
	return at != nil && time.Since(*at) > maxStandstill
}

// Run starts runs until ctx ends; then it cancels those in flight, waits for them and returns nil. It must be called once.
func (s *Scheduler) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		s.loopedAt.Store(new(time.Now()))
		timer.Reset(s.advance(ctx))
		select {
		case <-ctx.Done():
		case r := <-s.done:
			s.finish(r, s.now())
		case <-s.wake:
		case <-timer.C:
		}
	}
	s.loopedAt.Store(nil)
	for s.slots.running.all() > 0 {
		r := <-s.done
		s.slots.release(r.slot, s.clock.wall)
	}
	return nil
}

// advance does everything that is due and returns how long nothing else is.
func (s *Scheduler) advance(ctx context.Context) time.Duration {
	now := s.now()
	s.collect(now)
	if l := s.limits.Swap(nil); l != nil {
		s.slots.setLimits(*l)
	}
	if jobs := s.update.Swap(nil); jobs != nil {
		s.apply(*jobs, now)
	}
	for len(s.agenda) > 0 && s.agenda[0].nextEvent() <= now {
		s.handle(s.agenda[0], now)
		heap.Fix(&s.agenda, 0)
	}
	for sl := s.slots.next(now); sl != nil; sl = s.slots.next(now) {
		s.start(ctx, sl, now)
	}
	if len(s.agenda) == 0 {
		return maxSleep
	}
	return min(maxSleep, time.Duration(s.agenda[0].nextEvent()-now))
}

// collect takes the runs that have ended by now, so that none is an overrun of a grid point at the same moment.
func (s *Scheduler) collect(now int64) {
	for {
		select {
		case r := <-s.done:
			s.finish(r, now)
		default:
			return
		}
	}
}

func (s *Scheduler) apply(jobs []Job, now int64) {
	wanted := make(map[string]bool, len(jobs))
	for _, want := range jobs {
		if wanted[want.Key] || want.Interval <= 0 {
			s.log.Error("job rejected: its key must be unique and its interval positive",
				"key", want.Key, "interval", want.Interval)
			continue
		}
		wanted[want.Key] = true
		s.put(want, now)
	}
	for key, j := range s.jobs {
		if !wanted[key] {
			s.remove(j)
		}
	}
}

func (s *Scheduler) put(want Job, now int64) {
	j := s.jobs[want.Key]
	if j == nil {
		j = &job{index: unlisted, grid: gridOf(s.salt, want.Key)}
		s.jobs[want.Key] = j
	}
	isNew := j.gone() || j.Interval != want.Interval || j.Group != want.Group
	j.Job = want
	if !isNew {
		return
	}
	s.slots.withdraw(j)
	s.slots.join(j)
	j.restart(now)
	if j.gone() {
		heap.Push(&s.agenda, j)
	} else {
		heap.Fix(&s.agenda, j.index)
	}
}

// remove ends a job. It stays known while its canceled run is on: the same key, put back, never runs twice at once.
func (s *Scheduler) remove(j *job) {
	s.slots.withdraw(j)
	if !j.gone() {
		heap.Remove(&s.agenda, j.index)
	}
	if j.run == nil {
		s.forget(j)
		return
	}
	j.run.stop(context.Canceled)
}

// forget ends all knowledge of a job that has left the agenda.
func (s *Scheduler) forget(j *job) {
	s.slots.part(j)
	delete(s.jobs, j.Key)
}

// now returns the wall clock. When it stepped, all jobs move to their grid by
// the new time; grid points that it jumped over never were and are not counted.
func (s *Scheduler) now() int64 {
	now, step := s.clock.now()
	if step != 0 {
		s.log.Warn("the wall clock stepped", "step", step)
		for _, j := range s.agenda {
			j.shift(now, step)
		}
		heap.Init(&s.agenda)
	}
	return now
}

// maxDrift is how far the wall clock may move against the monotonic one between two looks before it counts as a step.
// Less is slewing, which the grid follows without harm.
const maxDrift = time.Second

// clock is the wall clock, in nanoseconds since 1970, apart from its steps: set by hand, by NTP, by a suspended machine.
type clock struct {
	// read returns the wall clock and the monotonic one.
	read func() (wall int64, mono time.Duration)

	wall int64
	mono time.Duration
}

func newClock() clock {
	start := time.Now()
	return clock{
		read: func() (int64, time.Duration) {
			now := time.Now()
			return now.UnixNano(), now.Sub(start)
		},
		wall: start.UnixNano(),
	}
}

// now returns the wall clock and by how much it stepped since the call before.
func (c *clock) now() (now int64, step time.Duration) {
	wall, mono := c.read()
	drift := time.Duration(wall-c.wall) - (mono - c.mono)
	c.wall, c.mono = wall, mono
	if drift.Abs() < maxDrift {
		return wall, 0
	}
	return wall, drift
}

// Point returns the latest instant until now that a job of the key would run at, were that its interval.
func (s *Scheduler) Point(key string, interval time.Duration, now time.Time) time.Time {
	return time.Unix(0, gridAfter(gridOf(s.salt, key), interval, now.UnixNano())).Add(-interval)
}

func gridOf(salt, key string) uint64 { return xxhash.Sum64String(salt + key) }

// gridAfter returns the first point after now of a grid: t since 1970 with t mod interval = grid mod interval.
func gridAfter(grid uint64, interval time.Duration, now int64) int64 {
	offset := int64(grid % uint64(interval))
	into := (now - offset) % int64(interval)
	if into < 0 { // only before 1970
		into += int64(interval)
	}
	return now - into + int64(interval)
}
