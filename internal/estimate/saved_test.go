package estimate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// restarted returns what another process makes of steps.
func restarted(t *testing.T, s *Steps) *Steps {
	t.Helper()
	saved, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(saved) > 16<<10 {
		t.Errorf("%d bytes", len(saved))
	}
	next := new(Steps)
	if err := json.Unmarshal(saved, next); err != nil {
		t.Fatal(err)
	}
	return next
}

// Steps that are saved and restored every hour find the same as those that run on: the
// same steps at the same times, by the same levels and the same course of the day.
func TestStepsGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	c := harsh(0.15)
	c.interval, c.failing = time.Minute, 0.01
	on, again := newSeries(c, 1), newSeries(c, 1)
	var want, got []Step
	for day := range 4 {
		for hour := range 24 {
			factor := 1.0
			if day == 2 && hour >= 7 {
				factor = 1.4
			}
			if day == 3 && hour == 12 {
				on.failing, again.failing = 0.4, 0.4
			}
			want = append(want, on.ask(60, factor)...)
			again.steps = *restarted(t, &again.steps)
			got = append(got, again.ask(60, factor)...)
		}
	}
	if len(want) < 2 {
		t.Fatalf("%d steps", len(want))
	}
	if !slices.Equal(encodings(t, got), encodings(t, want)) {
		t.Errorf("got  %v\nwant %v", encodings(t, got), encodings(t, want))
	}
	if latest := again.steps.Latest(); len(latest) < 2 || !slices.Equal(encodings(t, latest), encodings(t, on.steps.Latest())) {
		t.Errorf("latest %v, want %v", latest, on.steps.Latest())
	}
}

// encodings returns steps as texts.
func encodings(t *testing.T, steps []Step) []string {
	t.Helper()
	var all []string
	for _, s := range steps {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

// Without a probe, and after few of them, there is less to save.
func TestFewStepsGoOn(t *testing.T) {
	for _, n := range []int{0, 1, 5, maxProbes - 1, maxProbes, maxProbes + 1} {
		s := newSeries(harsh(0.2), 3)
		s.ask(n, 1)
		next := restarted(t, &s.steps)
		if len(next.probes) != min(n, maxProbes) || !next.LastProbe().Equal(s.steps.LastProbe()) {
			t.Errorf("%d probes: %d are known, the latest at %v", n, len(next.probes), next.LastProbe())
		}
	}
}

// What no probes lead to is refused, and changes nothing.
func TestStepsThatCannotBe(t *testing.T) {
	s := newSeries(harsh(0.2), 1)
	s.days(2, 1)
	good, err := json.Marshal(&s.steps)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string]string{
		"another version":     strings.Replace(string(good), `"version":1`, `"version":2`, 1),
		"no object":           `[1]`,
		"nothing":             `{}`,
		"a latency too few":   strings.Replace(string(good), `"logs":[`, `"logs":[`+"1,", 1),
		"a pause too many":    strings.Replace(string(good), `"pauses":[`, `"pauses":[`+"30,", 1),
		"more than are kept":  strings.Replace(string(good), `"since":`, `"since":9`, 1),
		"another weight":      strings.Replace(string(good), `"weight":`, `"weight":9`, 1),
		"no noise":            strings.Replace(string(good), `"noise":0.`, `"noise":0.000`, 1),
		"a day too many":      strings.Replace(string(good), `"days":`, `"days":7`, 1),
		"a half of a day":     strings.Replace(string(good), `"known":[`, `"known":[`+"1,", 1),
		"a sum out of bounds": strings.Replace(string(good), `"sum":[`, `"sum":[9`, 1),
	} {
		if bad == string(good) {
			t.Fatalf("%s: the same", what)
		}
		next := Steps{last: noon()}
		if err := json.Unmarshal([]byte(bad), &next); err == nil || !next.last.Equal(noon()) || next.probes != nil {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// FuzzRestoreSteps takes up any JSON and goes on with it.
func FuzzRestoreSteps(f *testing.F) {
	s := newSeries(harsh(0.2), 1)
	s.days(1.5, 1)
	good, err := json.Marshal(&s.steps)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"pauses":[],"ttft":{"logs":[],"cycle":{}},"tpot":{"logs":[],"cycle":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		next := newSeries(harsh(0.2), 2)
		if json.Unmarshal(data, &next.steps) != nil {
			return
		}
		next.ask(30, 1)
		restarted(t, &next.steps)
	})
}

// scoring returns a score of the reference passage.
func scoring(mean float64) *result.Result {
	r := &result.Result{Outcome: result.Success, Kind: api.Scoring, Model: "m"}
	r.Logprob.Mean, r.Logprob.Tokens = mean, 100
	return r
}

// The baseline of scores goes on: a shift is found where the next process would still
// have learned. Of another model it begins again.
func TestTrackerGoesOnAfterARestart(t *testing.T) {
	clock := func() time.Time { return noon() }
	learnt := NewTracker(Options{Now: clock})
	for i := range 80 {
		learnt.Observe([]*result.Result{scoring(-2 + 0.002*float64(i%5))})
	}
	saved, err := learnt.Save()
	if err != nil || saved == nil {
		t.Fatalf("%v, %v", saved, err)
	}
	shift := func(model string) uint64 {
		next := NewTracker(Options{Now: clock})
		if err := next.Restore(saved); err != nil {
			t.Fatal(err)
		}
		var found *Findings
		for range 40 {
			r := scoring(-2.1)
			r.Model = model
			found = next.Observe([]*result.Result{r})
		}
		return found.Changes[indexLogprob]
	}
	if n := shift("m"); n != 1 {
		t.Errorf("%d shifts after a restart, want 1", n)
	}
	if n := shift("other"); n != 0 {
		t.Errorf("%d shifts of another model", n)
	}
}

// A part that this version does not know, and one that cannot be, begin again; the rest
// is taken up.
func TestTrackerTakesUpWhatItCan(t *testing.T) {
	fresh := NewTracker(Options{Now: time.Now})
	if saved, err := fresh.Save(); saved != nil || err != nil {
		t.Errorf("saved %v, %v of nothing", saved, err)
	}
	err := fresh.Restore(&SavedTracker{Parts: []Saved{
		{Part: "unheard", Version: 1, Data: json.RawMessage(`{}`)},
		{Part: "logprob", Version: 9, Data: json.RawMessage(`{}`)},
		{Part: "logprob", Version: 1, Data: json.RawMessage(`{"baseline":[2,1]}`)},
		{Part: "logprob", Version: 1, Data: json.RawMessage(`{"baseline":[-3,-2]}`)},
	}})
	if err == nil || strings.Count(err.Error(), "restore") != 3 || len(fresh.state.score.shift.baseline) != 2 {
		t.Errorf("error %v, baseline %v", err, fresh.state.score.shift.baseline)
	}
}

// nextProcess returns a lab whose tracker took up what this one's learned.
func (l *lab) nextProcess(t *testing.T) *lab {
	t.Helper()
	saved, err := l.tracker.Save()
	if err != nil || saved == nil {
		t.Fatalf("saved %v, %v", saved, err)
	}
	text, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	var read SavedTracker
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	next := newLab(0)
	if err := next.tracker.Restore(&read); err != nil {
		t.Fatal(err)
	}
	return next
}

// What is usual of the findings in answers is known after a restart: a share that rises
// then is found at once. The counts of findings are those of the process.
func TestIntegrityGoesOnAfterARestart(t *testing.T) {
	inspected := func(l *lab, n int, findings ...result.Sign) (f *Findings) {
		for range n {
			f = l.run(with(probe(256, ms), func(r *result.Result) { r.Start, r.Inspected, r.Integrity = l.now, true, findings }))
		}
		return f
	}
	l := newLab(0)
	inspected(l, minAnswers)
	l = l.nextProcess(t)
	if f := inspected(l, 1); f != nil && f.Integrity != nil {
		t.Errorf("before the first finding: %+v", f.Integrity)
	}
	f := inspected(l, 3, result.SignToken)
	token := slices.Index(result.Signs(), result.SignToken)
	if s := f.Integrity.Signs[token]; s.Since.IsZero() || s.Seen != 3 || s.Count != 3 || f.Integrity.Answers != 4 {
		t.Errorf("%+v of %d answers", s, f.Integrity.Answers)
	}
	f = inspected(l.nextProcess(t), 1, result.SignToken)
	if s := f.Integrity.Signs[token]; s.Since.IsZero() || s.Seen != 4 || s.Count != 1 || f.Integrity.Answers != 1 {
		t.Errorf("after another restart: %+v of %d answers", s, f.Integrity.Answers)
	}
}

// Shares that no answers have begin again.
func TestIntegrityThatCannotBe(t *testing.T) {
	for _, data := range []string{
		`[]`, `{"answers":-1}`, `{"answers":1,"signs":{"TOKEN":{"usual":{"found":2,"answers":1}}}}`,
		`{"answers":1,"signs":{"TOKEN":{"sum":15}}}`, `{"answers":1,"signs":{"TOKEN":{"sum":4,"raised":true}}}`,
	} {
		data = strings.ReplaceAll(data, "TOKEN", string(result.SignToken))
		var next integrity
		if err := next.restore([]byte(data)); err == nil || next.signs != nil || next.before != 0 {
			t.Errorf("%s was taken", data)
		}
	}
}
