package health

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// A mute shows, probes go on under it, and it ends by itself.
func TestMute(t *testing.T) {
	l := newLab(t)
	s := l.patient(Objectives{})
	l.probe(s, result.Success)
	l.at("06:10:00")
	if err := l.monitor.Mute("e", 30*time.Minute, " new\x1b driver\n"); err != nil {
		t.Fatal(err)
	}
	l.expect(Muted, "06:10:00")
	l.at("06:15:00")
	l.run(s, time.Second, "FF")
	l.expect(Muted, "06:10:00")
	got := l.status()
	if got.Unmuted != Down || got.UnmutedSince.Format(time.TimeOnly) != "06:15:00" || got.Failed != 2 || got.Why != "no connect_error (m)" ||
		got.Mute.Reason != "new driver" || got.Mute.Until.Format(time.TimeOnly) != "06:40:00" {
		t.Errorf("%+v, mute %+v", got, got.Mute)
	}
	l.at("06:39:59")
	l.expect(Muted, "06:10:00")
	l.at("06:40:00")
	l.expect(Down, "06:15:00")
	if l.status().Mute != nil {
		t.Error("the mute is still there")
	}
	l.expectIncidents("06:10:00 muted for 30m: new driver", "06:15:00 degraded: 2 of 2 probes failed (100 %); first: no connect_error")
	l.expectLog(
		`level=INFO msg="endpoint muted" endpoint=e until=2026-03-04T06:40:00.000Z reason="new driver"`,
		`level=WARN msg="endpoint failing" endpoint=e module=m outcome=connect_error err="no connect_error"`,
		`level=INFO msg="endpoint no longer muted" endpoint=e since=2026-03-04T06:10:00.000Z reason="new driver"`,
	)
}

func TestUnmute(t *testing.T) {
	l := newLab(t)
	l.probe(l.patient(Objectives{}), result.Success)
	for range 2 { // also without a mute
		if err := l.monitor.Unmute("e"); err != nil {
			t.Fatal(err)
		}
	}
	l.mute("e", time.Hour)
	l.at("06:30:00")
	l.mute("e", time.Hour) // longer, and still since 06:00
	l.expect(Muted, "06:00:00")
	l.at("07:29:59")
	l.expect(Muted, "06:00:00")
	if err := l.monitor.Unmute("e"); err != nil {
		t.Fatal(err)
	}
	l.expect(Up, "06:00:00")
	l.expectIncidents("06:00:00 muted for 1h29m: maintenance")
}

func (l *lab) mute(name string, d time.Duration) {
	l.t.Helper()
	if err := l.monitor.Mute(name, d, "maintenance"); err != nil {
		l.t.Fatal(err)
	}
}

func TestMuteRefused(t *testing.T) {
	l := newLab(t)
	l.one()
	f := func(name string, d time.Duration, reason string, want error) {
		t.Helper()
		if err := l.monitor.Mute(name, d, reason); !errors.Is(err, want) {
			t.Errorf("%q for %s: %v, want %v", name, d, err, want)
		}
	}
	f("nobody", time.Hour, "r", ErrNoEndpoint)
	f("e", time.Hour, " \n\x00", ErrNoReason)
	f("e", time.Minute-1, "r", ErrDuration)
	f("e", 7*24*time.Hour+1, "r", ErrDuration)
	l.expect(Waiting, "06:00:00")
	f("e", 7*24*time.Hour, strings.Repeat("r", 10_000), nil)
	if n := len(l.status().Mute.Reason); n != 256 {
		t.Errorf("a reason of %d bytes", n)
	}
	if err := l.monitor.Unmute("nobody"); !errors.Is(err, ErrNoEndpoint) {
		t.Error(err)
	}
}

// Discovery may lose an endpoint under maintenance, and a reload may change it.
func TestMuteOutlastsTheEndpoint(t *testing.T) {
	l := newLab(t)
	l.one()
	l.mute("e", time.Hour)
	l.monitor.RemoveEndpoint("e")
	l.at("06:30:00")
	l.one()
	l.expect(Muted, "06:00:00")
	l.monitor.RemoveEndpoint("e")
	l.at("07:00:00")
	l.one()
	l.expect(Waiting, "07:00:00")
}

// restart hands the state to a new process, as JSON, after a while.
func (l *lab) restart(after time.Duration) {
	l.t.Helper()
	text, err := json.Marshal(l.monitor.Export())
	if err != nil {
		l.t.Fatal(err)
	}
	var saved Saved
	if err := json.Unmarshal(text, &saved); err != nil {
		l.t.Fatal(err)
	}
	l.pass(after)
	next := newLab(l.t)
	l.monitor = next.monitor
	l.monitor.now = func() time.Time { return l.now }
	l.monitor.Import(&saved)
}

// A restart in an outage changes nothing: it is down since it was, at once, and its
// counts go on.
func TestRestartInAnOutage(t *testing.T) {
	l := newLab(t)
	l.at("06:15:00")
	l.run(l.one(), 30*time.Second, "FFF")
	l.restart(20 * time.Second)
	s := l.one()
	l.expect(Down, "06:15:00")
	l.expectCounts(3, 3)
	l.expectWhy("recovering: 0 of 3 successes in a row; latest failure: no connect_error (m)")
	l.probe(s, result.ConnectError)
	l.expect(Down, "06:15:00")
	l.expectCounts(4, 4)
	l.restart(20 * time.Second)
	s = l.one()
	l.run(s, 30*time.Second, "ss")
	l.expect(Degraded, "06:15:00")
	l.restart(20 * time.Second)
	l.one()
	l.expect(Degraded, "06:15:00")
	l.at("06:17:40")
	l.probe(l.one(), result.Success) // the third
	l.expect(Up, "06:16:40")
	l.expectIncidents("06:15:00 down for 1m: 4 of 4 probes failed (100 %); first: no connect_error")
	l.restart(time.Second)
	l.one()
	l.expect(Waiting, "06:17:41")
	l.expectIncidents("06:15:00 down for 1m: 4 of 4 probes failed (100 %); first: no connect_error")
}

// It is up since before the restart, unless nobody looked for longer than a result
// lasts.
func TestRestartWhileUp(t *testing.T) {
	for pause, since := range map[time.Duration]string{20 * time.Second: "06:00:00", 101 * time.Second: "06:01:41"} {
		l := newLab(t)
		l.probe(l.one(), result.Success)
		l.restart(pause)
		s := l.one()
		if got := l.status().State; got != Waiting {
			t.Errorf("%s before the first result", got)
		}
		l.probe(s, result.Success)
		l.expect(Up, since)
	}
}

// What is slow stays so over a restart until a clean run.
func TestRestartWhileSlow(t *testing.T) {
	l := newLab(t)
	l.answers(l.patient(half()), 900, 900, 900)
	l.restart(time.Minute)
	s := l.patient(half())
	l.expect(Slow, "06:00:00")
	l.answers(s, 900)
	l.expect(Slow, "06:00:00")
	l.at("06:10:00")
	l.answers(s, 100, 100, 100)
	l.expect(Up, "06:10:00")
}

func TestRestartKeepsMutes(t *testing.T) {
	l := newLab(t)
	l.one()
	l.mute("e", time.Hour)
	l.at("06:30:00")
	l.restart(time.Second)
	l.restart(time.Second) // the endpoint is not there yet
	l.one()
	l.expect(Muted, "06:00:00")
	l.restart(time.Hour)
	l.one()
	l.expect(Waiting, "07:30:02")
}

// What is not of this endpoint or cannot be true is left out.
func TestImportIsChecked(t *testing.T) {
	good := func() Record {
		return Record{
			Target: targetHash("target"), Last: begin(), Streak: 2, Down: true,
			Failing: &Incident{State: Degraded, Begin: begin(), Probes: 3, Bad: 2, Run: 1},
		}
	}
	f := func(name string, want State, change func(r *Record)) {
		t.Helper()
		l := newLab(t)
		l.at("06:00:10")
		r := good()
		change(&r)
		l.monitor.Import(&Saved{Endpoints: map[string]Record{"e": r, "other": good()}})
		l.one()
		if got := l.status().State; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	f("good", Down, func(*Record) {})
	f("another target", Waiting, func(r *Record) { r.Target++ })
	f("of the future", Waiting, func(r *Record) { r.Last = begin().Add(time.Hour) })
	f("begins in the future", Waiting, func(r *Record) { r.Failing.Begin = begin().Add(time.Hour) })
	f("no begin", Waiting, func(r *Record) { r.Failing.Begin = time.Time{} })
	f("nothing failed", Waiting, func(r *Record) { r.Failing.Bad = 0 })
	f("more failed than were probed", Waiting, func(r *Record) { r.Failing.Bad = 4 })
	f("a longer run than there were probes", Waiting, func(r *Record) { r.Failing.Run = 2 })
	f("a negative run", Waiting, func(r *Record) { r.Failing.Run = -1 })

	l := newLab(t)
	l.monitor.Import(&Saved{Mutes: map[string]Mute{
		"e": {At: begin().Add(-time.Hour), Until: begin().Add(8 * 24 * time.Hour), Reason: "too long"},
	}})
	l.one()
	l.expect(Waiting, "06:00:00")
}

// Saved states hold no URL, which may hold a secret.
func TestSavedHasNoTarget(t *testing.T) {
	l := newLab(t)
	l.monitor.SetEndpoint("e", "https://host/secret")
	l.run(l.monitor.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m"}, ofPace()), time.Second, "FF")
	text, err := json.Marshal(l.monitor.Export())
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%s, %v", text, err)
	}
}
