package schedule

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// at lists plain runs at multiples of the interval.
func at(interval time.Duration, points ...int) []began {
	var list []began
	for _, p := range points {
		list = append(list, began{At: time.Duration(p) * interval})
	}
	return list
}

func (l *lab) wantBegins(t *testing.T, key string, want []began) {
	t.Helper()
	if diff := cmp.Diff(want, l.begins[key]); diff != "" {
		t.Errorf("runs of %s (-want +got):\n%s", key, diff)
	}
}

func (l *lab) wantSkips(t *testing.T, key string, want map[result.SkipReason]int) {
	t.Helper()
	if diff := cmp.Diff(want, l.skips[key]); diff != "" {
		t.Errorf("skips of %s (-want +got):\n%s", key, diff)
	}
}

func TestRunsOnTheGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 30 * time.Second
		l := newLab(t, Options{})
		l.s.Update([]Job{l.job("a", "", interval, takes(29*time.Second))})
		l.until("a", interval, 3*interval)
		l.end()
		l.wantBegins(t, "a", at(interval, 0, 1, 2, 3))
		l.wantSkips(t, "a", map[result.SkipReason]int{})
	})
}

// onLine is a slog.Handler that calls a function for each line.
type onLine func()

func (onLine) Enabled(context.Context, slog.Level) bool    { return true }
func (f onLine) Handle(context.Context, slog.Record) error { f(); return nil }
func (f onLine) WithAttrs([]slog.Attr) slog.Handler        { return f }
func (f onLine) WithGroup(string) slog.Handler             { return f }

// Whatever Skipped does, other jobs run at their grid points, and each skip is reported in
// its order once it goes on.
func TestSkippedMayBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Second
		l := newLab(t, Options{})
		paused := l.job("paused", "", interval, reports(Report{RetryAfter: 40 * time.Second}))
		release := make(chan struct{})
		count := paused.Skipped
		paused.Skipped = func(why result.SkipReason) { <-release; count(why) }
		l.s.Update([]Job{paused, l.job("a", "", interval, nil)})
		l.until("a", interval, 30*interval)
		if begins := l.begins["a"]; len(begins) != 31 || begins[30].At != 30*interval {
			t.Errorf("%d runs at 31 grid points: %v", len(begins), begins)
		}
		if n := len(l.skips["paused"]); n != 0 {
			t.Errorf("%d skips were reported", n)
		}
		close(release)
		synctest.Wait()
		l.end()
		if n := l.skips["paused"][result.SkipBackoff]; n < 29 || n > 31 {
			t.Errorf("%d skips of 30 grid points", n)
		}
	})
}

// A loop that hangs is noticed, and one that has nothing to do does not hang.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := New(Options{Logger: slog.New(onLine(func() { <-release }))})
		ctx, cancel := context.WithCancel(t.Context())
		wants := func(when string, want bool) {
			t.Helper()
			if got := s.Hangs(); got != want {
				t.Errorf("%s: hangs is %t, want %t", when, got, want)
			}
		}
		wants("before it runs", false)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.Run(ctx)
		}()
		time.Sleep(time.Hour + time.Millisecond)
		wants("idle for an hour", false)
		s.Update([]Job{{Key: "never"}}) // is logged
		time.Sleep(20 * time.Second)
		wants("blocked for less than 20 s", false)
		time.Sleep(15 * time.Second)
		wants("blocked for more than 30 s", true)
		close(release)
		time.Sleep(maxSleep + time.Millisecond)
		wants("on again", false)
		cancel()
		<-ended
		time.Sleep(time.Hour)
		wants("ended", false)
	})
}

// A restart, however late, finds the same grid.
func TestRestartKeepsGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 7 * time.Second // 946684800 mod 7 is not 0
		first := newLab(t, Options{}).begin(t, interval)
		time.Sleep(12345678901 * time.Nanosecond)
		second := newLab(t, Options{}).begin(t, interval)
		if rest := second.Sub(first) % interval; rest != 0 {
			t.Errorf("the grid moved by %v", rest)
		}
	})
}

// begin runs one job, once, and returns when that was.
func (l *lab) begin(t *testing.T, interval time.Duration) time.Time {
	t.Helper()
	var when time.Time
	l.s.Update([]Job{{Key: "a", Interval: interval, Run: func(_ context.Context, r Run) Report {
		when = time.Now()
		if !r.Scheduled.Equal(when) {
			t.Errorf("scheduled %v, ran %v", r.Scheduled, when)
		}
		return Report{}
	}}})
	time.Sleep(interval)
	l.end()
	return when
}

func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{})
		l.s.Update([]Job{l.job("a", "", interval, takes(25*time.Second))})
		l.until("a", interval, 8*interval)
		l.end()
		l.wantBegins(t, "a", at(interval, 0, 3, 6))
		l.wantSkips(t, "a", map[result.SkipReason]int{result.SkipOverrun: 6})
	})
}

func TestAlmostOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{})
		l.s.Update([]Job{l.job("a", "", interval, takes(interval-1))})
		l.until("a", interval, 5*interval)
		l.end()
		l.wantBegins(t, "a", at(interval, 0, 1, 2, 3, 4, 5))
	})
}

func TestPause(t *testing.T) {
	const interval = 10 * time.Second
	f := func(name string, asked time.Duration, until time.Duration, points []int, skipped int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, Options{})
				l.s.Update([]Job{l.job("a", "", interval, reports(Report{Failed: true, RetryAfter: asked}))})
				l.until("a", interval, until)
				l.end()
				l.wantBegins(t, "a", at(interval, points...))
				want := map[result.SkipReason]int{}
				if skipped > 0 {
					want[result.SkipBackoff] = skipped
				}
				l.wantSkips(t, "a", want)
			})
		})
	}
	// No case has a confirmation: the other side asked for less, not for more.
	f("shorter than the interval", 3*time.Second, 2*interval, []int{0, 1, 2}, 0)
	f("exactly to a grid point", 2*interval, 3*interval, []int{0, 2, 3}, 1)
	f("past a grid point", 25*time.Second, 4*interval, []int{0, 3, 4}, 2)
	f("at most an hour", 24*time.Hour, time.Hour, []int{0, 360}, 359)
}

func TestPanicIsAFailure(t *testing.T) {
	for name, fall := range map[string]func(){
		"panic": func() { panic("out of cheese") },
		"exit":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const interval = 30 * time.Second
				var log bytes.Buffer
				l := newLab(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				fallen := false
				l.s.Update([]Job{l.job("a", "", interval, func(context.Context, Run) Report {
					if !fallen {
						fallen = true
						fall()
					}
					return Report{}
				})})
				l.until("a", interval, interval)
				l.end()
				l.wantBegins(t, "a", []began{{0, false}, {5 * time.Second, true}, {interval, false}})
				if got := strings.Contains(log.String(), "out of cheese"); got != (name == "panic") {
					t.Errorf("log: %s", log.String())
				}
			})
		})
	}
}

func TestShutdownCancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{InFlight: 1})
		ended := 0
		slow := func(ctx context.Context, _ Run) Report {
			<-ctx.Done()
			time.Sleep(2 * time.Second) // slow to leave
			ended++
			return Report{Failed: true}
		}
		l.s.Update([]Job{l.job("a", "", interval, slow), l.job("b", "", interval, slow)})
		time.Sleep(interval)
		if got := l.inFlight(); got != 1 {
			t.Errorf("%d in flight", got)
		}
		before := time.Now()
		l.end()
		if took := time.Since(before); took != 2*time.Second || ended != 1 || l.inFlight() != 0 {
			t.Errorf("left after %v with %d runs ended and %d in flight", took, ended, l.inFlight())
		}
		if len(l.order) != 1 {
			t.Errorf("started %v; the second had to wait for ever", l.order)
		}
	})
}

// A process that was suspended for long runs each job once, not once for each
// grid point that it missed.
func TestStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		// The scheduler's own goroutine blocks, once, for its log.
		l := newLab(t, Options{Logger: slog.New(onLine(func() { time.Sleep(10 * interval) }))})
		slow := l.job("slow", "", interval, takes(15*time.Second))
		jobs := []Job{l.job("a", "", interval, nil), slow}
		block := sync.OnceFunc(func() { l.s.Update(append(jobs, Job{Key: "never"})) })
		count := slow.Skipped
		jobs[1].Skipped = func(why result.SkipReason) { count(why); block() }
		l.s.Update(jobs)
		l.until("a", interval, 21*interval)
		l.end()
		runs, missed := len(l.begins["a"]), l.skips["a"][result.SkipLimit]
		if runs+missed != 22 || missed != 9 {
			t.Errorf("%d runs and %d missed of 22 grid points: %v", runs, missed, l.begins["a"])
		}
		// The run of slow ended meanwhile: its lost grid points are no overruns.
		l.begins["slow"] = l.begins["slow"][:3]
		l.wantBegins(t, "slow", at(interval, 0, 11, 13))
		if n := l.skips["slow"][result.SkipLimit]; n != 9 {
			t.Errorf("slow: %v", l.skips["slow"])
		}
	})
}

func TestBadJobsAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newLab(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		twin := l.job("a", "", time.Second, nil)
		l.s.Update([]Job{l.job("a", "", time.Second, nil), twin, {Key: "never"}})
		l.until("a", time.Second, 2*time.Second)
		l.end()
		l.wantBegins(t, "a", at(time.Second, 0, 1, 2))
		if n := strings.Count(log.String(), "job rejected"); n != 2 {
			t.Errorf("%d jobs rejected:\n%s", n, log.String())
		}
	})
}

// The same key and interval keep everything, whatever else changes.
func TestUpdateKeepsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{})
		slow := l.job("slow", "x", interval, takes(25*time.Second))
		paused := l.job("paused", "x", interval, reports(Report{RetryAfter: 35 * time.Second}))
		failed := l.job("failed", "x", interval, reports(Report{Failed: true}))
		jobs := []Job{slow, paused, failed}
		l.s.Update(jobs)
		for range 60 { // an update each second changes nothing
			time.Sleep(time.Second)
			l.s.Update(jobs)
		}
		l.until("slow", interval, 6*interval)
		l.end()
		l.wantBegins(t, "slow", at(interval, 0, 3, 6))
		l.begins["paused"] = l.begins["paused"][:2]
		l.wantBegins(t, "paused", at(interval, 0, 4))
		l.begins["failed"] = l.begins["failed"][:3]
		l.wantBegins(t, "failed", []began{{0, false}, {interval / 3, true}, {interval, false}})
	})
}

// The next run does what the latest update says.
func TestUpdateReplacesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{})
		l.s.Update([]Job{l.job("a", "", interval, nil)})
		l.until("a", interval, interval)
		var second []time.Duration
		l.s.Update([]Job{{Key: "a", Interval: interval, Run: func(context.Context, Run) Report {
			second = append(second, time.Since(l.first("a", interval)))
			return Report{}
		}}})
		l.until("a", interval, 2*interval)
		l.end()
		l.wantBegins(t, "a", at(interval, 0, 1))
		if len(second) != 1 || second[0] != 2*interval {
			t.Errorf("the new run ran at %v", second)
		}
	})
}

// Another interval is another grid; the run in flight goes on, alone.
func TestUpdateInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const before, after = 10 * time.Second, 7 * time.Second
		l := newLab(t, Options{})
		job := l.job("a", "", before, takes(30*time.Second))
		l.s.Update([]Job{job})
		l.until("a", before, 0)
		job.Interval = after
		l.s.Update([]Job{job})
		time.Sleep(59 * time.Second)
		l.end()
		if len(l.begins["a"]) != 2 || l.most != 1 {
			t.Fatalf("%d at once: %v", l.most, l.begins["a"])
		}
		start := l.first("a", before).Add(l.begins["a"][1].At)
		if off := start.Sub(l.first("a", after)) % after; off != 0 {
			t.Errorf("second run is %v off the new grid", off)
		}
		if start.Before(l.first("a", before).Add(30 * time.Second)) {
			t.Errorf("second run at %v, with the first still on", start)
		}
	})
}

// A job that goes has its run canceled and no further one; when it comes back
// before that run has left, it starts isNew but never beside it.
func TestUpdateGoneAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{})
		var canceled, left time.Time
		job := l.job("a", "", interval, func(ctx context.Context, _ Run) Report {
			if !left.IsZero() {
				return Report{}
			}
			<-ctx.Done()
			canceled = time.Now()
			time.Sleep(22 * time.Second)
			left = time.Now()
			return Report{Failed: true, RetryAfter: time.Hour} // void
		})
		l.s.Update([]Job{job})
		l.until("a", interval, 0)
		gone := time.Now()
		l.s.Update(nil)
		synctest.Wait()
		if !canceled.Equal(gone) {
			t.Errorf("gone at %v, canceled at %v", gone, canceled)
		}
		time.Sleep(11 * time.Second)
		l.s.Update([]Job{job}) // after the second grid point, before the third
		l.until("a", interval, 4*interval)
		l.end()
		l.wantBegins(t, "a", at(interval, 0, 3, 4))
		l.wantSkips(t, "a", map[result.SkipReason]int{result.SkipOverrun: 1})
		if l.most != 1 {
			t.Errorf("%d runs of one key at once", l.most)
		}
	})
}

func TestUpdateBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		s, n := New(Options{}), 0
		s.Update([]Job{{Key: "old", Interval: time.Second, Run: func(context.Context, Run) Report {
			t.Error("a set that was replaced ran")
			return Report{}
		}}})
		s.Update([]Job{{Key: "a", Interval: time.Second, Run: func(context.Context, Run) Report {
			n++
			return Report{}
		}}})
		if err := s.Run(ctx); err != nil || n < 2 || n > 3 {
			t.Errorf("%d runs in 3 s: %v", n, err)
		}
	})
}
