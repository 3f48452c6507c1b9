package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const learnedConfig = `
modules: {m: {interval: 30s}}
endpoints: [{name: e, url: "http://127.0.0.1:1", modules: [m]}]`

// observeSteady adds n probes of an endpoint's first series, which end now.
func (l *lab) observeSteady(n int, ttft time.Duration, until time.Time) {
	task := l.endpoint("e").tasks[0]
	now := until.Add(-time.Duration(n) * 30 * time.Second)
	for i := range n {
		task.take(served(now, ttft+time.Duration(i%5)*ttft/50), false, false)
		now = now.Add(30 * time.Second)
	}
}

// nextProcess returns a lab with what this one has saved, by a change of the records of what
// was learned, and how many of them were refused.
func (l *lab) nextProcess(config string, change func(record string) string) (next *lab, refused int) {
	l.t.Helper()
	next = newLab(l.t)
	err := l.saveLearned(func(record any) error {
		line, err := json.Marshal(record)
		if err != nil {
			return err
		}
		if err := next.restore([]byte(change(string(line)))); err != nil {
			l.t.Log(err)
			refused++
		}
		return nil
	})
	if err == nil {
		err = l.saveEndpoints(func(record any) error {
			line, err := json.Marshal(record)
			if err != nil {
				return err
			}
			return next.restore(line)
		})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	if err := next.Apply(planOf(parse(l.t, config))); err != nil {
		l.t.Fatal(err)
	}
	return next, refused
}

func asItWas(record string) string { return record }

// findsDoubling reports whether a doubling of TTFT is found that only who knows the
// probes before it can find.
func (l *lab) findsDoubling(until time.Time) bool {
	l.observeSteady(20, 200*time.Millisecond, until)
	return math.Abs(l.page().Sum("inference_probe_step_ratio", "metric", "ttft")-2) < 0.1
}

// What is usual of a series is known after a restart, so that a step is found which
// begins with it; after the next one the step is on the page.
func TestStepsGoOnInTheNextProcess(t *testing.T) {
	l := workLab(t, learnedConfig)
	began := time.Now().Add(-time.Hour)
	l.observeSteady(200, 100*time.Millisecond, began)
	next, _ := l.nextProcess(learnedConfig, asItWas)
	if !next.findsDoubling(time.Now()) {
		t.Error("no step was found")
	}
	third, refused := next.nextProcess(learnedConfig, asItWas)
	third.observeSteady(1, 200*time.Millisecond, time.Now()) // names the model
	if ratio := third.page().Sum("inference_probe_step_ratio", "metric", "ttft"); math.Abs(ratio-2) > 0.1 || refused > 0 {
		t.Errorf("after another restart the ratio is %v; %d records were refused", ratio, refused)
	}
}

// Nothing is taken up where something else is asked, or of a record that cannot be true:
// then it begins again.
func TestWhatWasLearnedOfOthers(t *testing.T) {
	replaced := func(old, with string) func(string) string {
		return func(record string) string { return strings.Replace(record, old, with, 1) }
	}
	for what, tc := range map[string]struct {
		config  string
		change  func(string) string
		refused int
	}{
		"another model":      {config: strings.Replace(learnedConfig, "name: e,", "name: e, model: x,", 1)},
		"another URL":        {config: strings.Replace(learnedConfig, ":1\"", ":2\"", 1)},
		"another module":     {config: strings.Replace(learnedConfig, "30s", "30s, input_tokens: 7", 1)},
		"another name":       {change: replaced(`"endpoint":"e"`, `"endpoint":"f"`)},
		"without a name":     {change: replaced(`"endpoint":"e"`, `"endpoint":""`), refused: 1},
		"of the future":      {change: replaced(`"at":"20`, `"at":"29`), refused: 1},
		"probes to come":     {change: replaced(`"last":1`, `"last":9`), refused: 1},
		"too old":            {change: replaced(`"at":"20`, `"at":"19`), refused: 1},
		"of another version": {change: replaced(`"version":2`, `"version":3`), refused: 1},
		"cut":                {change: func(record string) string { return record[:len(record)/2] }, refused: 1},
	} {
		t.Run(what, func(t *testing.T) {
			l := workLab(t, learnedConfig)
			l.observeSteady(200, 100*time.Millisecond, time.Now().Add(-time.Hour))
			if tc.config == "" {
				tc.config = learnedConfig
			}
			if tc.change == nil {
				tc.change = asItWas
			}
			next, refused := l.nextProcess(tc.config, tc.change)
			if refused != tc.refused || next.findsDoubling(time.Now()) {
				t.Errorf("%d records were refused, want %d; page %v", refused, tc.refused, next.page()["inference_probe_step_ratio"])
			}
		})
	}
}

// Other settings of an endpoint that is asked the same leave what was learned as it is.
func TestWhatWasLearnedIsKeptOverAReload(t *testing.T) {
	l := workLab(t, learnedConfig)
	l.observeSteady(200, 100*time.Millisecond, time.Now().Add(-time.Hour))
	labelled := strings.Replace(learnedConfig, "modules: [m]", "modules: [m], labels: {team: a}", 1)
	if err := l.Apply(planOf(parse(t, labelled))); err != nil {
		t.Fatal(err)
	}
	if !l.findsDoubling(time.Now()) {
		t.Error("no step was found")
	}
}

// What probes identified is shown after a reload that changes the endpoint, before its next probe.
func TestServedIsKeptOverAReload(t *testing.T) {
	l := workLab(t, learnedConfig)
	apply := func(config string) {
		t.Helper()
		if err := l.Apply(planOf(parse(t, config))); err != nil {
			t.Fatal(err)
		}
	}
	l.endpoint("e").metrics.SetServed(&result.Result{Model: "llama", API: "openai-chat", Engine: "vllm"})
	labelled := strings.Replace(learnedConfig, "modules: [m]", "modules: [m], labels: {team: a}", 1)
	apply(labelled)
	if !l.page().Has("inference_endpoint_info", "endpoint", "e", "team", "a", "model", "llama", "api", "openai-chat", "engine", "vllm") {
		t.Error("what the endpoint serves is not known")
	}
	apply(strings.Replace(labelled, ":1\"", ":2\"", 1)) // another server
	if l.page().Has("inference_endpoint_info", "endpoint", "e", "engine", "vllm") {
		t.Error("another server is taken for the one before")
	}
}

// What waits for an endpoint that discovery may find later is saved again, for an hour.
func TestWhatWasLearnedWaits(t *testing.T) {
	l := workLab(t, learnedConfig)
	l.observeSteady(200, 100*time.Millisecond, time.Now().Add(-time.Hour))
	next, _ := l.nextProcess(strings.Replace(learnedConfig, "name: e,", "name: other,", 1), asItWas)
	count := func(at time.Time) int { return len(next.before.records(at, true)) }
	if n := count(time.Now().Add(50 * time.Minute)); n != 1 {
		t.Errorf("%d records after 50 minutes", n)
	}
	if n := count(time.Now().Add(61 * time.Minute)); n != 0 {
		t.Errorf("%d records after an hour", n)
	}
}

// What was kept of an endpoint waits for it, over further restarts: its history for an hour, its
// state and the models that answer for a day.
func TestStateAndHistoryWait(t *testing.T) {
	l := workLab(t, learnedConfig)
	l.observeSteady(3, 100*time.Millisecond, time.Now())
	var records []string
	save := func(l *lab) {
		records = nil
		err := l.saveEndpoints(func(record any) error {
			line, err := json.Marshal(record)
			records = append(records, string(line))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	restored := func(config string) *lab {
		next := newLab(t)
		for _, r := range records {
			if err := next.restore([]byte(r)); err != nil {
				t.Errorf("%s: %v", r, err)
			}
		}
		if err := next.Apply(planOf(parse(t, config))); err != nil {
			t.Fatal(err)
		}
		return next
	}
	save(l)
	other := strings.Replace(learnedConfig, "name: e,", "name: other,", 1)
	waits := restored(other)
	save(waits)
	last := time.Now()
	for after, want := range map[time.Duration]int{50 * time.Minute: 3, 61 * time.Minute: 2, 24*time.Hour + time.Minute: 0} {
		if n := len(restored(other).before.records(last.Add(after), false)); n != want {
			t.Errorf("%d records after %s, want %d", n, after, want)
		}
	}
	of := func(l *lab) string {
		d, _ := l.Board.Detail("e")
		return fmt.Sprint(len(d.Series[0].History.At), " ", d.State)
	}
	if got := of(restored(learnedConfig)); got != "3 waiting" {
		t.Errorf("it has %s", got)
	}
	if got := of(restored(strings.Replace(learnedConfig, "name: e,", "name: e, model: x,", 1))); got != "0 waiting" {
		t.Errorf("another model has %s", got)
	}
	for _, record := range []string{`{`, `{"state":{}}`, `{"endpoint":"e","state":{}}`, `{"series":{}}`, `{"endpoint":"e","series":{"at":[1]}}`, `{"endpoint":"e","learned":{}}`} {
		if l.restore([]byte(record)) == nil {
			t.Errorf("accepted %s", record)
		}
	}
}

// A run of a task is something new to save.
func TestRevisionOfEndpoints(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Swift())
		l := workLab(t, `
modules: {m: {interval: 30s, input_tokens: 16, output_tokens: 4}}
endpoints: [{name: e, url: "`+w.URL+`", api: openai-chat, modules: [m]}]`)
		before := l.Board.Revision()
		l.times(1, "e")
		if l.Board.Revision() == before {
			t.Error("nothing new after a run")
		}
	})
}
