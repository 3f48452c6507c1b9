package health

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/users"
)

// crowded is endpoint e with objectives of 99 % and a TTFT and a duration, of which one probe every 30 s was good.
func crowded(t *testing.T) (*lab, *Series) {
	l := newLab(t)
	s := l.series(result.SeriesID{Module: "m", Prefix: "cold"}, SeriesOptions{
		Interval: 48 * time.Hour, Timeout: time.Minute, Objectives: promised(),
	})
	l.probe(s, result.Success)
	return l, s
}

func promised() *series.Objectives {
	return &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond, E2E: time.Minute}
}

// read has so many readings, one every 30 s, and returns after how many of them the endpoint pages; 0 is not.
func (l *lab) read(n int, o series.Objective, of users.Count) int {
	pages := 0
	for i := range n {
		r := &users.Reading{Since: l.now, At: l.now.Add(30 * time.Second), Objectives: promised(), Why: "status 500"}
		l.pass(30 * time.Second)
		r.Counts[o] = of
		l.endpoint.ObserveUsers(r)
		if pages == 0 && l.status().Paging != nil {
			pages = i + 1
		}
	}
	return pages
}

func bad(n, of uint64) users.Count { return users.Count{Eligible: of, Bad: n, Possible: n} }

// The tails are those of the binomial distribution: of 5 requests 2 fail or more with 1 - 0.99^5 - 5*0.01*0.99^4 = 0.00098.
func TestBadReading(t *testing.T) {
	for _, c := range []struct {
		i       series.Objective
		allowed float64
		least   map[uint64]uint64 // how many of so many requests make a bad reading
	}{
		// 0.01 | 0.0199, 0.0001 | 0.0490, 0.00098 | 0.0043 | 0.0169, 0.0010 | a tenth is 5, with 0.0001.
		{series.Availability, 1 - 0.99, map[uint64]uint64{1: 1, 2: 2, 5: 2, 10: 2, 20: 3, 50: 5, 1000: 100}},
		// 14 % of them are 7, 14 and 140.
		{series.TTFT, 1 - 0.99, map[uint64]uint64{1: 1, 5: 2, 10: 2, 20: 3, 50: 7, 100: 14, 1000: 140}},
		// 0.0488, 0.0012, 0.00002 | a hundredth is 10, with less than 1e-6.
		{series.Availability, 1 - 0.999, map[uint64]uint64{1: 1, 50: 3, 1000: 10}},
		// Twice what is allowed: 0.0388, P(X >= 20 | 100, 0.1) = 0.0020.
		{series.Availability, 1 - 0.9, map[uint64]uint64{100: 20}},
	} {
		for n, want := range c.least {
			for k := range n + 1 {
				if got := boundsOf(c.i).take(bad(k, n), c.allowed, begin(), begin()).BadOnes == 1; got != (k >= want) {
					t.Errorf("objective %d, %g allowed: %d of %d are bad: %t, want at least %d", c.i, c.allowed, k, n, got, want)
				}
			}
		}
	}
}

// Failures of a tenth of an hour page, which are 12 readings of 30 s where all fail, and 40 where 30 % do.
func TestUsersPage(t *testing.T) {
	for _, c := range []struct {
		name string
		o    series.Objective
		of   users.Count
		want int
		kind Kind
	}{
		{"all fail", series.Availability, bad(100, 100), 12, KindFailing},
		{"all fail, one each time", series.Availability, bad(1, 1), 12, KindFailing},
		{"30 % fail", series.Availability, bad(30, 100), 40, KindFailing},
		{"10 % fail", series.Availability, bad(100, 1000), 120, KindFailing},
		{"9 % fail", series.Availability, bad(90, 1000), 0, ""},
		{"all late", series.TTFT, bad(100, 100), 17, KindTTFT}, // 8.5 min
		{"30 % late", series.TTFT, bad(30, 100), 56, KindTTFT}, // 14 % of an hour is 504 s, of which each has 9
		{"10 % late", series.TTFT, bad(10, 100), 0, ""},
		{"perhaps late", series.TTFT, users.Count{Eligible: 100, Possible: 100}, 0, ""},
		{"slow, which pages not", series.E2E, bad(100, 100), 0, ""},
	} {
		l, _ := crowded(t)
		l.read(120, c.o, bad(0, 100))
		if got := l.read(130, c.o, c.of); got != c.want {
			t.Errorf("%s: pages after %d readings, want %d", c.name, got, c.want)
		}
		if p := l.status().Paging; c.want > 0 && (p.Kind != c.kind || p.Witness != Users || p.Start != begin().Add(time.Hour)) {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// A burst of five minutes, and a few requests, page nobody.
func TestUsersDoNotPage(t *testing.T) {
	l, _ := crowded(t)
	for range 20 {
		if l.read(10, series.TTFT, bad(500, 500)) > 0 || l.read(110, series.TTFT, bad(0, 100)) > 0 {
			t.Fatal("a burst of five minutes each hour pages")
		}
	}
	l, _ = crowded(t)
	if l.read(10, series.Availability, bad(0, 100)); l.read(4, series.Availability, bad(5, 5)) > 0 {
		t.Error("two minutes page")
	}
	for range 4 {
		l.read(9, series.TTFT, bad(0, 0))
		if l.read(1, series.TTFT, bad(1, 1)) > 0 {
			t.Error("four requests page")
		}
	}
}

// An incident is over with good requests for five minutes, and not by silence.
func TestUsersIncident(t *testing.T) {
	l, _ := crowded(t)
	l.read(120, series.Availability, bad(0, 100))
	l.log.Reset()
	l.read(14, series.Availability, bad(90, 100))
	l.expect(Degraded, "07:00:00")
	l.expectWhy("users: 1,260 of 1,400 requests failed since 07:00 UTC: status 500; probes are well")
	if got := l.status(); got.Missed != 1<<series.Availability || got.Probes != 0 {
		t.Errorf("missed %b, %d probes", got.Missed, got.Probes)
	}
	l.read(1000, series.Availability, bad(0, 0))
	l.expect(Degraded, "07:00:00")
	l.read(9, series.Availability, bad(0, 100)) // after 8 hours all good ones are of this time
	l.expect(Up, "15:27:00")
}

func TestUsersRecover(t *testing.T) {
	l, s := crowded(t)
	l.read(120, series.TTFT, bad(0, 100))
	l.read(20, series.TTFT, bad(90, 100))
	l.endpoint.SetScope("endpoint e")
	l.log.Reset()
	l.read(9, series.TTFT, bad(1, 100))
	l.expect(Slow, "07:00:00")
	l.read(1, series.TTFT, bad(1, 100))
	l.expect(Up, "07:10:00")
	l.expectIncidents("07:00:00 slow for 10m: users: 1,800 of 2,000 requests over TTFT 500ms: status 500")
	l.expectLog(
		`level=INFO msg="users' requests meet their objective again" endpoint=e since=2026-03-04T07:00:00.000Z duration=10m0s requests=2000 bad=1800`,
		`level=INFO msg="incident ended" endpoint=e incident=ttft scope="endpoint e" witness=users since=2026-03-04T07:00:00.000Z duration=10m0s`,
	)
	// What has ended is no evidence of the next one, and no incident of probes to join.
	l.read(1, series.TTFT, bad(90, 100))
	l.expect(Up, "07:10:00")
	l.run(s, time.Second, "FF")
	l.expect(Down, "07:15:30")
	// Nobody asks for a day.
	l, _ = crowded(t)
	l.read(20, series.Availability, bad(1, 1))
	l.read(24*120, series.Availability, bad(0, 0))
	l.expect(Degraded, "06:00:00")
	l.pass(time.Minute)
	l.read(1, series.Availability, bad(0, 0))
	l.expect(Up, "06:10:00")
}

// The witness of an incident is who saw it so far; the line says where to look.
func TestWitness(t *testing.T) {
	fail := func(l *lab, s *Series) {
		l.run(s, 15*time.Second, strings.Repeat("F", 12))
		l.endpoint.SetScope("endpoint e")
	}
	for name, c := range map[string]struct {
		do   func(*lab, *Series)
		want Witness
		says string
	}{
		"probes":                   {fail, Probes, ""},
		"users well before":        {func(l *lab, s *Series) { l.read(50, 0, bad(0, 100)); fail(l, s) }, Probes, ""},
		"users well":               {func(l *lab, s *Series) { fail(l, s); l.read(5, 0, bad(0, 100)) }, ProbesOnly, "probes only: the path or the prober"},
		"too few users":            {func(l *lab, s *Series) { fail(l, s); l.read(5, 0, bad(0, 8)) }, Probes, ""}, // 0.9^40 = 0.015
		"enough users":             {func(l *lab, s *Series) { fail(l, s); l.read(5, 0, bad(0, 9)) }, ProbesOnly, "probes only: the path or the prober"},
		"users perhaps not well":   {func(l *lab, s *Series) { fail(l, s); l.read(5, 0, users.Count{Eligible: 100, Possible: 20}) }, Probes, ""},
		"users well by another":    {func(l *lab, s *Series) { fail(l, s); l.read(5, series.TTFT, bad(0, 100)) }, Probes, ""},
		"users":                    {func(l *lab, _ *Series) { l.read(30, 0, bad(50, 100)) }, Users, "users' requests only: a workload or tenant: status 500"},
		"probes, then users":       {func(l *lab, s *Series) { fail(l, s); l.read(30, 0, bad(50, 100)) }, Both, "probes and users' requests: the service"},
		"probes only, then users":  {func(l *lab, s *Series) { fail(l, s); l.read(5, 0, bad(0, 100)); l.read(30, 0, bad(50, 100)) }, Both, "probes and users' requests: the service"},
		"users, then probes":       {func(l *lab, s *Series) { l.read(40, series.TTFT, bad(50, 100)); fail(l, s) }, Both, "probes and users' requests: the service"},
		"users, after a restart":   {func(l *lab, _ *Series) { l.read(30, 0, bad(50, 100)); l.again() }, Users, "users' requests only: a workload or tenant: status 500"},
		"both, and probes recover": {func(l *lab, s *Series) { fail(l, s); l.read(30, 0, bad(50, 100)); l.run(s, time.Second, "ssssssssss") }, Both, "probes and users' requests: the service"},
	} {
		l, s := crowded(t)
		c.do(l, s)
		if p := l.status().Paging; p == nil || p.Witness != c.want || p.Means() != c.says {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// again restarts the exporter, which keeps the state as JSON.
func (l *lab) again() {
	l.t.Helper()
	text, err := json.Marshal(l.endpoint.Save())
	if err == nil {
		err = json.Unmarshal(text, &l.saved)
	}
	if err != nil || !l.saved.IsSane(l.now) {
		l.t.Fatalf("%s is not sane: %v", text, err)
	}
	l.endpoint = nil
	l.series(result.SeriesID{Module: "m", Prefix: "cold"}, SeriesOptions{Objectives: &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond}})
}

// A restart in an incident ends it no sooner, and one before it delays it not.
func TestUsersSurviveRestart(t *testing.T) {
	l, _ := crowded(t)
	l.read(6, series.Availability, bad(50, 100))
	l.again()
	if got := l.read(20, series.Availability, bad(50, 100)); got != 18 { // 24 readings are a tenth of an hour
		t.Errorf("pages after %d readings", got)
	}
	l.again()
	l.expect(Degraded, "06:00:00")
	l.read(9, series.Availability, bad(0, 100))
	l.expect(Degraded, "06:00:00")
	l.read(1, series.Availability, bad(0, 100))
	if l.status().Missed != 0 {
		t.Error("an objective is missed after the end")
	}
	for i, insane := range []*crowd{
		{Raised: true},
		{Well: tally{Requests: 1, Bad: 2}},
		{Spans: []tally{{Readings: 1, BadOnes: 2}}},
		{Spell: &Incident{Begin: l.now.Add(time.Hour), Bad: 1, Probes: 1}},
	} {
		if insane.isSane(l.now) {
			t.Errorf("%d: %+v is sane", i, insane)
		}
	}
}

// Nobody is paged of an endpoint that is muted, and whoever it is muted for longer than an incident hears nothing of it.
func TestUsersMuted(t *testing.T) {
	l, _ := crowded(t)
	if err := l.endpoint.Mute(time.Hour, "tests"); err != nil {
		t.Fatal(err)
	}
	l.read(20, series.Availability, bad(50, 100))
	l.read(50, series.Availability, bad(50, 100))
	l.endpoint.SetScope("endpoint e")
	if s := l.status(); s.Shown() != nil || s.State != Muted || s.Unmuted != Degraded {
		t.Errorf("%+v", s)
	}
}

// Once three days of the last week had an hour with late requests for 4 minutes, 14 minutes are late of all that page.
func TestUsersUsuallyLate(t *testing.T) {
	l, _ := crowded(t)
	for range 3 {
		l.read(8, series.TTFT, bad(100, 100))
		l.read(24*120-8, series.TTFT, bad(0, 100))
	}
	if got := l.read(40, series.TTFT, bad(100, 100)); got != 28 {
		t.Errorf("pages after %d readings, want 28", got)
	}
	// Failures are an outage whatever came before, and half of an hour is the most that is usual.
	l, _ = crowded(t)
	for range 3 {
		for range 3 {
			l.read(16, series.TTFT, bad(100, 100))
			l.read(12, series.TTFT, bad(0, 100))
		}
		l.read(24*120-3*28, series.TTFT, bad(0, 100))
	}
	for o, want := range map[series.Objective]int{series.Availability: 12, series.TTFT: 60} {
		if got := l.read(70, o, bad(100, 100)); got != want {
			t.Errorf("objective %d: pages after %d readings, want %d", o, got, want)
		}
		l.read(1000, o, bad(0, 100))
	}
}

// An objective that is gone has no incident any more.
func TestUsersWithoutObjective(t *testing.T) {
	l, _ := crowded(t)
	l.read(20, series.TTFT, bad(50, 100))
	l.read(20, series.TTFT, bad(50, 100))
	l.expect(Slow, "06:00:00")
	l.series(result.SeriesID{Module: "m", Prefix: "cold"}, SeriesOptions{Objectives: &series.Objectives{Share: 0.99}})
	l.expect(Up, "06:20:00")
}
