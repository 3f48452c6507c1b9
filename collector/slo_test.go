package collector

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// strict is an SLO that success meets exactly.
func strict() config.SLO {
	return config.SLO{
		Objective: 0.95,
		TTFT:      model.Duration(200 * time.Millisecond),
		TPOT:      model.Duration(20 * time.Millisecond),
		E2E:       model.Duration(time.Second),
	}
}

// judge adds a result that was observed to the log of a series, and counts it, as the fleet
// does.
func judge(s *Series, r *result.Result) series.Judgement {
	if s.slo == nil {
		return series.Judgement{}
	}
	o := series.Observe(r, s.slo.Objectives, false, false)
	s.slo.log.Add(&o)
	s.slo.judge(o.Judgement)
	return o.Judgement
}

// counts are the eligible and bad probes of an objective.
type counts struct{ eligible, bad int }

var (
	none = counts{0, 0}
	good = counts{1, 0}
	bad  = counts{1, 1}
)

// hasCounts checks the counters of the series of newStore; availability, ttft,
// tpot and e2e in this order.
func hasCounts(t *testing.T, p *Probes, want [4]counts) {
	t.Helper()
	all := map[string]string{}
	for i, c := range want {
		own := fmt.Sprintf("slo=%q", []string{"availability", "ttft", "tpot", "e2e"}[i])
		all["probe_slo_eligible_total "+own] = fmt.Sprint(c.eligible)
		all["probe_slo_bad_total "+own] = fmt.Sprint(c.bad)
	}
	has(t, p, all)
}

// judged returns a store with one judged result.
func judged(change func(r *result.Result)) *Probes {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
	r := success()
	change(r)
	s.Observe(r)
	judge(s, r)
	return p
}

func TestJudgeSuccess(t *testing.T) {
	f := func(name string, change func(r *result.Result), want ...counts) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			hasCounts(t, judged(change), [4]counts(want))
		})
	}
	// Availability, TTFT, TPOT, duration.
	f("as slow as it may be", func(*result.Result) {}, good, good, good, good)
	f("late first token", func(r *result.Result) { r.Timing.TTFT++ }, good, bad, good, good)
	f("slow tokens", func(r *result.Result) { r.Timing.TPOT++ }, good, good, bad, good)
	f("long", func(r *result.Result) { r.Timing.Duration++ }, good, good, good, bad)
	f("two tokens", func(r *result.Result) { r.Timing.TPOT, r.Tokens.Output = time.Second, 2 }, good, good, none, good)
	f("three tokens", func(r *result.Result) { r.Timing.TPOT, r.Tokens.Output = time.Second, 3 }, good, good, bad, good)
	f("one token", func(r *result.Result) { r.Timing.TPOT = result.Absent }, good, good, none, good)
	f("fast", func(r *result.Result) { r.Timing.TTFT, r.Timing.TPOT, r.Timing.Duration = 0, 0, 0 }, good, good, good, good)
	f("slow", func(r *result.Result) {
		r.Timing.TTFT, r.Timing.TPOT, r.Timing.Duration = time.Minute, time.Second, time.Hour
	}, good, bad, bad, bad)
}

// A failure is bad whatever it measured, but for its first token, which came in
// time or did not. Its speed is not judged, unless it stalled.
func TestJudgeFailures(t *testing.T) {
	for _, o := range result.Outcomes() {
		tpot := none
		switch o {
		case result.Success:
			continue
		case result.Canceled:
			hasCounts(t, judged(func(r *result.Result) { r.Outcome = o }), [4]counts{})
			continue
		case result.TimeoutStall:
			tpot = bad
		}
		t.Run(string(o), func(t *testing.T) {
			hasCounts(t, judged(func(r *result.Result) {
				r.Outcome, r.Timing = o, result.Timing{
					TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, MaxGap: result.Absent, Duration: 10 * time.Millisecond,
				}
			}), [4]counts{bad, bad, tpot, bad})
			hasCounts(t, judged(func(r *result.Result) { r.Outcome = o }), [4]counts{bad, good, tpot, bad})
			hasCounts(t, judged(func(r *result.Result) { r.Outcome, r.Timing.TTFT = o, 201*time.Millisecond }), [4]counts{bad, bad, tpot, bad})
		})
	}
}

func TestObjectivesOnThePage(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	for name := range samples(t, p) {
		if strings.Contains(name, "slo_") || strings.Contains(name, "window") {
			t.Errorf("%s without objectives", name)
		}
	}
	s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
	hasCounts(t, p, [4]counts{})
	has(t, p, map[string]string{
		`slo_objective_ratio slo="availability"`:   "0.95",
		`slo_objective_ratio slo="ttft"`:           "0.95",
		`slo_objective_ratio slo="tpot"`:           "0.95",
		`slo_objective_ratio slo="e2e"`:            "0.95",
		`slo_threshold_seconds slo="availability"`: "",
		`slo_threshold_seconds slo="ttft"`:         "0.2",
		`slo_threshold_seconds slo="tpot"`:         "0.02",
		`slo_threshold_seconds slo="e2e"`:          "1",
	})

	// What is not promised is not there.
	s.configure(SeriesOptions{Objectives: series.NewObjectives(config.SLO{Objective: 0.99, TPOT: strict().TPOT}), Log: new(series.Log)})
	for name := range samples(t, p) {
		if strings.Contains(name, `slo="ttft"`) || strings.Contains(name, `slo="e2e"`) {
			t.Errorf("%s is not configured", name)
		}
	}
	has(t, p, map[string]string{
		`slo_objective_ratio slo="availability"`: "0.99", `slo_objective_ratio slo="tpot"`: "0.99", `slo_threshold_seconds slo="tpot"`: "0.02",
		`probe_slo_eligible_total slo="availability"`: "0", `probe_slo_bad_total slo="tpot"`: "0",
	})
}

// An endpoint that embeds has no tokens to wait for.
func TestObjectivesOfVectors(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Kind: api.Embedding, Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
	s.Observe(embedded())
	judge(s, embedded()) // takes 1.2 s
	for name := range samples(t, p) {
		if strings.Contains(name, `slo="t`) || strings.Contains(name, "window") {
			t.Errorf("%s of an endpoint that embeds", name)
		}
	}
	has(t, p, map[string]string{
		`probe_slo_eligible_total slo="availability"`: "1", `probe_slo_bad_total slo="availability"`: "0",
		`probe_slo_eligible_total slo="e2e"`: "1", `probe_slo_bad_total slo="e2e"`: "1", `slo_threshold_seconds slo="e2e"`: "1",
	})
	if n := s.slo.log.Window(time.Now()).Samples; n != 0 {
		t.Errorf("%d samples in the window", n)
	}
}

// Failures before anything is known of an endpoint count as soon as something
// is; another model begins at zero with the same objectives.
func TestObjectivesStay(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log)})
	r := failure()
	r.Kind, r.Model, r.Timing.TTFT = "", "", result.Absent
	observe := func(r *result.Result) {
		s.Observe(r)
		judge(s, r)
	}
	observe(r)
	for name := range samples(t, p) {
		if strings.Contains(name, `slo="t`) || strings.Contains(name, "window") {
			t.Errorf("%s while the kind is not known", name)
		}
	}
	observe(success())
	hasCounts(t, p, [4]counts{{2, 1}, {2, 1}, {1, 0}, {2, 1}})
	has(t, p, map[string]string{"probe_ttft_window_samples": "2"})

	other := success()
	other.Model = "m2"
	observe(other)
	observe(success())
	hasCounts(t, p, [4]counts{good, good, good, good})
	has(t, p, map[string]string{"probe_ttft_window_samples": "1", `slo_threshold_seconds slo="ttft"`: "0.2"})
}

// TestObjectivesForPyrra checks that what is printed for Pyrra, which selects an
// objective by excluding the others, knows all of them.
func TestObjectivesForPyrra(t *testing.T) {
	text, err := alerts.SLOs("pyrra", []alerts.SLO{{Endpoint: "a", Module: "b", SLO: "other", Objective: 0.9}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range series.ObjectiveNames() {
		if !strings.Contains(string(text), `slo!="`+name+`"`) {
			t.Errorf("nothing excludes %s:\n%s", name, text)
		}
	}
}

// windowLab is the window of a series on a clock that the test sets.
type windowLab struct {
	t     *testing.T
	now   time.Time
	store *Probes
	s     *Series
}

func newWindowLab(t *testing.T) *windowLab {
	t.Helper()
	l := &windowLab{t: t, now: epoch}
	l.store = NewProbes(func() time.Time { return l.now })
	l.s = l.store.Open(result.SeriesID{Endpoint: "e", Module: "i", Prefix: "cold"}, SeriesOptions{Objectives: series.NewObjectives(config.SLO{Objective: 0.99}), Log: new(series.Log)})
	return l
}

// probe adds a probe now; a negative TTFT is a failure.
func (l *windowLab) probe(ttft time.Duration) {
	r := success()
	r.Start, r.Timing.TTFT = l.now, ttft
	if ttft < 0 {
		r.Outcome = result.TimeoutFirstToken
	}
	l.s.Observe(r)
	judge(l.s, r)
}

// expect compares the page: samples, p50, p99, p99_lower and p99_upper.
func (l *windowLab) expect(samples int, want ...string) {
	l.t.Helper()
	all := map[string]string{"probe_ttft_window_samples": fmt.Sprint(samples)}
	for i, stat := range []string{"p50", "p99", "p99_lower", "p99_upper"} {
		all[fmt.Sprintf("probe_ttft_window_seconds stat=%q", stat)] = want[i]
	}
	has(l.t, l.store, all)
}

func TestWindow(t *testing.T) {
	l := newWindowLab(t)
	l.s.setServed(api.Generation, "m")
	l.expect(0, "", "", "", "")
	for i := range 299 { // 1 to 299 ms, every 10 s, in no order
		l.probe(time.Duration(i*100%299+1) * time.Millisecond)
		l.now = l.now.Add(10 * time.Second)
		switch i + 1 {
		case 1:
			l.expect(1, "", "", "0.001", "")
		case 9: // 1, 101, 201, 2, 102, 202, 3, 103, 203
			l.expect(9, "", "", "0.202", "")
		case 10: // and 4
			l.expect(10, "0.101", "", "0.202", "")
		case 298: // all but the last, 200
			l.expect(298, "0.149", "0.297", "0.293", "")
		}
	}
	l.expect(299, "0.15", "0.297", "0.293", "0.299")
}

// Where the page has no window, there is none.
func TestNoWindow(t *testing.T) {
	store := NewProbes(time.Now)
	for name, o := range map[string]SeriesOptions{
		"no objectives": {Kind: api.Generation},
		"embeds":        {Kind: api.Embedding, Objectives: series.NewObjectives(config.SLO{Objective: 0.99}), Log: new(series.Log)},
		"unknown kind":  {Objectives: series.NewObjectives(config.SLO{Objective: 0.99}), Log: new(series.Log)},
	} {
		store.Open(result.SeriesID{Endpoint: name}, o)
	}
	for name := range samples(t, store) {
		if strings.Contains(name, "window") {
			t.Errorf("the page has %s", name)
		}
	}
}

// A failure before the first token is slower than any success: it moves the
// statistics, and what falls on it is not known.
func TestWindowFailures(t *testing.T) {
	l := newWindowLab(t)
	for i := range 100 {
		l.probe(time.Duration(i+1) * time.Millisecond)
	}
	l.expect(100, "0.05", "0.099", "0.097", "")
	l.probe(result.Absent)
	l.expect(101, "0.051", "0.1", "0.098", "")
	l.probe(result.Absent) // of 102, the 101st is one
	l.expect(102, "0.051", "", "0.099", "")
	l.probe(result.Absent)
	l.expect(103, "0.052", "", "0.1", "")
	l.probe(2 * time.Hour) // no better than none
	l.expect(104, "0.052", "", "", "")
	for range 120 {
		l.probe(result.Absent)
	}
	l.expect(224, "", "", "", "")
}

// A failure after the first token had one.
func TestWindowKeepsTokensOfFailures(t *testing.T) {
	l := newWindowLab(t)
	r := success()
	r.Outcome = result.Truncated
	l.s.Observe(r)
	judge(l.s, r)
	l.expect(1, "", "", "0.2", "")
}

func TestWindowForgets(t *testing.T) {
	l := newWindowLab(t)
	l.probe(time.Second)
	l.now = epoch.Add(30 * time.Minute)
	l.probe(2 * time.Second)
	l.now = epoch.Add(time.Hour - time.Second)
	l.expect(2, "", "", "2", "")
	l.now = epoch.Add(time.Hour)
	l.expect(1, "", "", "2", "")
	l.now = epoch.Add(90 * time.Minute)
	l.expect(0, "", "", "", "")
	l.probe(3 * time.Second)
	l.expect(1, "", "", "3", "")
}

// A window of many probes keeps the latest ones and does not grow.
func TestWindowIsBounded(t *testing.T) {
	l := newWindowLab(t)
	for i := range 5000 {
		l.probe(time.Duration(i+1) * time.Millisecond)
		l.now = l.now.Add(100 * time.Millisecond)
	}
	// 3.977 to 5 s; the 512th, 1,014th, 1,008th and 1,020th of them.
	l.expect(1024, "4.488", "4.99", "4.984", "4.996")
}
