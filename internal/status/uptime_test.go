package status

import (
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// midnight is a time at which a step of every span begins.
func midnight() time.Time { return time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC) }

// judged makes a probe every 10 minutes until a time, the first now, of which those are bad
// that are said to be. It has an objective for TTFT, which some may miss.
func (l *lab) run(p *judged, until time.Time, failed, slow func(at time.Time) bool) {
	for ; l.now.Before(until); l.pass(10 * time.Minute) {
		r := success(l.now)
		if failed(l.now) {
			r = failure(l.now, result.TimeoutStall)
		}
		o := series.Observation{Result: r, Judgement: series.Judgement{Eligible: 1<<series.Availability | 1<<series.TTFT}}
		if failed(l.now) || slow(l.now) {
			o.Judgement.Bad = 1 << series.TTFT
		}
		p.Probes.Observe(&o)
	}
}

func never(time.Time) bool { return false }

// wantUptime compares the shares over 1 h, 24 h, 7 d and 30 d; a negative one is absent.
func wantUptime(t *testing.T, got *series.Uptime, from time.Time, want ...float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("no uptime, want %v", want)
	}
	if got.From != float64(from.Unix()) {
		t.Errorf("from %v, want %d", got.From, from.Unix())
	}
	for i, share := range []*float64{got.Hour, got.Day, got.Week, got.Month} {
		if (share == nil) != (want[i] < 0) || share != nil && math.Abs(*share-want[i]) > 1e-12 {
			t.Errorf("window %d: %s, want %v", i, text(t, share), want[i])
		}
	}
}

// Of a probe every 10 minutes the last three failed, those of an hour 10 hours ago,
// those of a day 3 days ago and those of a day 20 days ago. A restart changes nothing.
func TestUptime(t *testing.T) {
	l := newLab(t)
	l.now = midnight()
	end := midnight().AddDate(0, 0, 40)
	before := func(at time.Time, from, to time.Duration) bool {
		ago := end.Sub(at)
		return ago <= from && ago > to
	}
	const day = 24 * time.Hour
	failed := func(at time.Time) bool {
		return before(at, 30*time.Minute, 0) || before(at, 10*time.Hour, 9*time.Hour) || before(at, 4*day, 3*day) || before(at, 21*day, 20*day)
	}
	p := l.open(cold("m"))[0]
	l.run(p, end, failed, never)
	check := func() {
		t.Helper()
		want := []float64{1 - 3.0/6, 1 - 9.0/144, 1 - 153.0/1008, 1 - 297.0/4320}
		wantUptime(t, l.detail("e").Series[0].Uptime, midnight(), want...)
		wantUptime(t, l.row().Uptime, midnight(), want...)
	}
	check()
	for range 3 {
		l.restart()
		l.open(cold("m"))
		check()
	}
}

// A window is absent until as much is kept, and so is all of it without a probe.
func TestUptimeOfANewSeries(t *testing.T) {
	l := newLab(t)
	l.now = midnight()
	p := l.open(cold("m"))[0]
	if u := l.row().Uptime; u != nil {
		t.Errorf("without a probe: %s", text(t, u))
	}
	for _, c := range []struct {
		after time.Duration
		want  []float64
	}{
		{50 * time.Minute, []float64{-1, -1, -1, -1}},
		{70 * time.Minute, []float64{1, -1, -1, -1}},
		{25 * time.Hour, []float64{1, 1, -1, -1}},
		{8 * 24 * time.Hour, []float64{1, 1, 1, -1}},
	} {
		l.run(p, midnight().Add(c.after), never, never)
		wantUptime(t, l.row().Uptime, midnight(), c.want...)
	}
	// An hour without a probe, as while the exporter was stopped, has no share.
	l.pass(3 * time.Hour)
	l.restart()
	l.open(cold("m"))
	wantUptime(t, l.row().Uptime, midnight(), -1, 1, 1, -1)
}

// Of 10 days, 1 in 100 probes failed and as many again were slow: with an objective of
// 99 % that uses a third of the budget of 30 days by failures, and two thirds by TTFT.
// Days on which no exporter ran use none of it.
func TestBudgetLeft(t *testing.T) {
	l := newLab(t)
	l.now = midnight()
	open := func() *judged {
		l.board.SetEndpoint(configured("e"))
		o := pace()
		o.Objectives = &series.Objectives{Share: 0.99, TTFT: time.Second}
		id := cold("m")
		id.Endpoint = "e"
		return l.board.OpenSeries(id, o)
	}
	nth := func(n int64) func(time.Time) bool {
		return func(at time.Time) bool { return at.Unix()/600%100 == n }
	}
	want := func(want float64) {
		t.Helper()
		// 1440 probes in 10 days have 14 or 15 of each hundredth.
		for where, left := range map[string]*float64{"row": l.row().BudgetLeft, "series": l.detail("e").Series[0].BudgetLeft} {
			if left == nil || math.Abs(*left-want) > 0.05 {
				t.Errorf("%s: %s left, want %v", where, text(t, left), want)
			}
		}
	}
	p := open()
	if l.row().BudgetLeft != nil {
		t.Error("a budget without a probe")
	}
	l.run(p, midnight().AddDate(0, 0, 10), nth(7), never)
	want(1 - 1.0/3)
	l.now = midnight()
	l.board = newWatched(func() time.Time { return l.now })
	p = open()
	l.run(p, midnight().AddDate(0, 0, 10), nth(7), nth(8))
	want(1 - 2.0/3)
	l.pass(10 * 24 * time.Hour)
	l.restart()
	open()
	want(1 - 2.0/3)
}

// The endpoint's uptime is that of all modules but bursts, and its budget that of the
// module that has least.
func TestUptimeOfAnEndpoint(t *testing.T) {
	l := newLab(t)
	l.now = midnight()
	burst := cold("burst")
	burst.Concurrency = "8"
	all := l.open(cold("a"), cold("b"), burst)
	always := func(time.Time) bool { return true }
	end := midnight().Add(2 * time.Hour)
	for i, failed := range []func(time.Time) bool{never, func(at time.Time) bool { return at.Unix()/600%2 == 0 }, always} {
		all[i].options.Objectives = &series.Objectives{Share: 0.5}
		l.now = midnight()
		l.run(all[i], end, failed, never)
	}
	row := l.row()
	wantUptime(t, row.Uptime, midnight(), 0.75, -1, -1, -1)
	// Two hours of 30 days with as many failures as the objective allows.
	if want := 1 - 2.0/720; row.BudgetLeft == nil || math.Abs(*row.BudgetLeft-want) > 1e-12 {
		t.Errorf("budget %s, want %v", text(t, row.BudgetLeft), want)
	}
}

// A clock that was set back takes with it what it had counted since: nothing is counted
// in the future. A second back over the end of a step loses nothing.
func TestUptimeAfterTheClockWasSetBack(t *testing.T) {
	l := newLab(t)
	l.now = midnight()
	p := l.open(cold("m"))[0]
	always := func(time.Time) bool { return true }
	l.run(p, midnight().Add(10*time.Hour), never, never)
	l.run(p, midnight().Add(20*time.Hour), always, never)
	l.now = midnight().Add(10*time.Hour - 10*time.Minute)
	l.run(p, midnight().Add(10*time.Hour), never, never)
	wantUptime(t, l.row().Uptime, midnight(), 1, -1, -1, -1)

	p.Observe(success(l.now)) // at 10:00:00
	l.pass(-time.Second)
	p.Observe(failure(l.now, result.Empty))
	wantUptime(t, l.row().Uptime, midnight(), 1-1.0/3, -1, -1, -1) // and that of 9:50
}
