package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// recordOf returns what is saved of a series.
func recordOf(t failer, p *Probes) string {
	t.Helper()
	var s SavedSeries
	p.Save(&s)
	return text(t, s)
}

// restart makes the lab one of a new process, which has read what this one saved.
func (l *lab) restart() {
	l.t.Helper()
	before := l.board
	l.board = newWatched(func() time.Time { return l.now })
	for id, p := range before.series {
		l.board.saved[id] = savedOf{targetOf(p.endpoint.cfg), recordOf(l.t, p.Probes)}
	}
	l.board.RestoreRestarts(before.Restarts())
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
	if len(h.At) != series.MaxPoints || h.At[0] != before.At[1] || h.At[series.MaxPoints-1] != float64(restart) {
		t.Errorf("%d points from %v to %v", len(h.At), h.At[0], h.At[series.MaxPoints-1])
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
	if n := len(l.board.Restarts()); n != maxRestarts {
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
	got := recordOf(t, p.Probes)
	if strings.Contains(got, "secret") || !strings.Contains(got, string(result.HTTPError)) {
		t.Errorf("saved %s", got)
	}
}

// A record that Save does not make is rejected as a whole.
func TestRestoreRejects(t *testing.T) {
	good := `{"from":1,"at":[10,5],"ttft":[1,-1],"tpot":[2,-1],"outcomes":[{"outcome":"success","n":1},{"outcome":"empty","n":1}]}`
	replace := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	restore := func(record string) error {
		var s SavedSeries
		if err := json.Unmarshal([]byte(record), &s); err != nil {
			return err
		}
		_, err := s.Restore(epoch())
		return err
	}
	for _, record := range []string{
		``, `[]`, `5`,
		replace(`[10,5]`, `[10]`), replace(`[1,-1]`, `[1,-1,3]`), replace(`[2,-1]`, `[]`), replace(`[10,5]`, `[10,5.5]`),
		replace(`"n":1}]`, `"n":2}]`), replace(`"n":1}]`, `"n":1000000000000}]`), replace(`"n":1},{`, `"n":0},{`), replace(`"n":1},{`, `"n":-1},{`),
		replace(`[10,5]`, "["+strings.Repeat("1,", series.MaxPoints)+"1]"),
	} {
		if restore(record) == nil {
			t.Errorf("accepted %s", record)
		}
	}
	// An outcome that this version does not know leaves its probes out, and so does a
	// time that no clock shows.
	for _, record := range []string{good, replace(`"empty"`, `"later"`), replace(`[10,5]`, `[10,9000000000000000000]`)} {
		if err := restore(record); err != nil {
			t.Error(err)
		}
	}
}

// FuzzRestore restores any record, opens its series, and saves what came of it.
func FuzzRestore(f *testing.F) {
	f.Add(`{"from":1,"at":[10,5],"ttft":[1,-1],"tpot":[2,-1],"outcomes":[{"outcome":"success","n":2}]}`)
	f.Add(`{"from":-9223372036854775808,"at":[9223372036854775807,9223372036854775807]}`)
	f.Fuzz(func(t *testing.T, record string) {
		l := newLab(t)
		id := cold("m")
		id.Endpoint = "e"
		l.board.saved[id] = savedOf{targetOf(configured("e")), record}
		l.observe(l.open(id)[0], "")
		if d := l.detail("e"); text(t, d) == "" {
			t.Error("no page")
		}
		l.restart()
	})
}

// BenchmarkSave is what the histories of 10,000 endpoints take, full as they are: the
// time to encode them and their size without compression.
func BenchmarkSave(b *testing.B) {
	n := many()
	_, all, _ := benchBoard(n, series.MaxPoints, benchConfigs(n))
	for b.Loop() {
		bytes := 0
		var s SavedSeries
		for _, p := range all {
			p.Save(&s)
			bytes += len(text(b, s))
		}
		b.ReportMetric(float64(bytes)/float64(n), "B/endpoint")
	}
}
