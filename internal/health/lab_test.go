package health

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// lab is endpoint e on a clock that the test sets, with its log.
type lab struct {
	t        *testing.T
	now      time.Time
	shared   *Shared
	saved    *Saved    // what the endpoint is to go on with
	endpoint *Endpoint // nil until it is added
	log      bytes.Buffer
}

// begin is when the labs begin: 06:00 UTC.
func begin() time.Time { return time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC) }

func newLab(t *testing.T) *lab {
	l := &lab{t: t, now: begin()}
	l.shared = NewShared(func() time.Time { return l.now }, slog.New(slog.NewTextHandler(&l.log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	return l
}

// ofPace is that of the series of the tests: the latest result is old after 100 s.
func ofPace() SeriesOptions {
	return SeriesOptions{Interval: 30 * time.Second, Timeout: 10 * time.Second}
}

// open adds endpoint e with series.
func (l *lab) open(ids ...result.SeriesID) []*Series {
	var all []*Series
	for _, id := range ids {
		all = append(all, l.series(id, ofPace()))
	}
	return all
}

// series adds the endpoint, unless it is there, and opens a series.
func (l *lab) series(id result.SeriesID, o SeriesOptions) *Series {
	if l.endpoint == nil {
		l.endpoint = New("e", l.shared, l.saved)
	}
	id.Endpoint = "e"
	return l.endpoint.OpenSeries(id, o)
}

// remove ends the endpoint.
func (l *lab) remove() {
	l.endpoint.Close()
	l.endpoint, l.saved = nil, nil
}

// one adds endpoint e with one series of module m.
func (l *lab) one() *Series { return l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0] }

// patient is one with a series that is not stale within the hour.
func (l *lab) patient(o *series.Objectives) *Series {
	return l.series(result.SeriesID{Module: "m", Prefix: "cold"},
		SeriesOptions{Interval: time.Hour, Timeout: time.Minute, Objectives: o})
}

// at sets the clock to a time of the day.
func (l *lab) at(clock string) {
	l.t.Helper()
	t, err := time.Parse("15:04:05", clock)
	if err != nil {
		l.t.Fatal(err)
	}
	l.now = time.Date(2026, 3, 4, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

func (l *lab) pass(d time.Duration) { l.now = l.now.Add(d) }

// probe observes a probe that starts now.
func (l *lab) probe(s *Series, o result.Outcome) { see(s, probeOf(l.now, o), false) }

// see observes a result as the fleet does.
func see(s *Series, r *result.Result, disturbed bool) {
	o := series.Observe(r, s.objectives, disturbed, false)
	s.Observe(&o)
}

func probeOf(start time.Time, o result.Outcome) *result.Result {
	r := &result.Result{Start: start, Outcome: o, Timing: result.Timing{TTFT: 100 * time.Millisecond, TPOT: result.Absent, Duration: time.Second}}
	if o != result.Success {
		r.Err = errors.New("no " + string(o))
		r.Timing.TTFT = result.Absent
	}
	return r
}

// run observes probes every so often, the first now: F is a failure, anything else a
// success. The clock is then that of the last one.
func (l *lab) run(s *Series, every time.Duration, pattern string) {
	for i, c := range pattern {
		if i > 0 {
			l.pass(every)
		}
		o := result.Success
		if c == 'F' {
			o = result.ConnectError
		}
		l.probe(s, o)
	}
}

func (l *lab) status() *Status { return l.endpoint.Status() }

// expect compares the state, and since when it is.
func (l *lab) expect(state State, since string) {
	l.t.Helper()
	s := l.status()
	if got := s.Since.UTC().Format(time.TimeOnly); s.State != state || got != since {
		l.t.Errorf("at %s: %s since %s, want %s since %s", l.now.UTC().Format(time.TimeOnly), s.State, got, state, since)
	}
}

// expectCounts compares the counts of an incident.
func (l *lab) expectCounts(failed, of int) {
	l.t.Helper()
	if s := l.status(); s.Failed != failed || s.Probes != of {
		l.t.Errorf("at %s: %d of %d failed, want %d of %d", l.now.UTC().Format(time.TimeOnly), s.Failed, s.Probes, failed, of)
	}
}

// expectIncidents compares all incidents as texts with their begin.
func (l *lab) expectIncidents(want ...string) {
	l.t.Helper()
	var got []string
	for _, i := range l.endpoint.Incidents() {
		got = append(got, i.Begin.UTC().Format(time.TimeOnly)+" "+i.String())
	}
	if !slices.Equal(got, want) {
		l.t.Errorf("incidents\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (l *lab) expectWhy(want string) {
	l.t.Helper()
	if got := l.status().Why; got != want {
		l.t.Errorf("why %q, want %q", got, want)
	}
}

// expectLog compares the lines of the log, and empties it.
func (l *lab) expectLog(want ...string) {
	l.t.Helper()
	got := strings.Split(strings.TrimSpace(l.log.String()), "\n")
	if !slices.Equal(got, want) {
		l.t.Errorf("log\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	l.log.Reset()
}
