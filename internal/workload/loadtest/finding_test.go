package loadtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

// tested returns what a run at noon came to: its levels, by their verdicts.
func tested(end End, levels ...Level) *Finding {
	f := &Finding{At: lab.Noon(), End: end, Kind: config.LoadUsers, Target: 8, TTFT: 1, Levels: levels}
	f.conclude()
	return f
}

func at(level float64, v Verdict, when time.Time) Level {
	return Level{Level: level, At: when, Complete: true, Verdict: v, Seconds: 60, Requests: 1, InFlight: level - 0.5, Confidence: map[Verdict]float64{Met: 0.97, Undecided: 0.4}[v]}
}

func TestCapacity(t *testing.T) {
	f := func(want string, verdicts ...Verdict) {
		t.Helper()
		var levels []Level
		for i, v := range verdicts {
			levels = append(levels, at(float64(i+1), v, lab.Noon()))
		}
		got := ""
		test := tested(Completed, levels...)
		if c := test.MaxGood; c != nil {
			got += fmt.Sprint("good ", c.Level, c.InFlight, c.Confidence)
		}
		if c := test.Knee; c != nil {
			got += fmt.Sprint(" bad ", c.Level)
		}
		if got != want {
			t.Errorf("%v: %q, want %q", verdicts, got, want)
		}
	}
	f("")
	f("", "", "")
	f("", Undecided, Undecided)
	f("good 2 1.5 0.97", Met, Met)
	f("good 2 1.5 0.97 bad 4", Undecided, Met, Undecided, Missed)
	f(" bad 1", Missed, Met) // the larger level had luck
	f("good 3 2.5 0.97", Met, Undecided, Met)
}

// A level that was not measured for all of its time is no part of a curve, unless its own requests ended it.
func TestCompleteLevels(t *testing.T) {
	plan := Plan{Load: &config.LoadTest{Users: []int{2, 4}, Target: 4, Duration: model.Duration(time.Minute)}, Objectives: &series.Objectives{TTFT: time.Second}}
	second := recorded(failure(120, 1), failure(121, 1))
	for end, want := range map[End]bool{Completed: true, Errors: true, Slow: true, UsersWaiting: false, Canceled: false, Budget: false} {
		r := &Report{Start: lab.Noon(), Stop: lab.Noon().Add(3 * time.Minute), End: end, Levels: []Recorded{*recorded(answer(120, 0.5, 2)), *second}}
		f := NewFinding(r, plan, Context{})
		if len(f.Levels) != 2 || !f.Levels[0].Complete || f.Levels[1].Complete != want || f.Target != 4 {
			t.Errorf("%s: complete %v, want the last %t; target %v", end, f.Levels, want, f.Target)
		}
		if !f.Levels[0].At.Equal(lab.Noon().Add(160*time.Second)) || !f.At.Equal(r.Stop) {
			t.Errorf("%s: level at %s, run at %s", end, f.Levels[0].At, f.At)
		}
	}
}

func newLab() *lab.Lab[*Estimate, *Finding] {
	return lab.New[*Estimate, *Finding](func() *Estimate { return &Estimate{kind: config.LoadUsers, ttft: 1} })
}

// take returns what a run gives together with those before it.
func take(l *lab.Lab[*Estimate, *Finding], run any) *Finding {
	f, _ := workload.In[*Finding](l.Tracker.Take("m", run))
	return f
}

func curve(f *Finding) string {
	var all []string
	for _, l := range f.Levels {
		all = append(all, fmt.Sprint(l.Level, " ", l.Verdict, " ", l.At.Sub(lab.Noon()).Hours()))
	}
	return strings.Join(all, ", ")
}

// Levels that were measured replace those before, the others stay with their time for 14 days, and all survive a restart.
func TestCurveIsTheLatestOfEachLevel(t *testing.T) {
	l := newLab()
	if f := l.Tracker.Take("m", "something else"); f != nil {
		t.Errorf("what is no load test gives %v", f)
	}
	day := func(n int) time.Time { return lab.Noon().Add(time.Duration(n) * 24 * time.Hour) }
	take(l, tested(Completed, at(2, Met, day(0)), at(8, Met, day(0)), at(16, Missed, day(0))))
	l.Now = day(1)
	cut := at(8, Missed, day(1))
	cut.Complete = false
	f := take(l, tested(UsersWaiting, at(2, Undecided, day(1)), cut))
	if want := "2 undecided 24, 8 met 0, 16 missed 0"; curve(f) != want || f.End != UsersWaiting || f.MaxGood.Level != 8 || f.Knee.Level != 16 {
		t.Errorf("%s, ended %s, good %v, knee %v, want %s", curve(f), f.End, f.MaxGood, f.Knee, want)
	}
	next := l.NextProcess(t)
	next.Now = day(2)
	f = take(next, tested(NoRoom))
	if want := "2 undecided 24, 8 met 0, 16 missed 0"; curve(f) != want || f.End != NoRoom {
		t.Errorf("after a restart %s, ended %s, want %s", curve(f), f.End, want)
	}
	next.Now = day(14).Add(time.Second)
	if f, _ := workload.In[*Finding](next.Tracker.Findings()); curve(f) != "2 undecided 24" || f.MaxGood != nil || f.Knee != nil {
		t.Errorf("after 14 days %s, good %v, knee %v", curve(f), f.MaxGood, f.Knee)
	}
	other := tested(Completed, at(1, Met, day(15)))
	other.Kind = config.LoadRate
	if f := take(next, other); curve(f) != "2 undecided 24" {
		t.Errorf("with a load of another kind %s", curve(f))
	}
	if f, _ := workload.In[*Finding](next.Tracker.Take("another", tested(Completed, at(4, Met, day(15))))); curve(f) != "4 met 360" {
		t.Errorf("of another model %s", curve(f))
	}
}

// What was learned with other objectives, or is no curve, is not taken up.
func TestRestore(t *testing.T) {
	f := func(change func(*Finding), kept bool) {
		t.Helper()
		saved := tested(Completed, at(2, Met, lab.Noon()), at(4, Missed, lab.Noon()))
		change(saved)
		text, err := json.Marshal(saved)
		if err != nil {
			t.Fatal(err)
		}
		e := &Estimate{kind: config.LoadUsers, ttft: 1}
		if err := e.restore(text); err != nil || (e.latest != nil) != kept {
			t.Errorf("%s: error %v, kept %t, want %t", text, err, e.latest != nil, kept)
		}
		if again, _ := e.Finding(lab.Noon()).(*Finding); kept && !reflect.DeepEqual(again, saved) {
			t.Errorf("restored %+v, want %+v", again, saved)
		}
	}
	f(func(*Finding) {}, true)
	f(func(s *Finding) { s.TTFT = 2 }, false)
	f(func(s *Finding) { s.TPOT = 2 }, false)
	f(func(s *Finding) { s.Kind = config.LoadTrace }, false)
	if err := newLab().Estimate.restore([]byte("[")); err == nil {
		t.Error("what is no JSON is restored")
	}
}

// What the load tests of a module came to says how long their requests are: (3 x 256 + 2048)/4 tokens are 704.
func TestLengthsOfAFinding(t *testing.T) {
	m := &config.Module{
		InputTokens:  config.Lengths{Mix: []config.WeightedLength{{Tokens: 256, Weight: 3}, {Tokens: 2048, Weight: 1}}},
		OutputTokens: config.Tokens(64), Load: &config.LoadTest{Users: []int{2}},
	}
	e := Workload().Estimate(new(config.Endpoint), m)
	e.(*Estimate).Take(tested(Completed, at(2, Met, lab.Noon())), lab.Noon())
	if f := e.Finding(lab.Noon()).(*Finding); f.Input != 704 || f.Output != 64 {
		t.Errorf("prompts of %d tokens and answers of %d, want 704 and 64", f.Input, f.Output)
	}
}

func TestNews(t *testing.T) {
	f := func(before, now *Finding, want ...string) {
		t.Helper()
		var b workload.Finding
		if before != nil {
			b = before
		}
		var notes []string
		for _, line := range now.News(b, "m") {
			notes = append(notes, line.Note)
		}
		if fmt.Sprint(notes) != fmt.Sprint(want) {
			t.Errorf("%q, want %q", notes, want)
		}
	}
	now := lab.Noon()
	met, undecided, missed := at(8, Met, now), at(8, Undecided, now), at(8, Missed, now)
	missedNote := "target load misses the objectives: 8 users"
	fell := func(n int) string { return fmt.Sprintf("knee under load fell: %d users", n) }
	f(nil, tested(Completed, met))
	f(nil, tested(Completed, missed), missedNote)
	f(tested(Completed, met), tested(Completed, missed), missedNote, fell(8))
	f(tested(Completed, missed), tested(Completed, missed))
	f(tested(Completed, missed), tested(Completed, undecided))
	f(tested(Completed, missed), tested(Completed, met), "target load meets the objectives again: 8 users")
	f(tested(Completed, at(4, Met, now), missed), tested(Completed, at(4, Missed, now), missed), fell(4))
	f(tested(Completed, at(4, Undecided, now), missed), tested(Completed, at(4, Missed, now), missed)) // not known to be good before
	f(tested(Completed, at(4, Met, now), at(16, Missed, now)), tested(Completed, at(4, Met, now), at(32, Missed, now)))
	f(tested(Completed, at(4, Met, now)), tested(Completed, at(4, Met, now), at(16, Missed, now))) // never measured before
}

func TestFindingJSON(t *testing.T) {
	f := tested(UsersSlow, at(0.5, Met, lab.Noon()))
	f.Text = "why"
	text, err := json.Marshal(f)
	want := `{"load_test":{"at":"2026-03-01T12:00:00Z","end":"users_slow","text":"why","load":"users","target":8,"levels":[{"level":0.5,"at":"2026-03-01T12:00:00Z","complete":true,"seconds":60,` +
		`"requests":1,"failed":0,"late":0,"in_flight":0,"confidence_ratio":0.97,"verdict":"met"}],` +
		`"max_good":{"level":0.5,"in_flight":0,"confidence_ratio":0.97},"ttft_objective_seconds":1}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v\nwant %s", text, err, want)
	}
}
