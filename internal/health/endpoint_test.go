package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// step is results of the series by their index, and what they come to.
type step struct {
	after    time.Duration
	outcomes map[int]result.Outcome
	state    State
	failing  []string
}

func TestStates(t *testing.T) {
	const s, ok = time.Second, result.Success
	a, b := result.SeriesID{Module: "a", Prefix: "cold"}, result.SeriesID{Module: "b", Prefix: "cold"}
	type results = map[int]result.Outcome
	for name, c := range map[string]struct {
		ids   []result.SeriesID
		steps []step
	}{
		"one module": {[]result.SeriesID{a}, []step{
			{0, nil, Waiting, nil},
			{s, results{0: ok}, Up, nil},
			{s, results{0: result.Empty}, Up, []string{"a"}}, // not yet confirmed
			{s, results{0: result.Canceled}, Up, []string{"a"}},
			{s, results{0: result.Empty}, Down, []string{"a"}},
			{s, results{0: ok}, Degraded, nil},
			{s, results{0: ok}, Degraded, nil},
			{s, results{0: ok}, Up, nil},
		}},
		"fails from the beginning": {[]result.SeriesID{a}, []step{
			{s, results{0: result.Empty}, Waiting, []string{"a"}},
			{s, results{0: result.Empty}, Down, []string{"a"}},
		}},
		"two modules": {[]result.SeriesID{a, b}, []step{
			{s, results{1: result.Empty}, Waiting, []string{"b"}},
			{s, results{1: result.Empty}, Down, []string{"b"}}, // of all that was asked
			{s, results{0: ok}, Degraded, []string{"b"}},
			{s, results{0: result.Empty}, Degraded, []string{"a", "b"}}, // one in a row
			{s, results{1: result.Empty}, Down, []string{"a", "b"}},
			{s, results{1: ok}, Degraded, []string{"a"}},
			{s, results{1: ok}, Degraded, []string{"a"}},
			{s, results{1: ok}, Degraded, []string{"a"}},
			{s, results{1: ok}, Degraded, []string{"a"}},
			{s, results{1: ok}, Degraded, []string{"a"}},
			{s, results{1: ok}, Degraded, []string{"a"}},
			// 4 of 5 probes failed before the run, at least 51 %: 0.49^7 < 0.01. But a has not recovered until now.
			{s, results{0: ok}, Up, nil},
		}},
		// What b said from before a began to fail counts until 4 failures came in a row; what
		// it says while a fails counts until it is old.
		"one of two modules": {[]result.SeriesID{a, b}, []step{
			{s, results{0: ok, 1: ok}, Up, nil},
			{s, results{0: result.Empty}, Up, []string{"a"}},
			{s, results{0: result.Empty}, Up, []string{"a"}},
			{s, results{0: result.Empty}, Degraded, []string{"a"}}, // three in a row are no chance
			{s, results{0: result.Empty}, Down, []string{"a"}},
			{s, results{1: ok}, Degraded, []string{"a"}},
			{s, results{0: result.Empty}, Degraded, []string{"a"}},
			{s, results{0: result.Empty}, Degraded, []string{"a"}},
			{s, results{0: result.Empty}, Degraded, []string{"a"}},
			{s, results{0: result.Empty}, Degraded, []string{"a"}},
			{s, results{1: result.Empty}, Down, []string{"a", "b"}},
		}},
		"rungs": {[]result.SeriesID{
			{Module: "a", Prefix: "cold", InputTokens: "100"}, {Module: "a", Prefix: "cold", InputTokens: "8000", OutputTokens: "64"}, b,
		}, []step{
			{s, results{0: ok, 1: result.TimeoutTotal, 2: ok}, Up, []string{"a (cold, input_tokens=8000, output_tokens=64)"}},
		}},
		// The warm half of a pair is not asked where the cold one fails.
		"pair": {[]result.SeriesID{{Module: "a", Prefix: "cold"}, {Module: "a", Prefix: "warm"}}, []step{
			{s, results{0: ok, 1: ok}, Up, nil},
			{s, results{0: result.Empty}, Up, []string{"a (cold)"}},
			{s, results{0: result.Empty}, Down, []string{"a (cold)"}},
			{s, results{0: ok, 1: result.Empty}, Degraded, []string{"a (warm)"}},
		}},
		"bursts beside probes": {[]result.SeriesID{a, {Module: "burst", Prefix: "cold", Concurrency: "8"}}, []step{
			{s, results{1: result.Overloaded}, Waiting, nil},
			{s, results{0: ok}, Up, nil},
			{s, results{1: result.Overloaded}, Up, nil},
		}},
		"nothing but bursts": {[]result.SeriesID{
			{Module: "burst", Prefix: "cold", Concurrency: "1"}, {Module: "burst", Prefix: "cold", Concurrency: "8"},
		}, []step{
			{s, results{0: ok, 1: result.Overloaded}, Up, nil},
			{s, results{0: result.Empty, 1: ok}, Up, []string{"burst (cold, concurrency=1)"}},
			{s, results{0: result.Empty, 1: ok}, Down, []string{"burst (cold, concurrency=1)"}},
		}},
		// Old after 3 * 30 s + 10 s.
		"stale": {[]result.SeriesID{a, b}, []step{
			{0, results{0: ok, 1: result.Empty}, Up, []string{"b"}},
			{100 * s, nil, Up, []string{"b"}},
			{time.Millisecond, nil, Stale, []string{"b"}},
			{time.Hour, results{0: ok}, Up, nil}, // what b said is old
			{60 * s, results{1: result.Empty}, Up, []string{"b"}},
			{41 * s, results{1: result.Empty}, Down, []string{"b"}}, // what a said is old
			{101 * s, nil, Stale, []string{"b"}},
			{0, results{0: result.Empty}, Down, []string{"a"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			all := l.open(c.ids...)
			for i, step := range c.steps {
				l.pass(step.after)
				for j, p := range all {
					if o, ok := step.outcomes[j]; ok {
						l.probe(p, o)
					}
				}
				if s := l.status(); s.State != step.state || !slices.Equal(s.Failing, step.failing) {
					t.Errorf("step %d: %s, failing %q; want %s, failing %q", i, s.State, s.Failing, step.state, step.failing)
				}
			}
		})
	}
}

// The smallest n with (1 - share)^n < 0.01 from 3 to 40, where share is the lower bound of Wilson's
// score interval at 1.28 deviations; 3 where all were bad.
func TestCleanRun(t *testing.T) {
	for _, c := range []struct{ bad, of, want int }{
		{1, 1, 3},
		{48, 48, 3},
		{9, 10, 4},  // 0.718: 0.282^3 = 0.0225, 0.282^4 = 0.0063
		{8, 10, 6},  // 0.602: 0.398^5 = 0.0100, 0.398^6 = 0.0040
		{5, 9, 11},  // 0.352: 0.648^10 = 0.0131, 0.648^11 = 0.0085
		{30, 59, 9}, // 0.426: 0.574^8 = 0.0118, 0.574^9 = 0.0068
		{1, 2, 26},  // 0.164: 0.836^25 = 0.0112, 0.836^26 = 0.0094
		{1, 5, 40},  // 0.062: the bound
		{1, 1000, 40},
	} {
		if got := cleanRun(c.bad, c.of); got != c.want {
			t.Errorf("%d of %d bad: %d, want %d", c.bad, c.of, got, c.want)
		}
	}
}

// Half of the probes fail for half an hour, every second one: that is one state from the third
// failure on, since the first. At a probe every 30 s and an objective of 99 % three within five
// minutes of one another are rarer than once in 90 days.
func TestHalfFails(t *testing.T) {
	l := newLab(t)
	s := l.one()
	l.run(s, 30*time.Second, strings.Repeat("s", 30))
	l.expect(Up, "06:00:00")
	l.at("06:15:00")
	for i := range 60 {
		o := result.ConnectError
		if i%2 == 1 {
			o = result.Success
		}
		l.probe(s, o)
		if i < 4 {
			l.expect(Up, "06:00:00")
		} else {
			l.expect(Degraded, "06:15:00")
		}
		l.pass(30 * time.Second)
	}
	l.at("06:44:45")
	l.expect(Degraded, "06:15:00")
	l.expectCounts(30, 60)

	// 30 of the 59 probes up to the last failure: a clean run is 9, of which one was before.
	l.at("06:45:00")
	l.run(s, 30*time.Second, "sssssss")
	l.expect(Degraded, "06:15:00")
	l.pass(30 * time.Second)
	l.probe(s, result.Success)
	l.expect(Up, "06:44:30") // the success after the last failure
	l.expectCounts(0, 0)
	l.expectIncidents("06:15:00 degraded for 29m: 30 of 59 probes failed (51 %); first: no connect_error")
	l.expectLog(
		`level=INFO msg="probe failed" endpoint=e module=m outcome=connect_error err="no connect_error"`,
		`level=INFO msg="probe failed" endpoint=e module=m outcome=connect_error err="no connect_error"`,
		`level=INFO msg="probe failed" endpoint=e module=m outcome=connect_error err="no connect_error"`,
		`level=WARN msg="endpoint failing" endpoint=e module=m since=2026-03-04T06:15:00.000Z cause="no connect_error (m)" probes=5 failed=3`,
		`level=INFO msg="endpoint recovered" endpoint=e module=m since=2026-03-04T06:15:00.000Z duration=29m30s probes=59 failed=30 spells=0`,
	)
}

// Two failures and two successes, again and again, are one incident too.
func TestFlapping(t *testing.T) {
	l := newLab(t)
	s := l.patient(nil)
	l.at("06:15:00")
	l.run(s, 30*time.Second, strings.Repeat("FFss", 14))
	l.expect(Flapping, "06:15:00")
	l.expectCounts(28, 56)
	l.expectWhy("no connect_error (m), again and again")
	// 28 of 54 up to the last failure: a clean run is 9 (0.568^8 = 0.0108, 0.568^9 = 0.0061); there are 2.
	l.pass(30 * time.Second)
	l.run(s, 30*time.Second, "ssssss")
	l.expect(Flapping, "06:15:00")
	l.pass(30 * time.Second)
	l.probe(s, result.Success)
	// The probe number 55 was at 06:15 + 54 * 30 s.
	l.expect(Up, "06:42:00")
	l.expectIncidents("06:15:00 flapping for 27m: 28 of 54 probes failed (52 %), in 14 spells; first: no connect_error")
}

func TestOutage(t *testing.T) {
	l := newLab(t)
	s := l.patient(nil)
	l.run(s, 15*time.Second, "sss")
	l.at("06:15:00")
	l.probe(s, result.ConnectError)
	l.expect(Up, "06:00:00")
	l.at("06:15:02") // the confirmation
	l.probe(s, result.ConnectError)
	l.expect(Down, "06:15:00")
	l.expectWhy("no connect_error (m)")
	l.at("06:15:15")
	l.run(s, 15*time.Second, strings.Repeat("F", 46))
	l.expect(Down, "06:15:00")
	l.expectCounts(48, 48)
	l.at("06:27:00")
	l.probe(s, result.Success)
	l.expect(Degraded, "06:15:00")
	l.expectCounts(48, 49)
	l.expectWhy("recovering: 1 of 3 successes in a row; latest failure: no connect_error (m)")
	l.at("06:27:15")
	l.probe(s, result.Success)
	l.expect(Degraded, "06:15:00")
	l.at("06:27:30")
	l.probe(s, result.Success)
	l.expect(Up, "06:27:00")
	l.expectWhy("")
	l.expectIncidents("06:15:00 down for 12m: 48 of 48 probes failed (100 %); first: no connect_error")
	l.expectLog(
		`level=INFO msg="probe failed" endpoint=e module=m outcome=connect_error err="no connect_error"`,
		`level=WARN msg="endpoint failing" endpoint=e module=m since=2026-03-04T06:15:00.000Z cause="no connect_error (m)" probes=2 failed=2`,
		`level=INFO msg="endpoint recovered" endpoint=e module=m since=2026-03-04T06:15:00.000Z duration=12m0s probes=48 failed=48 spells=1`,
	)
}

// A failure that its confirmation does not repeat is no incident, and named while it is the
// latest result.
func TestSingleFailure(t *testing.T) {
	l := newLab(t)
	s := l.patient(nil)
	l.run(s, 30*time.Second, "ss")
	l.at("06:15:00")
	l.probe(s, result.TimeoutStall)
	l.expect(Up, "06:00:00")
	if got := l.status(); len(got.Failing) != 1 || got.Suspect == nil || got.Suspect.State != Degraded || got.Suspect.Bad != 1 {
		t.Errorf("failing: %q, looks like %v", got.Failing, got.Suspect)
	}
	l.at("06:15:03")
	l.probe(s, result.Success)
	l.expect(Up, "06:00:00")
	if got := l.status().Suspect; got != nil {
		t.Errorf("looks like %v after a success", got)
	}
	l.expectIncidents()
}

// A module that always fails makes the endpoint degraded with its third failure, however many others
// succeed between its probes.
func TestOneOfManyFails(t *testing.T) {
	l := newLab(t)
	var ids []result.SeriesID
	for i := range 26 {
		ids = append(ids, result.SeriesID{Module: fmt.Sprint("m", i), Prefix: "cold"})
	}
	all := l.open(ids...)
	l.at("06:10:00")
	for round := range 10 {
		l.pass(30 * time.Second)
		for i, s := range all {
			o := result.Success
			if i == 0 {
				o = result.Empty
			}
			l.probe(s, o)
		}
		if round < 2 {
			l.expect(Up, "06:10:30")
		} else {
			l.expect(Degraded, "06:10:30")
		}
	}
	l.expectCounts(10, 260)
	l.expectWhy("no empty (m0)")
	l.pass(30 * time.Second)
	for i, s := range all { // after 25 successes since the last failure; a clean run is 40
		l.probe(s, result.Success)
		if i == 13 {
			l.expect(Degraded, "06:10:30")
		}
	}
	l.expect(Up, "06:15:00")
}

func TestNamesAreBounded(t *testing.T) {
	l := newLab(t)
	var ids []result.SeriesID
	for i := range 10 {
		ids = append(ids, result.SeriesID{Module: fmt.Sprint("m", i), Prefix: "cold"})
	}
	all := l.open(ids...)
	for i, s := range all {
		l.pass(time.Second)
		l.probe(s, result.Empty)
		if i == 2 {
			l.expectWhy("no empty (m2) and 2 more")
		}
	}
	if got := strings.Join(l.status().Failing, " "); got != "m0 m1 m2 m3 m4 m5 m6 m7" {
		t.Error(got)
	}
	l.expectWhy("no empty (m9) and at least 7 more")
}

// The wait for the first result ends, and does not begin again.
func TestNoResult(t *testing.T) {
	l := newLab(t)
	s := l.one()
	l.expect(Waiting, "06:00:00")
	l.expectWhy("no result yet")
	s.Skip(result.SkipModel, "set model to one of a, b")
	l.expectWhy("no result yet: not probed: set model to one of a, b")
	l.at("06:01:40")
	l.expect(Waiting, "06:00:00")
	l.at("06:01:41")
	l.expect(Stale, "06:01:40")
	l.expectWhy("no result since 06:00 UTC: not probed: set model to one of a, b")
	l.at("06:30:00")
	l.expect(Stale, "06:01:40")
	l.probe(s, result.Success)
	l.expect(Up, "06:30:00")
	l.expectIncidents("06:01:40 stale for 28m: no result for 3 intervals and a timeout: not probed: set model to one of a, b")
}

// Without an interval nothing is ever stale.
func TestNeverStale(t *testing.T) {
	l := newLab(t)
	s := l.series(result.SeriesID{Module: "m", Prefix: "cold"}, SeriesOptions{Timeout: 10 * time.Second})
	l.probe(s, result.Success)
	l.pass(1000 * time.Hour)
	l.expect(Up, "06:00:00")
}

// An outage in which nobody can probe for a while, as a server asked to wait, is one
// incident.
func TestStaleInAnOutage(t *testing.T) {
	l := newLab(t)
	l.at("06:15:00")
	s := l.one()
	l.run(s, 30*time.Second, "FF")
	s.Skip(result.SkipBackoff, "")
	l.expect(Down, "06:15:00")
	l.at("06:25:00")
	l.expect(Stale, "06:17:10") // 06:15:30 and 100 s
	l.expectWhy("no result since 06:15 UTC: not probed: the server asked to wait, or let two probes in a row time out")
	l.probe(s, result.RateLimited)
	l.expect(Down, "06:15:00")
	l.expectCounts(3, 3)
	l.at("06:35:00")
	l.expect(Stale, "06:26:40")
	l.run(s, 30*time.Second, "sss")
	l.expect(Up, "06:35:00")
	l.expectIncidents(
		"06:15:00 down for 20m: 3 of 3 probes failed (100 %); first: no connect_error",
		"06:17:10 stale for 7m: no result for 3 intervals and a timeout: not probed: the server asked to wait, or let two probes in a row time out",
		"06:26:40 stale for 8m: no result for 3 intervals and a timeout",
	)
}

// A server that asks to wait goes on failing: it is neither stale nor half well.
func TestAskedToWait(t *testing.T) {
	l := newLab(t)
	s := l.one()
	l.probe(s, result.Success)
	l.pass(30 * time.Second)
	s.Skip(result.SkipBackoff, "") // after a success it says nothing
	l.expect(Up, "06:00:00")
	l.probe(s, result.RateLimited)
	l.expect(Up, "06:00:00")
	for range 20 {
		l.pass(30 * time.Second)
		s.Skip(result.SkipBackoff, "")
		l.expect(Down, "06:00:30")
	}
	if p := l.status().Paging; p == nil || p.Kind != KindDown {
		t.Errorf("%+v pages after 10 minutes", p)
	}
	l.expectCounts(1, 1)
	l.pass(30 * time.Second)
	l.run(s, 30*time.Second, "sss")
	l.expect(Up, "06:11:00")
	l.expectIncidents("06:00:30 down for 10m: 1 of 1 probes failed (100 %); first: no rate_limited")
}

// It is up since it came back, not since it was up before.
func TestUpAfterStale(t *testing.T) {
	l := newLab(t)
	s := l.one()
	l.probe(s, result.Success)
	l.at("06:10:00")
	l.probe(s, result.Success) // nobody looked
	l.expect(Up, "06:10:00")
	l.expectIncidents("06:01:40 stale for 8m: no result for 3 intervals and a timeout")
}

func TestIncidentsAreBounded(t *testing.T) {
	l := newLab(t)
	s := l.series(result.SeriesID{Module: "m", Prefix: "cold"}, SeriesOptions{})
	for range 20 {
		l.run(s, time.Second, "FFsss")
		l.pass(20 * time.Minute)
	}
	all := l.endpoint.Incidents()
	if len(all) != 16 || !all[0].Begin.Equal(begin().Add(4*(20*time.Minute+4*time.Second))) {
		t.Errorf("%d incidents, the first %v", len(all), all[0].Begin)
	}
}

// A reload may take away what fails.
func TestReload(t *testing.T) {
	l := newLab(t)
	a, b := result.SeriesID{Endpoint: "e", Module: "a", Prefix: "cold"}, result.SeriesID{Endpoint: "e", Module: "b", Prefix: "cold"}
	all := l.open(a, b)
	l.probe(all[0], result.Success)
	l.run(all[1], 5*time.Second, "FFF")
	l.expect(Degraded, "06:00:00")
	l.series(a, ofPace()) // goes on
	l.expect(Degraded, "06:00:00")
	l.at("06:00:20")
	all[1].Close()
	l.expect(Up, "06:00:20")
	l.probe(all[1], result.Empty) // too late
	l.expect(Up, "06:00:20")
	l.expectIncidents("06:00:00 degraded for 20s: 3 of 3 probes failed (100 %); first: no connect_error")

	all[0].Close()
	l.expect(Waiting, "06:00:00")
	s := l.series(a, ofPace())
	l.probe(s, result.Empty)
	l.remove()
	l.probe(s, result.Empty) // too late
	s.Close()
	l.at("06:10:00")
	s = l.open(a)[0]
	l.expect(Waiting, "06:10:00")
	l.probe(s, result.Success)
	l.expect(Up, "06:10:00")
	l.expectIncidents()
}
