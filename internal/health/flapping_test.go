package health

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// every15 adds endpoint e with one series that is probed every 15 s.
func (l *lab) every15() *Series {
	return l.series(result.SeriesID{Module: "m", Prefix: "cold"}, SeriesOptions{Interval: 15 * time.Second, Timeout: 10 * time.Second})
}

// Two minutes down and two minutes up, again and again: from the second time on that is one
// state, since the first failure, until it has been well for twice as long as in between.
func TestComesAndGoes(t *testing.T) {
	l := newLab(t)
	l.at("06:15:00")
	s := l.every15()
	period := strings.Repeat("F", 8) + strings.Repeat("s", 8)
	l.run(s, 15*time.Second, period)
	l.pass(15 * time.Second)
	l.expect(Up, "06:17:00") // once is an outage
	l.log.Reset()
	l.run(s, 15*time.Second, period)
	l.expect(Flapping, "06:15:00") // twice for two minutes is no chance
	l.expectLog(
		`level=INFO msg="probe failed" endpoint=e module=m outcome=connect_error err="no connect_error"`,
		`level=WARN msg="endpoint failing" endpoint=e module=m since=2026-03-04T06:19:00.000Z cause="no connect_error (m)" probes=2 failed=2`,
		`level=WARN msg="endpoint flapping" endpoint=e since=2026-03-04T06:15:00.000Z probes=23 failed=15 spells=2`,
	)
	l.pass(15 * time.Second)
	l.run(s, 15*time.Second, "FF")
	l.expect(Flapping, "06:15:00")
	l.expectCounts(18, 34)
	l.pass(15 * time.Second)
	for _, pattern := range []string{period[2:], period, period} {
		for _, c := range pattern {
			l.run(s, 0, string(c))
			l.expect(Flapping, "06:15:00")
			l.pass(15 * time.Second)
		}
	}
	l.expectCounts(40, 80)
	l.expectWhy("no connect_error (m), again and again")
	l.restart(time.Second)
	s = l.every15()
	l.expect(Flapping, "06:15:00")
	if got := l.status().Spells; got != 5 {
		t.Errorf("%d spells after a restart", got)
	}
	// Well since 06:33:00, and for at most 2 minutes until then.
	l.at("06:35:00")
	l.run(s, 15*time.Second, strings.Repeat("s", 8))
	l.expect(Flapping, "06:15:00")
	l.at("06:37:00")
	l.probe(s, result.Success)
	l.expect(Up, "06:33:00")
	l.expectIncidents("06:15:00 flapping for 18m: 40 of 72 probes failed (56 %), in 5 spells; first: no connect_error")
	// It goes on.
	l.at("06:45:00")
	l.run(s, 15*time.Second, "FF")
	l.expect(Flapping, "06:15:00")
	l.expectCounts(42, 91)
}

// What flapped and stays away is down, since the same incident, and may be well between.
func TestFlappingUntilDown(t *testing.T) {
	l := newLab(t)
	s := l.every15()
	l.at("06:15:00")
	l.run(s, 15*time.Second, strings.Repeat("FFFFss", 3))
	l.expect(Flapping, "06:15:00")
	l.pass(15 * time.Second)
	l.run(s, 15*time.Second, strings.Repeat("F", 9)) // down since the second
	l.expect(Flapping, "06:15:00")
	l.pass(15 * time.Second)
	l.run(s, 15*time.Second, "F")
	l.expect(Flapping, "06:15:00")
	l.pass(15 * time.Second)
	l.run(s, 15*time.Second, "F") // for more than 2 minutes
	l.expect(Down, "06:15:00")
	l.pass(15 * time.Second)
	l.probe(s, result.Success)
	l.expect(Flapping, "06:15:00")
}

// Every tenth probe fails: that is one state from the third failure on, since the first.
func TestEveryTenthFails(t *testing.T) {
	l := newLab(t)
	s := l.every15()
	l.at("06:15:00")
	l.run(s, 15*time.Second, "FsssssssssFsssssssss")
	l.expect(Up, "06:15:15")
	for range 20 {
		for _, c := range "Fsssssssss" {
			l.pass(15 * time.Second)
			l.run(s, 0, string(c))
			l.expect(Degraded, "06:15:00")
		}
	}
	l.expectCounts(22, 220)
	l.expectWhy("22 of 220 probes failed (10 %), recovering: 9 of 40 successes in a row; latest failure: no connect_error (m)")
}

// Failures of which each is alone within a long time are what an objective allows.
func TestRareFailures(t *testing.T) {
	l := newLab(t)
	s := l.every15()
	rare := "F" + strings.Repeat("s", 49) // 2 %, 12 minutes apart
	l.run(s, 15*time.Second, strings.Repeat(rare, 5))
	l.expect(Up, "06:00:15")
	l.expectIncidents()
}

// However long an endpoint is down and up in turns: from the third time on its state is
// neither up nor degraded, and it is down only for what is longer than twice the longest
// time before. It ends once it was well for twice as long as in between.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t)
		s := l.every15()
		l.probe(s, result.Success)
		l.pass(15 * time.Second)
		first := l.now
		longest, calm := time.Duration(0), time.Duration(0)
		for n := range rapid.IntRange(3, 8).Draw(rt, "spells") {
			// At least 5 % fail.
			down, up := rapid.IntRange(2, 40).Draw(rt, "down"), rapid.IntRange(1, 35).Draw(rt, "up")
			spell := l.now.Add(15 * time.Second) // the second failure
			for range down {
				l.run(s, 0, "F")
				st := l.status()
				limit := max(2*time.Minute, 2*longest)
				switch away := l.now.Sub(spell); {
				case n < 2 || away < 0: // two may be chance, and a failure not confirmed
				case !st.Since.Equal(first) || st.State == Down != (away > limit) || st.State != Down && st.State != Flapping:
					rt.Fatalf("spell %d, down for %s: %s since %s, want since %s", n+1, away, st.State, st.Since, first)
				}
				l.pass(15 * time.Second)
			}
			longest = max(longest, l.now.Sub(spell))
			well := l.now
			for range up {
				l.run(s, 0, "s")
				if st := l.status(); n >= 2 && l.now.Sub(well) < 2*calm && (st.State != Flapping || st.Spells != n+1) {
					rt.Fatalf("spell %d, well for %s after %s: %s in %d spells", n+1, l.now.Sub(well), calm, st.State, st.Spells)
				}
				l.pass(15 * time.Second)
			}
			calm = max(calm, l.now.Sub(well))
		}
		well := l.now
		for l.now.Sub(well) <= 2*calm+maxCleanRun*15*time.Second {
			l.run(s, 0, "s")
			l.pass(15 * time.Second)
		}
		if st := l.status(); st.State != Up {
			rt.Fatalf("%s although it was well for %s", st.State, l.now.Sub(well))
		}
	})
}
