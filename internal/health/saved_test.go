package health

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// mutesOf returns what is saved of mutes, as JSON.
func mutesOf(t *testing.T, m *Mutes) (all [][]byte) {
	t.Helper()
	err := m.Save(func(record any) error {
		text, err := json.Marshal(record)
		all = append(all, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// savedAs returns what is saved of the endpoint, or waits to go on, as JSON.
func (l *lab) savedAs() []byte {
	l.t.Helper()
	saved := l.saved
	if l.endpoint != nil {
		saved = l.endpoint.Save()
	}
	text, err := json.Marshal(saved)
	if err != nil {
		l.t.Fatal(err)
	}
	return text
}

// restart hands the state to a new process after a while.
func (l *lab) restart(after time.Duration) {
	l.t.Helper()
	state, mutes := l.savedAs(), mutesOf(l.t, l.shared.Mutes)
	l.pass(after)
	l.shared = NewShared(func() time.Time { return l.now }, l.shared.Logger)
	l.endpoint, l.saved = nil, nil
	if err := json.Unmarshal(state, &l.saved); err != nil {
		l.t.Fatal(err)
	}
	for _, r := range mutes {
		if err := l.shared.Mutes.Restore(r); err != nil {
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
	l.mute(time.Hour)
	l.at("06:30:00")
	l.restart(time.Second)
	l.restart(time.Second) // the endpoint is not there yet
	l.one()
	l.expect(Muted, "06:00:00")
	l.restart(time.Hour)
	l.one()
	l.expect(Waiting, "07:30:02")
}

// What cannot be true is not sane.
func TestSavedIsChecked(t *testing.T) {
	f := func(name string, sane bool, change func(s *Saved)) {
		t.Helper()
		s := &Saved{Last: begin(), Streak: 2, Down: true, Failing: &Incident{State: Degraded, Begin: begin(), Probes: 3, Bad: 2, Run: 1}}
		change(s)
		if s.IsSane(begin().Add(10*time.Second)) != sane {
			t.Errorf("%s: not %t", name, sane)
		}
	}
	f("good", true, func(*Saved) {})
	f("of the future", false, func(s *Saved) { s.Last = begin().Add(time.Hour) })
	f("of no time", false, func(s *Saved) { s.Last = time.Time{} })
	f("begins in the future", false, func(s *Saved) { s.Failing.Begin = begin().Add(time.Hour) })
	f("no begin", false, func(s *Saved) { s.Failing.Begin = time.Time{} })
	f("nothing failed", false, func(s *Saved) { s.Failing.Bad = 0 })
	f("more failed than were probed", false, func(s *Saved) { s.Failing.Bad = 4 })
	f("a longer run than there were probes", false, func(s *Saved) { s.Failing.Run = 2 })
	of := func(e evidence) func(s *Saved) {
		return func(s *Saved) {
			s.Modules = []*module{{Name: "m", Begin: begin(), Evidence: [series.NumObjectives]*evidence{series.TTFT: &e}}}
		}
	}
	day := clusters{Day: 20515, N: 2, Bad: 5, Largest: [numLargest]int32{4, 1}}
	f("evidence", true, of(evidence{First: begin(), Last: begin(), Size: 2, Days: []clusters{day}}))
	f("no module", false, func(s *Saved) { s.Modules = []*module{nil} })
	f("a module of the future", false, func(s *Saved) { s.Modules = []*module{{Begin: begin().Add(time.Hour)}} })
	f("evidence of the future", false, of(evidence{Last: begin().Add(time.Hour), Size: 2}))
	f("a negative cluster", false, of(evidence{Size: -1}))
	f("more clusters than probes", false, of(evidence{Days: []clusters{{N: 2, Bad: 1}}}))
	f("a negative size", false, of(evidence{Days: []clusters{{N: 1, Bad: 1, Largest: [numLargest]int32{1, -1}}}}))
	f("a negative run", false, func(s *Saved) { s.Failing.Run = -1 })
}

func TestRestoreMuteRejects(t *testing.T) {
	l := newLab(t)
	for _, r := range []string{
		`{"endpoint":"e","at":"2026-03-04T05:00:00Z","until":"2026-03-12T06:00:00Z","reason":"too long"}`,
		`{"endpoint":"e","at":"2026-03-04T07:00:00Z","until":"2026-03-04T08:00:00Z","reason":"of the future"}`,
		`{"at":"2026-03-04T05:00:00Z","until":"2026-03-04T08:00:00Z","reason":"of nobody"}`,
		`{`,
	} {
		if l.shared.Mutes.Restore([]byte(r)) == nil {
			t.Errorf("%s is accepted", r)
		}
	}
	l.one()
	l.expect(Waiting, "06:00:00")
}

// The revision grows with what is to be saved.
func TestMutesRevision(t *testing.T) {
	l := newLab(t)
	s := l.one()
	before := l.shared.Mutes.Revision()
	f := func(what string, grows bool) {
		t.Helper()
		now := l.shared.Mutes.Revision()
		if now > before != grows {
			t.Errorf("%s: revision %d after %d", what, now, before)
		}
		before = now
	}
	l.probe(s, result.Success)
	f("a result", false)
	l.mute(time.Hour)
	f("a mute", true)
	l.endpoint.Unmute()
	f("its end", true)
}
