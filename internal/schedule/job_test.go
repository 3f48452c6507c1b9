package schedule

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestConfirm(t *testing.T) {
	ok, bad := Report{}, Report{Failed: true}
	f := func(name string, interval, until time.Duration, results []Report, want ...began) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, Options{})
				l.s.Update([]Job{l.job("a", "", interval, reports(results...))})
				l.until("a", interval, until)
				l.end()
				l.wantBegins(t, "a", want)
				l.wantSkips(t, "a", map[result.SkipReason]int{})
			})
		})
	}
	const s = time.Second
	f("a blip is cleared by the first", 30*s, 60*s, []Report{ok, bad, ok},
		began{0, false}, began{30 * s, false}, began{35 * s, true}, began{60 * s, false})
	f("at most two", 30*s, 90*s, []Report{bad, bad, bad, bad, bad},
		began{0, false}, began{5 * s, true}, began{10 * s, true}, began{30 * s, false}, began{60 * s, false}, began{90 * s, false})
	f("each new failure has its own", 30*s, 30*s, []Report{bad, ok, bad, bad, ok},
		began{0, false}, began{5 * s, true}, began{30 * s, false})
	f("again after it was well", 30*s, 60*s, []Report{bad, ok, bad, ok},
		began{0, false}, began{5 * s, true}, began{30 * s, false}, began{35 * s, true}, began{60 * s, false})
	f("two again after it was well", 30*s, 60*s, []Report{bad, bad, ok, bad, bad, bad},
		began{0, false}, began{5 * s, true}, began{10 * s, true},
		began{30 * s, false}, began{35 * s, true}, began{40 * s, true}, began{60 * s, false})
	f("a third of a short interval", 6*s, 6*s, []Report{bad, bad, bad},
		began{0, false}, began{2 * s, true}, began{4 * s, true}, began{6 * s, false})
	f("not within a second of the grid", 1200*time.Millisecond, 1200*time.Millisecond, []Report{bad},
		began{0, false}, began{1200 * time.Millisecond, false})
	f("a skipped run changes nothing", 30*s, 60*s, []Report{bad, bad, bad, {Skipped: true}, bad},
		began{0, false}, began{5 * s, true}, began{10 * s, true}, began{30 * s, false}, began{60 * s, false})
	f("not when asked to wait", 30*s, 30*s, []Report{{Failed: true, RetryAfter: s}, ok},
		began{0, false}, began{30 * s, false})
	f("not the second when asked to wait", 30*s, 30*s, []Report{bad, {Failed: true, RetryAfter: s}, ok},
		began{0, false}, began{5 * s, true}, began{30 * s, false})
}

// The delay counts from the end of the failure. A confirmation that would take as
// long as the failure and not end well before the grid is not begun.
func TestConfirmAfterSlowFailure(t *testing.T) {
	f := func(name string, lasts time.Duration, want ...began) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const interval = 30 * time.Second
				l := newLab(t, Options{})
				fails := true
				l.s.Update([]Job{l.job("a", "", interval, func(ctx context.Context, _ Run) Report {
					if !fails {
						return Report{}
					}
					fails = false
					wait(ctx, lasts)
					return Report{Failed: true}
				})})
				l.until("a", interval, interval)
				l.end()
				l.wantBegins(t, "a", want)
			})
		})
	}
	const s = time.Second
	f("in time", 11*s, began{0, false}, began{16 * s, true}, began{30 * s, false})
	f("a second before the grid", 12*s, began{0, false}, began{30 * s, false})
	f("past the grid", 20*s, began{0, false}, began{30 * s, false})
}

// A confirmation that is still on at the next grid point is canceled, its
// report is void, and the grid has its run.
func TestConfirmGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 30 * time.Second
		l := newLab(t, Options{InFlightPerHost: 1})
		l.s.Update([]Job{l.job("a", "", interval, func(ctx context.Context, r Run) Report {
			if r.Confirm {
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, ErrOvertaken) || !errors.Is(cause, context.Canceled) {
					t.Errorf("canceled by %v", cause)
				}
				time.Sleep(50 * time.Millisecond)
				return Report{RetryAfter: time.Hour} // void
			}
			return Report{Failed: true}
		})})
		l.until("a", interval, 2*interval)
		l.end()
		l.wantBegins(t, "a", []began{
			{0, false},
			{5 * time.Second, true},
			{interval + 50*time.Millisecond, false},
			{2 * interval, false},
		})
		l.wantSkips(t, "a", map[result.SkipReason]int{})
	})
}

// A confirmation that does not heed its cancellation costs grid points, each
// counted.
func TestConfirmThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 30 * time.Second
		l := newLab(t, Options{})
		l.s.Update([]Job{l.job("a", "", interval, func(_ context.Context, r Run) Report {
			if r.Confirm {
				time.Sleep(70 * time.Second) // from 5 s to 75 s
			}
			return Report{Failed: true}
		})})
		l.until("a", interval, 3*interval)
		l.end()
		l.wantBegins(t, "a", []began{{0, false}, {5 * time.Second, true}, {75 * time.Second, false}, {3 * interval, false}})
		l.wantSkips(t, "a", map[result.SkipReason]int{result.SkipOverrun: 1})
	})
}

// A confirmation that waits for a slot gives way to the grid, and is dropped when
// it gets one within a second of the grid.
func TestConfirmWaiting(t *testing.T) {
	const interval = 30 * time.Second
	f := func(name string, busy time.Duration, late bool) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, Options{InFlight: 1})
				a := l.job("a", "", interval, func(context.Context, Run) Report { return Report{Failed: true} })
				// The other takes the only place soon after a's failure.
				first := l.first("a", interval)
				other := l.keyDue(first.Add(time.Second), time.Hour)
				l.s.Update([]Job{a, l.job(other, "", time.Hour, takes(busy))})
				l.until("a", interval, 2*interval)
				l.end()
				want := at(interval, 0, 1, 2)
				if late {
					want[1].At = l.first(other, time.Hour).Add(busy).Sub(first)
				}
				l.wantBegins(t, "a", want)
				l.wantSkips(t, "a", map[result.SkipReason]int{})
			})
		})
	}
	f("until after the grid", 30*time.Second, true)
	f("until just before the grid", 28300*time.Millisecond, false)
}
