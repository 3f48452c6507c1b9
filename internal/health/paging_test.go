package health

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// pages are what paged in a course: since when, when it was known and when it ended, each after the begin, and as what.
type paged struct {
	start, at, end time.Duration
	kinds          []Kind
}

// course is an endpoint of one module, which is probed as the scheduler does.
type course struct {
	interval, phase, lasts time.Duration
	promised               bool // an objective of 99 %
	fails                  func(after time.Duration) bool
}

// play returns what pages. A failure after a success is confirmed twice, until one succeeds.
func (c course) play(t *testing.T) (all []paged) {
	l := newLab(t)
	o := SeriesOptions{Interval: c.interval, Timeout: 10 * time.Second}
	if c.promised {
		o.Objectives = &series.Objectives{Share: 0.99}
	}
	s := l.series(result.SeriesID{Module: "m", Prefix: "cold"}, o)
	var known *Paging
	probe := func(after time.Duration) (failed bool) {
		l.now = begin().Add(after)
		failed = c.fails(after)
		outcome := result.Success
		if failed {
			outcome = result.ConnectError
		}
		l.probe(s, outcome)
		now := l.status().Paging
		if now != nil && known == nil {
			all = append(all, paged{start: now.Start.Sub(begin()), at: after})
			l.endpoint.SetScope("endpoint e")
			now = l.status().Paging
		}
		if last := len(all) - 1; now == nil && known != nil {
			all[last].end = after
		} else if now != nil && (known == nil || known.Kind != now.Kind) {
			all[last].kinds = append(all[last].kinds, now.Kind)
		}
		known = now
		return failed
	}
	for after, before := c.phase, false; after < c.lasts; after += c.interval {
		failed := probe(after)
		for i := time.Duration(1); i <= 2 && failed && !before; i++ {
			failed = probe(after + i*min(5*time.Second, c.interval/3))
		}
		before = failed
	}
	return all
}

func intervals() []time.Duration {
	return []time.Duration{15 * time.Second, 30 * time.Second, time.Minute}
}

// outages returns what fails in the times between each two.
func outages(times ...time.Duration) func(time.Duration) bool {
	return func(after time.Duration) bool {
		i := slices.IndexFunc(times, func(at time.Duration) bool { return after < at })
		return i >= 0 && i%2 == 1
	}
}

// only expects what pages exactly once.
func (c course) only(t *testing.T, what string) (p paged) {
	t.Helper()
	all := c.play(t)
	if len(all) != 1 {
		t.Fatalf("%s, every %s from %s on: pages %v, want one", what, c.interval, c.phase, all)
	}
	return all[0]
}

// An outage pages from two minutes on, and is over with the third success; a shorter one does not.
func TestOutagePages(t *testing.T) {
	const at = 20 * time.Minute
	for _, interval := range intervals() {
		for phase := time.Duration(0); phase < interval; phase += interval / 5 {
			for _, promised := range []bool{true, false} {
				c := course{interval, phase, time.Hour, promised, nil}
				for _, short := range []time.Duration{time.Minute, 90 * time.Second, 110 * time.Second} {
					if c.fails = outages(at, at+short); len(c.play(t)) > 0 {
						t.Errorf("an outage of %s pages, every %s from %s on", short, interval, phase)
					}
				}
				c.fails = outages(at, 2*at)
				got := c.only(t, "outage")
				if want := (paged{at + phase, at + phase + 2*time.Minute, 2*at + phase + 2*interval, []Kind{KindDown}}); got.start != want.start ||
					got.at != want.at || got.end != want.end || !slices.Equal(got.kinds, want.kinds) {
					t.Errorf("every %s: %v, want %v", interval, got, want)
				}
			}
		}
	}
}

// Two minutes down and two up, again and again, are one incident, which pages the second time.
func TestFlappingPages(t *testing.T) {
	const at = 20 * time.Minute
	for _, interval := range intervals()[:2] {
		for phase := time.Duration(0); phase < interval; phase += interval / 5 {
			for _, promised := range []bool{true, false} {
				got := course{interval, phase, 90 * time.Minute, promised, func(after time.Duration) bool {
					after -= at
					return after >= 0 && after < 24*time.Minute && after%(4*time.Minute) < 2*time.Minute
				}}.only(t, "flapping")
				if got.start != at+phase || got.at > at+6*time.Minute || got.end < at+24*time.Minute || got.end > at+28*time.Minute || !slices.Equal(got.kinds, []Kind{KindDown}) {
					t.Errorf("every %s from %s on: %v", interval, phase, got)
				}
			}
		}
	}
}

// A share of failures pages once, since the first of them, where an objective is configured, and otherwise not.
func TestSharePages(t *testing.T) {
	const at, lasts, courses = 20 * time.Minute, 24 * time.Minute, 100
	for _, c := range []struct {
		share            float64
		interval, median time.Duration // of the time to the page
		once             int
	}{{0.3, 15 * time.Second, 5 * time.Minute, 98}, {0.1, 15 * time.Second, 10 * time.Minute, 88}, {0.6, 30 * time.Second, 5 * time.Minute, 80}} {
		var after, late []time.Duration
		once, unpromised := 0, 0
		for i := range uint64(courses) {
			first := time.Duration(0)
			play := func(promised bool) []paged {
				random := rand.New(rand.NewPCG(i, 7))
				return course{c.interval, time.Duration(random.Int64N(int64(c.interval))), 90 * time.Minute, promised, func(after time.Duration) bool {
					failed := after > at && after < at+lasts && random.Float64() < c.share
					if failed && first == 0 {
						first = after
					}
					return failed
				}}.play(t)
			}
			unpromised += len(play(false))
			all := play(true)
			if len(all) == 0 {
				continue
			}
			after, late = append(after, all[0].at-at), append(late, all[0].start-first)
			if len(all) == 1 && slices.Equal(all[0].kinds, []Kind{KindFailing}) {
				once++
			}
		}
		slices.Sort(after)
		slices.Sort(late)
		n := len(after)
		t.Logf("%.0f %% fail: %d of %d page, %d once as failing; after %s, 90th percentile %s; begins %s late, 90th percentile %s", 100*c.share, n, courses, once,
			after[n/2].Round(time.Second), after[n*9/10].Round(time.Second), late[n/2].Round(time.Second), late[n*9/10].Round(time.Second))
		if after[n/2] > c.median || once < c.once || late[n/2] > 0 {
			t.Errorf("want a page after %s, since the first failure, in at least %d courses only one", c.median, c.once)
		}
		if unpromised > 0 && c.share < 0.5 { // else it is down for two minutes now and then
			t.Errorf("%.0f %% fail: %d pages without an objective", 100*c.share, unpromised)
		}
	}
}

// An endpoint that fails every other probe, and pages for it, is down once chance explains the failures in a row in less than one of a
// thousand cases: with 10 of them.
func TestFailingBecomesDown(t *testing.T) {
	l := newLab(t)
	s := l.series(result.SeriesID{Module: "m"}, SeriesOptions{Interval: 15 * time.Second, Timeout: 10 * time.Second, Objectives: &series.Objectives{Share: 0.99}})
	l.run(s, 15*time.Second, "ss"+strings.Repeat("Fs", 20))
	for i := range 10 {
		if p := l.status().Paging; p == nil || p.Kind != KindFailing {
			t.Errorf("after %d failures in a row: %+v", i, p)
		}
		l.pass(15 * time.Second)
		l.probe(s, result.ConnectError)
	}
	if p := l.status().Paging; p == nil || p.Kind != KindDown {
		t.Errorf("after 10 failures in a row: %+v", p)
	}
}

// Chance that keeps to the objective does not page.
func TestChanceDoesNotPage(t *testing.T) {
	days, pages := 90, 0
	if testing.Short() {
		days = 9
	}
	for i, interval := range intervals() {
		random := rand.New(rand.NewPCG(uint64(i), 3))
		pages += len(course{interval, 0, time.Duration(days) * 24 * time.Hour, true, func(time.Duration) bool { return random.Float64() < 0.005 }}.play(t))
	}
	if pages > 2 {
		t.Errorf("%d pages in %d days of three endpoints", pages, days)
	}
}

// The kind only gets worse until the endpoint is up, and the begin and the scope stay, over a restart as well.
func TestKindOnlyGetsWorse(t *testing.T) {
	l := newLab(t)
	s := l.patient(half())
	expect := func(kind Kind, start string) {
		t.Helper()
		p := l.status().Shown()
		if p == nil || p.Kind != kind || p.Start.Format(time.TimeOnly) != start || p.Scope != "host gpu-3" {
			t.Errorf("at %s: %+v, want %s since %s", l.now.Format(time.TimeOnly), p, kind, start)
		}
	}
	l.at("06:10:00")
	l.answers(s, 900, 900, 900)
	if p := l.status().Paging; p == nil || p.Kind != KindTTFT || l.status().Shown() != nil {
		t.Errorf("%+v", p)
	}
	l.endpoint.SetScope("host gpu-3")
	l.endpoint.SetScope("endpoint e") // too late
	expect(KindTTFT, "06:10:00")
	l.at("06:20:00")
	l.run(s, 15*time.Second, "FFFFFFFFF")
	expect(KindDown, "06:10:00")
	l.restart(time.Second)
	s = l.patient(half())
	expect(KindDown, "06:10:00")
	l.mute(time.Hour)
	if l.status().Shown() != nil {
		t.Error("a muted endpoint pages")
	}
	l.endpoint.Unmute()
	l.at("06:30:00")
	l.answers(s, 900, 900, 900) // it is slow as before
	l.expect(Slow, "06:10:00")
	expect(KindDown, "06:10:00")
	l.at("06:40:00")
	l.log.Reset()
	l.answers(s, 100, 100, 100)
	l.expect(Up, "06:40:00")
	l.expectLog(
		`level=INFO msg="endpoint within its objectives again" endpoint=e module=m since=2026-03-04T06:10:00.000Z duration=30m0s answers=6 over=6`,
		`level=INFO msg="incident ended" endpoint=e incident=down scope="host gpu-3" witness=probes since=2026-03-04T06:10:00.000Z duration=30m0s`,
	)
	if l.status().Paging != nil {
		t.Error("an endpoint that is up pages")
	}
}

// A module that fails beside another one pages as failing. An outage of both, of which one had a request in flight, pages no
// sooner than that of one.
func TestModulesPage(t *testing.T) {
	l := newLab(t)
	o := SeriesOptions{Interval: 15 * time.Second, Timeout: 10 * time.Second, Objectives: &series.Objectives{Share: 0.99}}
	a := l.series(result.SeriesID{Module: "a", Prefix: "cold"}, o)
	b := l.series(result.SeriesID{Module: "b", Prefix: "cold"}, o)
	l.run(a, 15*time.Second, "ss")
	for i := range 6 { // for 90 s
		l.pass(15 * time.Second)
		l.probe(a, result.ConnectError)
		if i == 0 {
			l.probe(b, result.Success)
		} else {
			l.probe(b, result.ConnectError)
		}
	}
	for range 40 {
		l.pass(15 * time.Second)
		l.probe(a, result.Success)
		l.probe(b, result.Success)
		if p := l.status().Paging; p != nil {
			t.Fatalf("%+v pages after 90 seconds", p)
		}
	}
	l.at("06:30:00")
	for i := range 9 {
		l.probe(a, result.Success)
		l.probe(b, result.ConnectError)
		if p := l.status().Paging; (p != nil) != (i == 8) || p != nil && (p.Kind != KindFailing || !p.Start.Equal(l.now.Add(-2*time.Minute))) {
			t.Errorf("after %d failures %+v pages", i+1, p)
		}
		l.pass(15 * time.Second)
	}
}
