package schedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

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
// before that run has left, it starts anew but never beside it.
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
		l.wantSkips(t, "a", map[Reason]int{ReasonOverrun: 1})
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
