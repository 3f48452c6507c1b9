package schedule

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestLimits(t *testing.T) {
	f := func(name string, o Options, hosts, most int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const interval = 10 * time.Second
				l := newLab(t, o)
				var jobs []Job
				for i := range 40 {
					host := fmt.Sprint("host-", i%hosts)
					jobs = append(jobs, l.job(fmt.Sprint("job-", i), host, interval, takes(9*time.Second)))
				}
				l.s.Update(jobs)
				time.Sleep(5 * interval)
				if got := l.inFlight(); got > most {
					t.Errorf("InFlight: %d", got)
				}
				l.end()
				if l.most != most {
					t.Errorf("%d runs at once, want %d", l.most, most)
				}
			})
		})
	}
	f("all", Options{InFlight: 7}, 40, 7)
	f("per host", Options{InFlightPerHost: 3}, 4, 12)
	f("both, all smaller", Options{InFlight: 5, InFlightPerHost: 3}, 4, 5)
	f("both, host smaller", Options{InFlight: 100, InFlightPerHost: 2}, 4, 8)
}

// Raised limits give those that wait their slot at once; lowered ones let runs in
// flight end.
func TestSetLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Hour
		l := newLab(t, Options{InFlight: 6, InFlightPerHost: 1})
		var jobs []Job
		for i := range 20 {
			jobs = append(jobs, l.job(fmt.Sprint("job-", i), fmt.Sprint("host-", i%4), interval, takes(100*interval)))
		}
		l.s.Update(jobs)
		at := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := l.inFlight(); got != want {
				t.Errorf("%d runs in flight, want %d", got, want)
			}
		}
		time.Sleep(2 * interval)
		at(4) // one for each host
		l.s.SetLimits(6, 2)
		at(6)
		l.s.SetLimits(0, 2)
		at(8)
		l.s.SetLimits(3, 3)
		at(8)
		l.s.SetLimits(0, 0)
		at(20)
		l.end()
	})
}

// With one place, starts follow the order of their grid points.
func TestFairOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Minute
		l := newLab(t, Options{InFlight: 1})
		var jobs []Job
		var keys []string
		for i := range 50 {
			key := fmt.Sprint("job-", i)
			keys = append(keys, key)
			jobs = append(jobs, l.job(key, key, interval, takes(20*time.Second)))
		}
		slices.SortFunc(keys, func(a, b string) int { return l.first(a, interval).Compare(l.first(b, interval)) })
		l.s.Update(jobs)
		time.Sleep(2 * interval)
		l.end()
		if diff := cmp.Diff(keys[:30], l.order[:30]); diff != "" {
			t.Errorf("order of starts (-due +got):\n%s", diff)
		}
	})
}

// A host that hangs, its places used up and its jobs in line, does not hold
// back a job of another host.
func TestHostsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{InFlight: 3, InFlightPerHost: 2})
		jobs := []Job{l.job("b", "well", interval, takes(time.Second))}
		for i := range 20 {
			jobs = append(jobs, l.job(fmt.Sprint("a-", i), "hung", interval, takes(time.Hour)))
		}
		l.s.Update(jobs)
		l.until("b", interval, 5*interval)
		l.end()
		l.wantBegins(t, "b", at(interval, 0, 1, 2, 3, 4, 5))
		l.wantSkips(t, "b", map[result.SkipReason]int{})
	})
}

// hangs returns a run that times out after d.
func hangs(d time.Duration) func(context.Context, Run) Report {
	return func(ctx context.Context, _ Run) Report {
		wait(ctx, d)
		return Report{Failed: true, TimedOut: ctx.Err() == nil}
	}
}

// Servers that hang take no place from those that answer: not in all, from the
// start under the default limits, and once they are known under tighter ones;
// and not at one host.
func TestHungServersLeavePlaces(t *testing.T) {
	const (
		interval = 15 * time.Second
		known    = 10 * time.Minute // all have hung at least once
	)
	f := func(name string, o Options, nHung int, host func(job int) string, from time.Duration) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, o)
				var jobs []Job
				for i := range nHung {
					jobs = append(jobs, l.job(fmt.Sprint("hung-", i), host(i), interval, hangs(30*time.Second)))
				}
				var well []string
				for i := range 10 {
					key := fmt.Sprint("well-", i)
					well = append(well, key)
					jobs = append(jobs, l.job(key, host(nHung+i), interval, takes(2*time.Second)))
				}
				l.s.Update(jobs)
				time.Sleep(from)
				l.mu.Lock()
				for _, key := range well {
					l.begins[key], l.skips[key] = nil, map[result.SkipReason]int{}
				}
				l.mu.Unlock()
				time.Sleep(20 * interval)
				l.end()
				for _, key := range well {
					l.wantSkips(t, key, map[result.SkipReason]int{})
					if n := len(l.begins[key]); n < 20 {
						t.Errorf("%s: %d runs in 20 intervals", key, n)
					}
				}
				for i := range nHung {
					if n := len(l.begins[fmt.Sprint("hung-", i)]); n == 0 {
						t.Fatalf("hung-%d never ran", i)
					}
				}
			})
		})
	}
	apart := func(i int) string { return fmt.Sprint("host-", i) }
	one := func(int) string { return "gateway" }
	f("500 from the start", Options{InFlight: 1000, InFlightPerHost: 4}, 500, apart, 0)
	f("500 and few places", Options{InFlight: 64, InFlightPerHost: 4}, 500, apart, known)
	f("behind one gateway", Options{InFlight: 64, InFlightPerHost: 8}, 30, one, known)
	f("behind one gateway with few places", Options{InFlight: 64, InFlightPerHost: 4}, 30, one, known)
}

// The only place is not kept from a server that hangs.
func TestHungServerHasAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{InFlight: 1, InFlightPerHost: 1})
		l.s.Update([]Job{l.job("a", "x", interval, hangs(interval/2))})
		l.until("a", interval, 4*interval)
		l.end()
		l.wantBegins(t, "a", at(interval, 0, 1, 2, 3, 4))
	})
}

// A start that waits past its next grid point is counted, and keeps its place
// in the line: else a job of a short interval would never run.
func TestLimitIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		l := newLab(t, Options{InFlight: 1})
		long := l.keyDue(l.first("short", interval).Add(5*time.Second), time.Hour)
		l.s.Update([]Job{
			l.job("short", "", interval, nil),
			l.job(long, "", time.Hour, takes(30*time.Second)),
		})
		l.until("short", interval, 5*interval)
		l.end()
		// Busy from 5 s to 35 s: the grid points at 10 s and 20 s are lost,
		// that of 30 s is late.
		late := l.first(long, time.Hour).Add(30 * time.Second).Sub(l.first("short", interval))
		l.wantBegins(t, "short", []began{{0, false}, {late, false}, {4 * interval, false}, {5 * interval, false}})
		l.wantSkips(t, "short", map[result.SkipReason]int{result.SkipLimit: 2})
	})
}

// What waits when its job goes takes no place from others.
func TestWithdrawnTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Minute
		l := newLab(t, Options{InFlight: 2, InFlightPerHost: 1})
		var jobs []Job
		for i := range 30 {
			host := fmt.Sprint("host-", i%3)
			jobs = append(jobs, l.job(fmt.Sprint("job-", i), host, interval, takes(2*interval)))
		}
		l.s.Update(jobs)
		time.Sleep(interval)
		last := l.job("last", "host-1", interval, nil)
		l.s.Update([]Job{last})
		l.until("last", interval, 4*interval)
		l.s.Update(nil)
		synctest.Wait()
		if n := len(l.s.jobs) + len(l.s.agenda) + len(l.s.slots.hosts) + len(l.s.slots.groups) + len(l.s.slots.lines[normal]) + len(l.s.slots.lines[hung]) + l.inFlight(); n != 0 {
			t.Errorf("left over: %v, %v", l.s.jobs, l.s.slots.hosts)
		}
		l.end()
		if n := len(l.begins["last"]); n < 4 {
			t.Errorf("%d runs", n)
		}
	})
}

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
		if g := l.s.slots.groups["g"]; g.until != 0 {
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
