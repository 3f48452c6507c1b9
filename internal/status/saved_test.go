package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// recordsOf returns what a board saves, as lines of JSON.
func recordsOf(t testing.TB, b *watched) [][]byte {
	t.Helper()
	var lines [][]byte
	err := b.Save(func(record any) error {
		line, err := json.Marshal(record)
		lines = append(lines, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// restart makes the lab one of a new process, which has read what this one saved.
func (l *lab) restart() {
	l.t.Helper()
	records := recordsOf(l.t, l.board)
	l.board = newWatched(func() time.Time { return l.now })
	for _, r := range records {
		if err := l.board.Restore(r); err != nil {
			l.t.Errorf("%s: %v", r, err)
		}
	}
	l.board.Restarted()
}

func cold(module string) result.SeriesID { return result.SeriesID{Module: module, Prefix: "cold"} }

// The history goes on where the process before ended, also where it was full; probes
// are missing for as long as no process ran.
func TestHistorySurvivesARestart(t *testing.T) {
	l := newLab(t)
	p := l.open(cold("m"))[0]
	for i := range 500 {
		l.pass(30 * time.Second)
		if i%100 == 50 {
			l.observe(p, result.TimeoutStall)
			continue
		}
		l.observe(p, "")
	}
	before := l.detail("e").Series[0].History
	l.pass(10 * time.Minute)
	l.restart()
	p = l.open(cold("m"))[0]
	after := l.detail("e")
	if got, want := text(t, after.Series[0].History), text(t, before); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if from := after.Series[0].History.From; from != epochSeconds {
		t.Errorf("kept since %v", from)
	}
	restart := int64(epochSeconds + 500*30 + 600)
	if text(t, after.Restarts) != fmt.Sprintf("[%d]", restart) || text(t, after.Changes) != fmt.Sprintf(`[{"at":%d,"text":"exporter restarted"}]`, restart) {
		t.Errorf("restarts %v, changes %s", after.Restarts, text(t, after.Changes))
	}
	if outcomes := after.Outcomes; len(outcomes) != rowOutcomes || outcomes[0] != result.Success {
		t.Errorf("the row shows %v", outcomes)
	}
	l.observe(p, "")
	h := l.detail("e").Series[0].History
	if len(h.At) != maxPoints || h.At[0] != before.At[1] || h.At[maxPoints-1] != float64(restart) {
		t.Errorf("%d points from %v to %v", len(h.At), h.At[0], h.At[maxPoints-1])
	}
}

// The steps of a series stay in its chart and among the changes, with what changed beside
// them. One of the future, by a clock that was wrong, is left out.
func TestStepsSurviveARestart(t *testing.T) {
	l := newLab(t)
	p := l.open(cold("m"))[0]
	l.board.Note("e", "m", "another answer")
	p.AddStep(series.Step{At: l.now, Metric: series.MetricTTFT, Before: 0.2, After: 0.3, Lower: 1.4, Upper: 1.6})
	before := text(t, l.detail("e").Series[0].Steps)
	p.AddStep(series.Step{At: l.now.Add(time.Hour), Metric: series.MetricFailures, After: 0.25})
	l.restart()
	l.open(cold("m"))
	after := l.detail("e")
	if got := text(t, after.Series[0].Steps); got != before || !strings.Contains(got, "another answer") {
		t.Errorf("got %s, want %s", got, before)
	}
	if changes := text(t, after.Changes); !strings.Contains(changes, "TTFT rose for good, from 0.2 to 0.3 s; at that time: another answer") {
		t.Errorf("changes %s", changes)
	}
	l.restart()
	l.open(cold("n"))
	if d := l.detail("e"); len(d.Series[0].Steps) != 0 {
		t.Errorf("another module has %s", text(t, d.Series[0].Steps))
	}
}

// What was measured of another server under the same name is not shown, nor is a
// series that asks something else.
func TestHistoryOfAnotherTarget(t *testing.T) {
	l := newLab(t)
	l.observe(l.open(cold("m"), cold("n"))[0], "")
	l.restart()
	other := configured("e")
	other.Model = "another"
	l.board.SetEndpoint(other)
	id := cold("m")
	id.Endpoint = "e"
	l.board.OpenSeries(id, pace())
	if h := l.detail("e").Series[0].History; len(h.At) != 0 {
		t.Errorf("another model has %s", text(t, h))
	}
	l.restart()
	l.open(result.SeriesID{Module: "m", Prefix: "warm"})
	if h := l.detail("e").Series[0].History; len(h.At) != 0 {
		t.Errorf("another prefix has %s", text(t, h))
	}
}

// An endpoint that discovery finds later finds its history, also after another
// restart; one that does not come within an hour is forgotten.
func TestHistoryWaitsForItsEndpoint(t *testing.T) {
	l := newLab(t)
	l.observe(l.open(cold("m"))[0], "")
	l.restart()
	l.pass(50 * time.Minute)
	l.restart()
	l.pass(50 * time.Minute)
	l.open(cold("m"))
	if h := l.detail("e").Series[0].History; len(h.At) != 1 {
		t.Errorf("after 50 minutes: %s", text(t, h))
	}
	l.restart()
	l.pass(61 * time.Minute)
	if records := recordsOf(t, l.board); len(records) != 1 {
		t.Errorf("after an hour %d records are saved", len(records))
	}
	l.open(cold("m"))
	if h := l.detail("e").Series[0].History; len(h.At) != 0 {
		t.Errorf("after an hour: %s", text(t, h))
	}
}

// A clock that was set back leaves no points and no restarts in the future.
func TestRestoreAfterTheClockWasSetBack(t *testing.T) {
	l := newLab(t)
	p := l.open(cold("m"))[0]
	for range 3 {
		l.observe(p, "")
		l.pass(time.Hour)
	}
	l.board.Restarted()
	l.now = epoch().Add(90 * time.Minute)
	l.restart()
	l.open(cold("m"))
	d := l.detail("e")
	if h := d.Series[0].History; text(t, h.At) != fmt.Sprintf("[%d,%d]", epochSeconds, epochSeconds+3600) {
		t.Errorf("points at %s", text(t, h.At))
	}
	if len(d.Restarts) != 1 {
		t.Errorf("restarts %v", d.Restarts)
	}
	l.now = epoch().Add(-time.Hour)
	l.restart()
	l.open(cold("m"))
	if h := l.detail("e").Series[0].History; len(h.At) != 0 || h.From > float64(l.now.Unix()) {
		t.Errorf("before all of it: %s", text(t, h))
	}
}

// The latest restarts are kept.
func TestRestartsAreBounded(t *testing.T) {
	l := newLab(t)
	for range 50 {
		l.pass(time.Minute)
		l.restart()
	}
	if n := len(l.board.restartsKept()); n != maxRestarts {
		t.Errorf("%d restarts", n)
	}
}

// The file has names of the configuration, times and numbers, and no text of anyone
// else: see docs/security.md.
func TestNothingElseIsSaved(t *testing.T) {
	l := newLab(t)
	cfg := configured("e")
	cfg.URL.Path = "/path-secret"
	cfg.Labels = map[string]string{"label": "label-secret"}
	l.board.SetEndpoint(cfg)
	id := cold("m")
	id.Endpoint = "e"
	p := l.board.OpenSeries(id, pace())
	r := failure(l.now, result.HTTPError)
	r.Err, r.Model, r.Answer.Text, r.Answer.Fingerprint = errors.New("error-secret"), "model-secret", "answer-secret", "print-secret"
	p.Observe(r)
	l.board.Note("e", "m", "note-secret")
	got := string(bytes.Join(recordsOf(t, l.board), nil))
	if strings.Contains(got, "secret") || !strings.Contains(got, string(result.HTTPError)) {
		t.Errorf("saved %s", got)
	}
}

// A record that Save does not make is rejected as a whole.
func TestRestoreRejects(t *testing.T) {
	good := `{"series":{"endpoint":"e","module":"m","from":1,"at":[10,5],"ttft":[1,-1],"tpot":[2,-1],"outcomes":[{"outcome":"success","n":1},{"outcome":"empty","n":1}]}}`
	replace := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for _, record := range []string{
		``, `[]`, `5`,
		replace(`"endpoint":"e",`, ``),
		replace(`[10,5]`, `[10]`), replace(`[1,-1]`, `[1,-1,3]`), replace(`[2,-1]`, `[]`), replace(`[10,5]`, `[10,5.5]`),
		replace(`"n":1}]`, `"n":2}]`), replace(`"n":1}]`, `"n":1000000000000}]`), replace(`"n":1},{`, `"n":0},{`), replace(`"n":1},{`, `"n":-1},{`),
		replace(`[10,5]`, "["+strings.Repeat("1,", maxPoints)+"1]"),
	} {
		if err := newLab(t).board.Restore([]byte(record)); err == nil {
			t.Errorf("accepted %s", record)
		}
	}
	l := newLab(t)
	if err := l.board.Restore([]byte(good)); err != nil {
		t.Error(err)
	}
	// An outcome that this version does not know leaves its probes out, and so does a
	// time that no clock shows.
	unknown := replace(`"empty"`, `"later"`)
	if err := l.board.Restore([]byte(unknown)); err != nil {
		t.Error(err)
	}
	if err := l.board.Restore([]byte(replace(`[10,5]`, `[10,9000000000000000000]`))); err != nil {
		t.Error(err)
	}
}

// FuzzRestore restores any record, opens its series, and saves what came of it.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"series":{"endpoint":"e","target":"x","module":"m","prefix":"cold","from":1,"at":[10,5],"ttft":[1,-1],"tpot":[2,-1],"outcomes":[{"outcome":"success","n":2}]}}`))
	f.Add([]byte(`{"restarts":[1,2,3]}`))
	f.Add([]byte(`{"series":{"endpoint":"e","module":"m","from":-9223372036854775808,"at":[9223372036854775807,9223372036854775807]}}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		l := newLab(t)
		if l.board.Restore(record) != nil {
			return
		}
		e := configured("e")
		l.board.SetEndpoint(e)
		for id, r := range l.board.restored.All(l.board.now()) {
			r.target = l.board.endpoint("e").identityOfTarget()
			l.board.restored.Put(id, r, l.board.now())
			l.board.OpenSeries(id, pace())
		}
		p := l.open(cold("m"))[0]
		l.observe(p, "")
		if d := l.detail("e"); text(t, d) == "" {
			t.Error("no page")
		}
		l.restart()
	})
}

// BenchmarkSave is what the histories of 10,000 endpoints take, full as they are: the
// time to encode them and their size without compression.
func BenchmarkSave(b *testing.B) {
	const n = 10_000
	board, _, _ := benchBoard(n, maxPoints, benchConfigs(n))
	for b.Loop() {
		bytes := 0
		err := board.Save(func(record any) error {
			line, err := json.Marshal(record)
			bytes += len(line)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(bytes)/n, "B/endpoint")
	}
}
