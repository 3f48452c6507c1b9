package schedule

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// began is one run that a lab saw.
type began struct {
	At      time.Duration // since the first grid point of the job
	Confirm bool
}

// lab runs a Scheduler in a bubble and keeps what its jobs see.
type lab struct {
	s     *Scheduler
	epoch time.Time
	end   func() // stops the scheduler and waits for it

	mu     sync.Mutex
	begins map[string][]began
	skips  map[string]map[result.SkipReason]int
	order  []string // keys in the order of their starts
	now    int      // runs in flight
	most   int      // the most of them at once
}

// newLab starts a Scheduler; it must be called in a bubble.
func newLab(t *testing.T, o Options) *lab {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &lab{
		s: New(o), epoch: time.Now(),
		begins: map[string][]began{}, skips: map[string]map[result.SkipReason]int{},
	}
	ended := make(chan error)
	go func() { ended <- l.s.Run(ctx) }()
	l.end = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	return l
}

func (l *lab) inFlight() int {
	synctest.Wait()
	return l.s.slots.running.all()
}

// first returns the first grid point of a job that was there from the start,
// worked out apart from the code under test.
func (l *lab) first(key string, interval time.Duration) time.Time {
	offset := time.Duration(xxhash.Sum64String(key) % uint64(interval))
	at := time.Unix(0, 0).Add(l.epoch.Sub(time.Unix(0, 0)) / interval * interval).Add(offset)
	for !at.After(l.epoch) {
		at = at.Add(interval)
	}
	return at
}

// keyDue returns a key whose first grid point is within half a second after a
// moment.
func (l *lab) keyDue(moment time.Time, interval time.Duration) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("key-", i)
		if late := l.first(key, interval).Sub(moment); late >= 0 && late < time.Second/2 {
			return key
		}
	}
}

// job returns a job that keeps account of its runs and does each by do, which
// may be nil.
func (l *lab) job(key, host string, interval time.Duration, do func(context.Context, Run) Report) Job {
	first := l.first(key, interval)
	l.skips[key] = map[result.SkipReason]int{}
	return Job{
		Key: key, Host: host, Interval: interval,
		Run: func(ctx context.Context, r Run) Report {
			l.mu.Lock()
			l.begins[key] = append(l.begins[key], began{time.Since(first), r.Confirm})
			l.order = append(l.order, key)
			l.now++
			l.most = max(l.most, l.now)
			l.mu.Unlock()
			defer func() {
				l.mu.Lock()
				l.now--
				l.mu.Unlock()
			}()
			if do == nil {
				return Report{}
			}
			return do(ctx, r)
		},
		Skipped: func(why result.SkipReason) {
			l.mu.Lock()
			l.skips[key][why]++
			l.mu.Unlock()
		},
	}
}

// until sleeps until a moment after the first grid point of a job, and a
// little more, so that everything of that moment is done.
func (l *lab) until(key string, interval, after time.Duration) {
	time.Sleep(time.Until(l.first(key, interval).Add(after)) + time.Millisecond)
	synctest.Wait()
}

// takes returns a run that lasts d, or less when it is canceled.
func takes(d time.Duration) func(context.Context, Run) Report {
	return func(ctx context.Context, _ Run) Report {
		wait(ctx, d)
		return Report{}
	}
}

// reports returns a run that reports rs one after the other, then the zero
// Report.
func reports(rs ...Report) func(context.Context, Run) Report {
	return func(context.Context, Run) Report {
		if len(rs) == 0 {
			return Report{}
		}
		r := rs[0]
		rs = rs[1:]
		return r
	}
}

// wait sleeps for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
