package health

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// records returns what is saved, as JSON.
func records(t *testing.T, save func(func(any) error) error) (all [][]byte) {
	t.Helper()
	err := save(func(record any) error {
		text, err := json.Marshal(record)
		all = append(all, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// restart hands the state to a new process after a while.
func (l *lab) restart(after time.Duration) {
	l.t.Helper()
	states, mutes := records(l.t, l.monitor.Save), records(l.t, l.monitor.SaveMutes)
	l.pass(after)
	next := newLab(l.t)
	l.monitor = next.monitor
	l.monitor.now = func() time.Time { return l.now }
	for _, r := range states {
		if err := l.monitor.Restore(r); err != nil {
			l.t.Error(err)
		}
	}
	for _, r := range mutes {
		if err := l.monitor.RestoreMutes(r); err != nil {
			l.t.Error(err)
		}
	}
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

// A restored state waits for its endpoint for a day, over further restarts.
func TestRestoredWaits(t *testing.T) {
	l := newLab(t)
	l.run(l.one(), time.Second, "FF")
	l.restart(time.Hour)
	l.restart(time.Hour)
	l.one()
	l.expect(Down, "06:00:00")
	l.restart(0)
	l.pass(24 * time.Hour)
	l.restart(0)
	if got := records(t, l.monitor.Save); len(got) != 0 {
		t.Errorf("still saved: %s", got)
	}
}

// What is not of this endpoint is not taken up, and what cannot be true is refused.
func TestRestoreIsChecked(t *testing.T) {
	good := func() *saved {
		return &saved{
			Endpoint: "e", Target: targetHash("target"), Last: begin(), Streak: 2, Down: true,
			Failing: &Incident{State: Degraded, Begin: begin(), Probes: 3, Bad: 2, Run: 1},
		}
	}
	f := func(name string, refused bool, want State, change func(s *saved)) {
		t.Helper()
		l := newLab(t)
		l.at("06:00:10")
		s := good()
		change(s)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.monitor.Restore(text); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
		l.one()
		if got := l.status().State; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	f("good", false, Down, func(*saved) {})
	f("another target", false, Waiting, func(s *saved) { s.Target++ })
	f("no name", true, Waiting, func(s *saved) { s.Endpoint = "" })
	f("of the future", true, Waiting, func(s *saved) { s.Last = begin().Add(time.Hour) })
	f("of no time", true, Waiting, func(s *saved) { s.Last = time.Time{} })
	f("begins in the future", true, Waiting, func(s *saved) { s.Failing.Begin = begin().Add(time.Hour) })
	f("no begin", true, Waiting, func(s *saved) { s.Failing.Begin = time.Time{} })
	f("nothing failed", true, Waiting, func(s *saved) { s.Failing.Bad = 0 })
	f("more failed than were probed", true, Waiting, func(s *saved) { s.Failing.Bad = 4 })
	f("a longer run than there were probes", true, Waiting, func(s *saved) { s.Failing.Run = 2 })
	f("a negative run", true, Waiting, func(s *saved) { s.Failing.Run = -1 })

	l := newLab(t)
	for _, r := range []string{
		`{"endpoint":"e","at":"2026-03-04T05:00:00Z","until":"2026-03-12T06:00:00Z","reason":"too long"}`,
		`{"endpoint":"e","at":"2026-03-04T07:00:00Z","until":"2026-03-04T08:00:00Z","reason":"of the future"}`,
		`{"at":"2026-03-04T05:00:00Z","until":"2026-03-04T08:00:00Z","reason":"of nobody"}`,
		`{`,
	} {
		if l.monitor.RestoreMutes([]byte(r)) == nil {
			t.Errorf("%s is accepted", r)
		}
	}
	if l.monitor.Restore([]byte("{")) == nil {
		t.Error("half a record is accepted")
	}
	l.one()
	l.expect(Waiting, "06:00:00")
}

// What is saved holds no URL, which may hold a secret.
func TestSavedHasNoTarget(t *testing.T) {
	l := newLab(t)
	l.monitor.SetEndpoint("e", "https://host/secret")
	l.run(l.monitor.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m"}, ofPace()), time.Second, "FF")
	all := records(t, l.monitor.Save)
	if len(all) != 1 || slices.ContainsFunc(all, func(r []byte) bool { return strings.Contains(string(r), "secret") }) {
		t.Errorf("%s", all)
	}
}

// The revisions grow with what is to be saved.
func TestRevisions(t *testing.T) {
	l := newLab(t)
	s := l.one()
	states, mutes := l.monitor.Revision(), l.monitor.MutesRevision()
	f := func(what string, state, mute bool) {
		t.Helper()
		if got := l.monitor.Revision(); got > states != state {
			t.Errorf("%s: revision %d after %d", what, got, states)
		}
		if got := l.monitor.MutesRevision(); got > mutes != mute {
			t.Errorf("%s: revision of mutes %d after %d", what, got, mutes)
		}
		states, mutes = l.monitor.Revision(), l.monitor.MutesRevision()
	}
	l.status()
	f("a look", false, false)
	l.probe(s, result.Success)
	f("a result", true, false)
	l.mute("e", time.Hour)
	f("a mute", false, true)
	if err := l.monitor.Unmute("e"); err != nil {
		t.Fatal(err)
	}
	f("its end", false, true)
	l.monitor.RemoveEndpoint("e")
	f("the end of the endpoint", true, false)
}
