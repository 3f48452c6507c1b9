package schedule

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestSpread(t *testing.T) {
	const interval = time.Minute
	var tenth [10]int
	for i := range 10000 {
		next := gridAfter(gridOf("", fmt.Sprintf("endpoint-%d/interactive", i)), interval, 0)
		tenth[(next-1)*10/int64(interval)]++
	}
	for i, n := range tenth { // binomial: 1000 with a deviation of 30
		if n < 850 || n > 1150 {
			t.Errorf("tenth %d of the interval has %d of 10000 starts", i, n)
		}
	}
}

// The wall clock steps; the grid follows it, and nothing is caught up.
func TestClockStep(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"forward":          37*time.Hour + 11*time.Second,
		"back":             -37*time.Hour - 11*time.Second,
		"forward a little": 17 * time.Second,
		"slew":             900 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stepClock(t, step) })
		})
	}
}

// stepClock runs jobs for five minutes, with a step of the wall clock on the
// way, and looks at each start.
func stepClock(t *testing.T, step time.Duration) {
	const (
		interval = 30 * time.Second
		pause    = 3 * time.Minute
	)
	l := newLab(t, Options{})
	l.end() // only for its books: the clock must be set before Run
	start := time.Now()
	var stepped atomic.Bool
	wall := func() time.Time {
		if stepped.Load() {
			return time.Now().Add(step)
		}
		return time.Now()
	}
	s := New(Options{})
	s.clock.read = func() (int64, time.Duration) { return wall().UnixNano(), time.Since(start) }

	onTime := func(key string) Job {
		offset := l.first(key, interval).UnixNano() % int64(interval)
		return l.job(key, "", interval, func(_ context.Context, r Run) Report {
			if r.Scheduled.UnixNano()%int64(interval) != offset {
				t.Errorf("%s: off the grid: %v", key, r.Scheduled)
			}
			if lag := wall().Sub(r.Scheduled); lag < 0 || lag > maxDrift {
				t.Errorf("%s: ran %v after its time", key, lag)
			}
			return Report{}
		})
	}
	jobs := []Job{l.job("paused", "", interval, reports(Report{RetryAfter: pause}))}
	for i := range 20 {
		jobs = append(jobs, onTime(fmt.Sprint("job-", i)))
	}
	s.Update(jobs)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	time.AfterFunc(95*time.Second, func() { stepped.Store(true) })
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}

	for _, j := range jobs[1:] {
		l.wantSkips(t, j.Key, map[result.SkipReason]int{})
		// Ten grid points; the step may take one away or bring one.
		if n := len(l.begins[j.Key]); n < 9 || n > 11 {
			t.Errorf("%s: %d runs in 5 minutes", j.Key, n)
		}
	}
	p := l.begins["paused"]
	const longest = pause + interval + maxSleep
	if len(p) < 2 || p[1].At-p[0].At < pause-maxDrift || p[1].At-p[0].At > longest {
		t.Errorf("runs around a pause of %v: %v", pause, p)
	}
}

// Two processes with the same jobs ask at different times.
func TestSalt(t *testing.T) {
	const interval = time.Minute
	near := 0
	for i := range 1000 {
		key := fmt.Sprintf("endpoint-%d/interactive", i)
		a, b := gridAfter(gridOf("a", key), interval, 0), gridAfter(gridOf("b", key), interval, 0)
		if time.Duration(a-b).Abs() < interval/20 {
			near++
		}
	}
	if near > 150 { // two random points of a circle are within a twentieth with 10 %
		t.Errorf("%d of 1000 jobs start within %v in both processes", near, interval/20)
	}
}
