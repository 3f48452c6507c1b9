package health

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// half is an objective of half a second for the first token.
func half() *series.Objectives { return &series.Objectives{TTFT: 500 * time.Millisecond} }

// answer is one of so many milliseconds to its first token.
func (l *lab) answer(ttft int) *result.Result {
	r := probeOf(l.now, result.Success)
	r.Timing.TTFT = time.Duration(ttft) * time.Millisecond
	return r
}

// answers observes answers every 30 s, the first now.
func (l *lab) answers(s *Series, ttfts ...int) {
	for i, ttft := range ttfts {
		if i > 0 {
			l.pass(30 * time.Second)
		}
		see(s, l.answer(ttft), false)
	}
}

func TestSlow(t *testing.T) {
	l := newLab(t)
	s := l.patient(half())
	l.answers(s, 100, 100, 900, 500) // on the limit is within it
	l.expect(Up, "06:00:00")
	l.at("06:10:00")
	l.answers(s, 900, 100, 900) // three that are late, at a probe every hour
	l.expect(Slow, "06:01:00")
	if got := l.status(); got.Objectives != 1<<series.Availability|1<<series.TTFT || got.Missed != 1<<series.TTFT {
		t.Errorf("objectives %b, missed %b", got.Objectives, got.Missed)
	}
	l.pass(30 * time.Second)
	l.answers(s, 1234, 1234, 1234, 1234, 1234)
	// From 06:01:00 on: 900, 500, 900, 100, 900 and 5 more.
	l.expectWhy("m: TTFT 1.23s, objective 500ms; 8 of 10 answers over an objective since 06:01 UTC")
	if got := l.status(); got.Over != 8 || got.Probes != 10 || len(got.Slow) != 1 || got.Slow[0] != "m" {
		t.Errorf("%+v", got)
	}
	l.at("06:20:00")
	l.answers(s, 100, 100, 100, 100, 100)
	l.expect(Slow, "06:01:00")
	l.at("06:23:00")
	l.answers(s, 100) // the sixth
	l.expect(Up, "06:20:00")
	l.expectIncidents("06:01:00 slow for 19m: m: TTFT 900ms, objective 500ms; 8 of 10 answers over an objective")
	l.expectLog(
		`level=WARN msg="endpoint slow" endpoint=e module=m since=2026-03-04T06:01:00.000Z reason="m: TTFT 900ms, objective 500ms" answers=5 over=3`,
		`level=INFO msg="endpoint within its objectives again" endpoint=e module=m since=2026-03-04T06:01:00.000Z duration=19m0s answers=10 over=8`,
	)
}

// The TPOT of two tokens is one gap, which no objective judges.
func TestShortAnswersAreNotSlow(t *testing.T) {
	for tokens, want := range map[int]State{1: Up, 2: Up, 3: Slow} {
		l := newLab(t)
		s := l.patient(&series.Objectives{TPOT: 10 * time.Millisecond})
		for range 4 {
			r := l.answer(100)
			r.Tokens.Output, r.Timing.TPOT = tokens, 60*time.Millisecond
			see(s, r, false)
			l.pass(30 * time.Second)
		}
		if got := l.status().State; got != want {
			t.Errorf("%d tokens: %s, want %s", tokens, got, want)
		}
	}
}

// Answers that are slow now and then are one incident: every other one needs 11 in a row.
func TestSlowNowAndThen(t *testing.T) {
	l := newLab(t)
	s := l.patient(half())
	l.answers(s, 900, 100, 900, 100, 900, 100, 900, 100, 900)
	l.pass(30 * time.Second)
	l.answers(s, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100)
	l.expect(Up, "06:04:30")
	l.expectIncidents("06:00:00 slow for 4m: m: TTFT 900ms, objective 500ms; 5 of 9 answers over an objective")

	l = newLab(t)
	s = l.patient(half())
	l.answers(s, 900, 100, 900, 100, 900, 100, 900, 100, 900)
	l.pass(30 * time.Second)
	l.answers(s, 100, 100, 100)
	l.expect(Slow, "06:00:00")
	l.expectWhy("recovering: 3 of 11 answers in a row within the objectives; before: m: TTFT 900ms, objective 500ms; " +
		"5 of 12 answers over an objective since 06:00 UTC")
}

// What was late from the beginning is slow with the sixth answer; what was well for a while needs as many
// as chance does not make, which are 12 of all at a probe every 30 s.
func TestLateFromTheBeginning(t *testing.T) {
	for good, want := range map[int]int{0: 6, 2: 6, 3: 9, 4: 12, 10: 12} {
		l := newLab(t)
		o := ofPace()
		o.Objectives = half()
		s := l.series(result.SeriesID{Module: "m", Prefix: "cold"}, o)
		for range good {
			l.answers(s, 100)
			l.pass(30 * time.Second)
		}
		late := 0
		for l.status().State != Slow && late < 100 {
			l.answers(s, 900)
			l.pass(30 * time.Second)
			late++
		}
		if late != want {
			t.Errorf("after %d good ones: slow with %d late ones, want %d", good, late, want)
		}
	}
}

// Two are noise, and a failure is no answer.
func TestNotSlow(t *testing.T) {
	f := func(name string, o *series.Objectives, want State, ttfts ...int) {
		t.Helper()
		l := newLab(t)
		s := l.patient(o)
		for _, ttft := range ttfts {
			l.pass(time.Second)
			if ttft == 0 {
				l.probe(s, result.Empty)
				continue
			}
			see(s, l.answer(ttft), false)
		}
		if got := l.status(); got.State != want || (len(got.Slow) == 1) != (want == Slow) {
			t.Errorf("%s: %s, slow %q; want %s", name, got.State, got.Slow, want)
		}
	}
	f("one", half(), Up, 100, 100, 900)
	f("two", half(), Up, 900, 900)
	f("three", half(), Slow, 900, 900, 900)
	f("two of five", half(), Up, 900, 900, 100, 100, 100)
	f("failing", half(), Down, 900, 900, 900, 0, 0)
	f("slow, and recovers from failures", half(), Slow, 900, 900, 0, 900, 900, 900)
	f("no objective for it", &series.Objectives{TPOT: time.Minute}, Up, 900, 900, 900)
	f("of the whole", &series.Objectives{TTFT: time.Second, E2E: 900 * time.Millisecond}, Slow, 900, 900, 900)
	f("not judged", nil, Up, 900, 900, 900)
}

// What our own bursts disturb makes no endpoint slow, nor does what the prober cannot
// vouch for; both are successes.
func TestDisturbed(t *testing.T) {
	l := newLab(t)
	s := l.patient(half())
	for range 10 {
		l.pass(time.Second)
		see(s, l.answer(900), true)
		imprecise := l.answer(900)
		imprecise.Imprecise = true
		see(s, imprecise, false)
	}
	l.expect(Up, "06:00:01")
	l.probe(s, result.Empty)
	for range 3 {
		l.pass(time.Second)
		see(s, l.answer(900), true)
	}
	l.expect(Up, "06:00:01")
	see(s, probeOf(l.now, result.Empty), true)
	see(s, probeOf(l.now, result.Empty), true)
	l.expect(Down, "06:00:13")
}

// Of two objectives the one that is exceeded by the larger factor is named.
func TestWorstObjective(t *testing.T) {
	l := newLab(t)
	s := l.patient(&series.Objectives{TTFT: 800 * time.Millisecond, TPOT: 10 * time.Millisecond, E2E: 900 * time.Millisecond})
	for range 3 {
		r := l.answer(1000)
		r.Timing.TPOT = 25400 * time.Microsecond
		see(s, r, false)
	}
	l.expectWhy("m: TPOT 25.4ms, objective 10ms; 3 of 3 answers over an objective since 06:00 UTC")
}

// Other objectives start the judgement of what is slow again.
func TestOtherObjectives(t *testing.T) {
	l := newLab(t)
	s := l.patient(half())
	l.answers(s, 900, 900, 900, 900)
	l.expect(Slow, "06:00:00")
	l.at("06:05:00")
	l.patient(half()) // the same
	l.expect(Slow, "06:00:00")
	l.patient(&series.Objectives{TTFT: time.Second})
	l.expect(Up, "06:05:00")
	l.answers(s, 900, 900, 900)
	l.expect(Up, "06:05:00")
}

// Two failures in a row are an outage, and may be chance by the objective; many are not.
func TestMissedByMoreThanChance(t *testing.T) {
	l := newLab(t)
	s := l.one()
	l.run(s, 30*time.Second, strings.Repeat(".", 100)+"FF")
	if got := l.status(); got.State != Down || got.Missed != 0 {
		t.Errorf("%s, missed %b", got.State, got.Missed)
	}
	l.pass(30 * time.Second)
	l.run(s, 30*time.Second, strings.Repeat("F", 10))
	if got := l.status(); got.State != Down || got.Missed != 1<<series.Availability {
		t.Errorf("%s, missed %b", got.State, got.Missed)
	}
}
