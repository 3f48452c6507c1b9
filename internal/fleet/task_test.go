package fleet

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// What came of a run, in the words of the schedule.
func TestReportOf(t *testing.T) {
	f := func(want schedule.Report, results ...*result.Result) {
		t.Helper()
		if diff := cmp.Diff(want, reportOf(results)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	of := func(o result.Outcome, concurrency int) *result.Result {
		return &result.Result{Outcome: o, Concurrency: concurrency, RetryAfter: result.Absent}
	}
	f(schedule.Report{Skipped: true})
	f(schedule.Report{}, of(result.Success, 0))
	f(schedule.Report{}, of(result.Canceled, 0))
	f(schedule.Report{Failed: true}, of(result.ConnectError, 0))
	f(schedule.Report{Failed: true}, of(result.Success, 0), of(result.Truncated, 0))
	for _, o := range []result.Outcome{result.TimeoutConnect, result.TimeoutFirstToken, result.TimeoutStall, result.TimeoutTotal} {
		f(schedule.Report{Failed: true, TimedOut: true}, of(o, 0))
		f(schedule.Report{TimedOut: true}, of(result.Success, 4), of(o, 4)) // a burst is no sign of an outage
	}
	asked := of(result.RateLimited, 0)
	asked.RetryAfter = time.Minute
	f(schedule.Report{Failed: true, RetryAfter: time.Minute}, asked)
}

func TestBurstLoad(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var l burstLoad
	want := func(what string, disturbed bool, start time.Duration, concurrency int) {
		t.Helper()
		if got := l.disturbed(&result.Result{Start: noon.Add(start), Concurrency: concurrency}); got != disturbed {
			t.Errorf("%s: disturbed %t, want %t", what, got, disturbed)
		}
	}
	want("no burst ever", false, 0, 0)
	l.begin()
	l.begin()
	want("beside a burst", true, 0, 0)
	want("a burst itself", false, 0, 4)
	l.end(func() time.Time { return noon })
	want("beside the other burst", true, time.Second, 0)
	l.end(func() time.Time { return noon.Add(time.Minute) })
	want("begun before the last one ended", true, 59*time.Second, 0)
	want("begun after it", false, 61*time.Second, 0)
}

// What a series shows of the latest burst is a failure where there was one.
func TestFailuresLast(t *testing.T) {
	r := func(n int, o result.Outcome) *result.Result { return &result.Result{Concurrency: n, Outcome: o} }
	var got []string
	for _, x := range failuresLast([]*result.Result{
		r(1, result.Success), r(2, result.Overloaded), r(2, result.Success), r(4, result.Truncated), r(4, result.Success),
	}) {
		got = append(got, string(x.Outcome))
	}
	if text := strings.Join(got, " "); text != "success success overloaded success truncated" {
		t.Errorf("order %q", text)
	}
}

// newTestLog returns the log of a task that writes to w.
func newTestLog(w io.Writer, bursts bool) *taskLog {
	m := &config.Module{}
	if bursts {
		m.Concurrency = []int{1, 16}
	}
	return &taskLog{task: &task{
		Target:   Target{Endpoint: &config.Endpoint{}, Rung: config.Rung{Module: m}},
		endpoint: &endpoint{fleet: &Fleet{Options: Options{Logger: slog.New(slog.NewTextHandler(w, nil))}}},
	}}
}

// Bursts that fail at their largest size each time are one line, and so is the first
// success of anything else: failures are in the log of incidents.
func TestOneLineForARun(t *testing.T) {
	f := func(name string, lines int, runs ...[]*result.Result) {
		t.Helper()
		var log bytes.Buffer
		tl := newTestLog(&log, runs[0][0].Concurrency > 0)
		for _, run := range runs {
			tl.run(run)
		}
		if got := strings.Count(log.String(), "msg="); got != lines {
			t.Errorf("%s: %d lines, want %d:\n%s", name, got, lines, &log)
		}
	}
	r := func(n int, o result.Outcome) *result.Result { return &result.Result{Concurrency: n, Outcome: o} }
	burst := []*result.Result{r(1, result.Success), r(16, result.Success), r(16, result.Overloaded)}
	f("bursts", 1, burst, burst, burst)
	failed := []*result.Result{r(1, result.Overloaded)}
	f("bursts down and up", 3, burst, failed, failed, burst)
	pair := []*result.Result{r(0, result.Success), r(0, result.TimeoutStall)}
	f("pairs", 0, pair, pair, pair)
	f("down and up", 1, pair, []*result.Result{r(0, result.Success)}, pair, []*result.Result{r(0, result.Success), r(0, result.Success)})
}

// An outage spends nothing: what was refused was not computed.
func TestRefusalsCostNothing(t *testing.T) {
	budget := schedule.NewBudget(15000, 0, time.Now)
	s := newSpending(&config.Endpoint{}, &config.Module{InputTokens: config.Tokens(1000), OutputTokens: config.Tokens(100)},
		[]limit{budget})
	used := func(status int) float64 {
		t.Helper()
		if !s.reserve() {
			t.Fatal("no room")
		}
		r := &result.Result{Sent: time.Now(), Status: status, Tokens: result.Tokens{Prompt: -1, Cached: -1, Output: -1}}
		s.settle([]*result.Result{r})
		share, _ := budget.Used()
		return share
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusUnauthorized} {
		if got := used(status); got != 0 {
			t.Errorf("after status %d a share of %v is used", status, got)
		}
	}
	// 1.5 x 1000 + 64 tokens of prompt and 100 of the answer, of 15,000.
	if got, want := used(http.StatusOK), 1664.0/15000; got != want {
		t.Errorf("after an answer without counts a share of %v is used, want %v", got, want)
	}
}

// sloCounts are the eligible and bad probes of one objective.
type sloCounts struct{ Eligible, Bad float64 }

// sloLab is a fleet against a server that takes 200 ms for the first token of a
// probe, and at least 20 ms for each further one.
func sloLab(t *testing.T) *lab {
	url := testlab.Serve(t, simulator.New(simulator.Options{
		DecodeStep: 20 * time.Millisecond, PrefillTokensPerSecond: 320, Seed: 1,
	}).Handler())
	l := newLab(t)
	cfg := parse(t, fmt.Sprintf(`
modules:
  lenient: {input_tokens: 64, output_tokens: 8}
  strict: {input_tokens: 64, output_tokens: 8, slo: {objective: 0.9, ttft: 50ms, tpot: 5ms, e2e: 100ms}}
  plain: {input_tokens: 64, output_tokens: 8, slo: {}}
endpoints:
  - {name: healthy, url: %[1]s, model: simulated-8b, modules: [lenient, strict, plain], slo: {ttft: 30s, tpot: 30s, e2e: 30s}}
  - {name: broken, url: %[1]s/fault/status_500/v1, api: openai-chat, model: simulated-8b, modules: [lenient], slo: {ttft: 30s, tpot: 30s}}
`, url))
	if err := l.Apply(planOf(cfg)); err != nil {
		t.Fatal(err)
	}
	return l
}

// run probes an endpoint with all its modules.
func (l *lab) run(name string, r schedule.Run) {
	for _, t := range l.active.Load().endpoints[name].tasks {
		t.probe(l.ctx(), r)
	}
}

// wantSLO compares what is counted of an endpoint and module.
func (l *lab) wantSLO(endpoint, module string, want map[string]sloCounts) {
	l.t.Helper()
	got, p := map[string]sloCounts{}, l.page()
	for _, slo := range []string{"availability", "ttft", "tpot", "e2e"} {
		labels := []string{"endpoint", endpoint, "module", module, "slo", slo}
		if p.Has("inference_probe_slo_eligible_total", labels...) {
			got[slo] = sloCounts{p.Sum("inference_probe_slo_eligible_total", labels...), p.Sum("inference_probe_slo_bad_total", labels...)}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("%s with %s (-want +got):\n%s", endpoint, module, diff)
	}
}

func TestSLOEndToEnd(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		l := sloLab(t)
		l.wantSLO("broken", "lenient", map[string]sloCounts{"availability": {}, "ttft": {}, "tpot": {}}) // at zero from the start
		for range 2 {
			l.run("healthy", schedule.Run{Scheduled: time.Now()})
		}
		p := l.page()
		up, met, missed := sloCounts{2, 0}, sloCounts{2, 0}, sloCounts{2, 2}
		l.wantSLO("healthy", "lenient", map[string]sloCounts{"availability": up, "ttft": met, "tpot": met, "e2e": met})
		l.wantSLO("healthy", "strict", map[string]sloCounts{"availability": up, "ttft": missed, "tpot": missed, "e2e": missed})
		l.wantSLO("healthy", "plain", map[string]sloCounts{"availability": up})

		f := func(family string, want float64, labels ...string) {
			t.Helper()
			if got := p.Sum(family, append(labels, "endpoint", "healthy")...); got != want {
				t.Errorf("%s of %s = %v, want %v", family, labels, got, want)
			}
		}
		f("inference_slo_threshold_seconds", 30, "module", "lenient", "slo", "ttft")
		f("inference_slo_threshold_seconds", 0.005, "module", "strict", "slo", "tpot")
		f("inference_slo_objective_ratio", 0.99, "module", "lenient", "slo", "e2e")
		f("inference_slo_objective_ratio", 0.9, "module", "strict", "slo", "availability")
		f("inference_probe_ttft_window_samples", 2, "module", "plain")
		if p.Sum("inference_probe_ttft_window_seconds", "endpoint", "healthy", "module", "plain", "stat", "p99_lower") < 0.2 {
			t.Error("the window has not the time to first token")
		}
	})
}

// Confirmations come only after failures, so they would make a blip three times
// as bad as it was. They are results like others, and no more.
func TestConfirmationsAreNotJudged(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		l := sloLab(t)
		l.run("broken", schedule.Run{Scheduled: time.Now()})
		for range 2 {
			l.run("broken", schedule.Run{Scheduled: time.Now(), Confirm: true})
		}
		bad := sloCounts{1, 1}
		l.wantSLO("broken", "lenient", map[string]sloCounts{"availability": bad, "ttft": bad, "tpot": {}})
		p := l.page()
		if got := p.Probes("broken"); got != 3 {
			t.Errorf("%v results, want 3", got)
		}
		if got := p.Sum("inference_probe_ttft_window_samples", "endpoint", "broken"); got != 1 {
			t.Errorf("%v samples in the window, want 1", got)
		}
		l.run("broken", schedule.Run{Scheduled: time.Now()})
		l.wantSLO("broken", "lenient", map[string]sloCounts{"availability": {2, 2}, "ttft": {2, 2}, "tpot": {}})
	})
}
