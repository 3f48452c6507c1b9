package health

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// A model that sleeps ends what goes on, pages nobody, and starts over when it wakes.
func TestSleep(t *testing.T) {
	l := newLab(t)
	s := l.one()
	l.run(s, 30*time.Second, "SSSFFFFFFF")
	l.pass(time.Second)
	if l.status().Paging == nil {
		t.Fatal("an endpoint that is down pages nobody")
	}
	l.log.Reset()
	l.at("06:05:00")
	l.endpoint.SetAsleep("the engine sleeps", l.now.Add(time.Minute))
	l.expect(Asleep, "06:05:00")
	l.expectWhy("the engine sleeps")
	if st := l.status(); st.Paging != nil || len(st.Failing) > 0 || st.Missed != 0 || st.Suspect != nil {
		t.Errorf("asleep with %+v", st)
	}
	l.at("06:05:30")
	l.probe(s, result.ConnectError) // of a run that began before
	s.Skip(result.SkipAsleep, "")
	l.endpoint.SetAsleep("the engine sleeps", l.now.Add(time.Minute))
	l.expect(Asleep, "06:05:00")
	l.at("06:06:30")
	l.expect(Asleep, "06:05:00") // the reading of 06:05:30 still counts

	if !l.endpoint.SetAsleep("", l.now) || l.endpoint.SetAsleep("", l.now) {
		t.Error("not woken once")
	}
	l.expect(Waiting, "06:06:30")
	l.expectWhy("no result yet")
	l.at("06:07:00")
	l.probe(s, result.Success)
	l.expect(Up, "06:07:00")
	l.expectIncidents("06:01:30 down for 3m: 7 of 7 probes failed (100 %); first: no connect_error", "06:05:00 asleep for 1m: the engine sleeps")
}

// What no reading shows any more to be asleep waits for a probe, and is stale without one.
func TestSleepThatIsOld(t *testing.T) {
	l := newLab(t)
	s := l.one()
	l.run(s, 30*time.Second, "SSS")
	l.at("06:02:00")
	l.endpoint.SetAsleep("the engine sleeps", l.now.Add(time.Minute))
	l.at("06:03:01")
	l.expect(Waiting, "06:03:01")
	l.at("06:04:42") // 3 intervals and a timeout
	l.expect(Stale, "06:04:41")
	l.endpoint.SetAsleep("the engine sleeps", l.now.Add(time.Minute))
	l.expect(Asleep, "06:04:42")
	l.endpoint.SetAsleep("", l.now)
	l.run(s, 30*time.Second, "FF")
	l.expect(Down, "06:04:42")
}

// What was asleep before a restart is so until its pages had time to be read, even if it was never probed.
func TestSleepOutlastsARestart(t *testing.T) {
	l := newLab(t)
	l.one()
	l.endpoint.SetAsleep("the engine sleeps", l.now.Add(time.Minute))
	l.saved = l.endpoint.Save()
	l.pass(10 * time.Minute)
	if !l.saved.IsSane(l.now) {
		t.Fatal("a sleep is not restored")
	}
	l.endpoint = nil
	l.one()
	l.expect(Asleep, "06:00:00")
	l.pass(sleepsOn + time.Second)
	l.expect(Waiting, "06:12:01")
	future := *l.saved
	future.Asleep = &Incident{State: Asleep, Begin: l.now.Add(time.Hour)}
	if future.IsSane(l.now) {
		t.Error("a sleep of the future is restored")
	}
}

// A mute hides that the model sleeps.
func TestSleepWhileMuted(t *testing.T) {
	l := newLab(t)
	l.one()
	if err := l.endpoint.Mute(time.Hour, "new driver"); err != nil {
		t.Fatal(err)
	}
	l.endpoint.SetAsleep("the engine sleeps", l.now.Add(time.Minute))
	if st := l.status(); st.State != Muted || st.Unmuted != Asleep {
		t.Errorf("%s, without the mute %s", st.State, st.Unmuted)
	}
	l.pass(2 * time.Minute)
	if st := l.status(); st.State != Muted || st.Unmuted != Waiting {
		t.Errorf("%s, without the mute %s", st.State, st.Unmuted)
	}
}

// An incident of users ends with the sleep, and what a reading shows of the time before begins none.
func TestSleepEndsIncidentsOfUsers(t *testing.T) {
	l, s := crowded(t)
	if l.read(30, series.Availability, bad(50, 100)) == 0 {
		t.Fatal("bad requests page nobody")
	}
	l.endpoint.SetAsleep("the engine sleeps", l.now.Add(time.Hour))
	if l.status().Paging != nil || l.read(30, series.Availability, bad(50, 100)) > 0 {
		t.Error("an endpoint that sleeps pages")
	}
	l.endpoint.SetAsleep("", l.now)
	l.probe(s, result.Success)
	if st := l.status(); st.State != Up || st.Paging != nil {
		t.Errorf("%s after the sleep, pages %+v", st.State, st.Paging)
	}
}
