package series

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
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
			var saved Saved
			again.log.Save(&saved)
			var err error
			if again.log, err = saved.Restore(again.now); err != nil {
				t.Fatal(err)
			}
			got = append(got, again.ask(60, factor)...)
		}
	}
	if len(want) < 2 {
		t.Fatalf("%d steps", len(want))
	}
	if !slices.Equal(encodings(t, got), encodings(t, want)) {
		t.Errorf("got  %v\nwant %v", encodings(t, got), encodings(t, want))
	}
	if latest := again.steps.Latest; len(latest) < 2 || !slices.Equal(encodings(t, latest), encodings(t, on.steps.Latest)) {
		t.Errorf("latest %v, want %v", latest, on.steps.Latest)
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
		if next.Failures.Since != min(n, maxProbes) || !next.LastProbe().Equal(s.steps.LastProbe()) {
			t.Errorf("%d probes: %d are known, the latest at %v", n, next.Failures.Since, next.LastProbe())
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
		"another version":     strings.Replace(string(good), `"version":2`, `"version":3`, 1),
		"no object":           `[1]`,
		"nothing":             `{}`,
		"more than are kept":  strings.Replace(string(good), `"since":`, `"since":9`, 1),
		"another weight":      strings.Replace(string(good), `"weight":`, `"weight":9`, 1),
		"no noise":            strings.Replace(string(good), `"noise":0.`, `"noise":0.000`, 1),
		"a day too many":      strings.Replace(string(good), `"days":`, `"days":7`, 1),
		"a part too many":     strings.Replace(string(good), `"parts":[`, `"parts":[`+"{},", 1),
		"a sum out of bounds": strings.Replace(string(good), `"s":`, `"s":9e9,"x":`, 1),
	} {
		if bad == string(good) {
			t.Fatalf("%s: the same", what)
		}
		next := Steps{Last: 1}
		if err := json.Unmarshal([]byte(bad), &next); err == nil || next.Last != 1 {
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
	f.Add([]byte(`{"version":2,"latencies":[{},{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		next := newSeries(harsh(0.2), 2)
		if json.Unmarshal(data, &next.steps) != nil {
			return
		}
		next.ask(30, 1)
		restarted(t, &next.steps)
	})
}
