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
	if s.values.slo == nil {
		return series.Judgement{}
	}
	o := series.Observe(r, s.values.slo.Objectives, false, false)
	s.values.slo.log.Add(&o)
	s.Judge(o.Judgement)
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
	if n := s.values.slo.log.WindowSamples(time.Now()); n != 0 {
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
	text, err := alerts.Pyrra([]alerts.SLO{{Endpoint: "a", Module: "b", SLO: "other", Objective: 0.9}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range series.ObjectiveNames() {
		if !strings.Contains(string(text), `slo!="`+name+`"`) {
			t.Errorf("nothing excludes %s:\n%s", name, text)
		}
	}
}
