package schedule

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// oneSlot is a server that works on one request at a time, each for as long as
// its job says; a request that waits is given up after a limit, and still worked
// on.
type oneSlot struct {
	mu   sync.Mutex
	free time.Time // when all that was asked is done
}

// ask returns a run of a job whose answers take d.
func (o *oneSlot) ask(d, limit time.Duration) func(context.Context, Run) Report {
	return func(ctx context.Context, _ Run) Report {
		o.mu.Lock()
		if now := time.Now(); o.free.Before(now) {
			o.free = now
		}
		o.free = o.free.Add(d)
		left := time.Until(o.free)
		o.mu.Unlock()
		wait(ctx, min(left, limit))
		return Report{Failed: left > limit, TimedOut: left > limit}
	}
}

// Two modules share a server with one slot: the first time that one times out
// behind the other is the last for an hour, and nothing is late by it.
func TestGroupTakesTurns(t *testing.T) {
	f := func(group string, fewest, most int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			const often, seldom = 15 * time.Second, time.Minute
			l := newLab(t, Options{InFlightPerHost: 4})
			var server oneSlot
			timeouts := 0
			count := func(run func(context.Context, Run) Report) func(context.Context, Run) Report {
				return func(ctx context.Context, r Run) Report {
					if lag := time.Since(r.Scheduled); group != "" && lag > time.Second {
						t.Errorf("%v late", lag)
					}
					report := run(ctx, r)
					if report.TimedOut {
						timeouts++
					}
					return report
				}
			}
			short := l.job("short", "h", often, count(server.ask(time.Second, 10*time.Second)))
			long := l.job(l.keyDue(l.first("short", often).Add(often-3*time.Second), seldom), "h", seldom, count(server.ask(20*time.Second, time.Minute)))
			short.Group, long.Group = group, group
			l.s.Update([]Job{short, long})
			l.until("short", often, 50*time.Minute)
			l.end()
			if timeouts < fewest || timeouts > most {
				t.Errorf("group %q: %d timeouts in 50 minutes, want %d to %d", group, timeouts, fewest, most)
			}
			if n := len(l.begins["short"]); n < 100 {
				t.Errorf("group %q: %d runs in 200 intervals", group, n)
			}
		})
	}
	f("g", 1, 2)
	f("", 40, 200) // as it would be
}

// What times out alone says nothing of the others.
func TestGroupStaysTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Minute
		l := newLab(t, Options{})
		early, late := l.keyDue(l.epoch.Add(time.Second), interval), l.keyDue(l.epoch.Add(40*time.Second), interval)
		a, b := l.job(early, "h", interval, hangs(5*time.Second)), l.job(late, "h", interval, nil)
		a.Group, b.Group = "g", "g"
		l.s.Update([]Job{a, b})
		l.until(early, interval, 3*interval)
		if g := l.s.turns.groups["g"]; g.until != 0 {
			t.Errorf("one at a time until %d", g.until)
		}
		l.end()
	})
}

// A server that hangs is asked for at most half of the time from the second
// timeout on; the first two are known soon, and its return within two intervals
// and the limit.
func TestTimeoutsBackOff(t *testing.T) {
	f := func(name string, interval, limit time.Duration, want ...time.Duration) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, Options{})
				l.s.Update([]Job{l.job("a", "", interval, hangs(limit))})
				l.until("a", interval, want[len(want)-1])
				l.end()
				var got []time.Duration
				for _, b := range l.begins["a"] {
					got = append(got, b.At)
				}
				if len(got) != len(want) {
					t.Fatalf("runs at %v, want %v", got, want)
				}
				for i := range want {
					if got[i] != want[i] {
						t.Errorf("runs at %v, want %v", got, want)
						break
					}
				}
			})
		})
	}
	const s = time.Second
	// From the second on: the run, the pause, and the rest to the next grid point.
	f("a limit of about two intervals", 15*s, 29*s, 0, 30*s, 90*s, 150*s)
	f("a limit past two intervals", 15*s, 55*s, 0, 60*s, 150*s, 240*s)
	f("a short limit", 15*s, 4*s, 0, 9*s, 30*s, 45*s)
	f("a slow module", 300*s, 60*s, 0, 65*s, 130*s, 300*s, 600*s)
}
