package app

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/schedule"
)

// sloCounts are the eligible and bad probes of one objective.
type sloCounts struct{ Eligible, Bad float64 }

// sloLab is a fleet against a server that takes 200 ms for the first token of a
// probe, and at least 20 ms for each further one.
func sloLab(t *testing.T) *lab {
	s := httptest.NewServer(simulator.New(simulator.Options{
		DecodeStep: 20 * time.Millisecond, PrefillTokensPerSecond: 320, Seed: 1,
	}).Handler())
	t.Cleanup(s.Close)
	l := newLab(t)
	cfg := parse(t, fmt.Sprintf(`
modules:
  lenient: {input_tokens: 64, output_tokens: 8}
  strict: {input_tokens: 64, output_tokens: 8, slo: {objective: 0.9, ttft: 50ms, tpot: 5ms, e2e: 100ms}}
  plain: {input_tokens: 64, output_tokens: 8, slo: {}}
endpoints:
  - {name: healthy, url: %[1]s, model: simulated-8b, modules: [lenient, strict, plain], slo: {ttft: 30s, tpot: 30s, e2e: 30s}}
  - {name: broken, url: %[1]s/fault/status_500/v1, api: openai-chat, model: simulated-8b, modules: [lenient], slo: {ttft: 30s, tpot: 30s}}
`, s.URL))
	if err := l.apply(plan{cfg: cfg, endpoints: cfg.Endpoints}); err != nil {
		t.Fatal(err)
	}
	return l
}

// run probes an endpoint with all its modules.
func (l *lab) run(name string, r schedule.Run) {
	for _, t := range l.members[name].tasks {
		t.probe(l.t.Context(), r)
	}
}

// wantSLO compares what is counted of an endpoint and module.
func (l *lab) wantSLO(endpoint, module string, want map[string]sloCounts) {
	l.t.Helper()
	got, p := map[string]sloCounts{}, l.page()
	for _, slo := range []string{"availability", "ttft", "tpot", "e2e"} {
		labels := []string{"endpoint", endpoint, "module", module, "slo", slo}
		if p.has("inference_probe_slo_eligible_total", labels...) {
			got[slo] = sloCounts{p.sum("inference_probe_slo_eligible_total", labels...), p.sum("inference_probe_slo_bad_total", labels...)}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("%s with %s (-want +got):\n%s", endpoint, module, diff)
	}
}

func TestSLOEndToEnd(t *testing.T) {
	l := sloLab(t)
	l.wantSLO("broken", "lenient", map[string]sloCounts{"availability": {}, "ttft": {}, "tpot": {}}) // at zero from the start
	for range 2 {
		l.run("healthy", schedule.Run{Scheduled: time.Now()})
	}
	p := l.page()
	timed := func(module string) float64 { // not imprecise, as on a busy machine
		return 2 - p.sum("inference_probe_imprecise_total", "endpoint", "healthy", "module", module)
	}
	up, met, missed := sloCounts{2, 0}, sloCounts{timed("lenient"), 0}, sloCounts{timed("strict"), timed("strict")}
	l.wantSLO("healthy", "lenient", map[string]sloCounts{"availability": up, "ttft": met, "tpot": met, "e2e": met})
	l.wantSLO("healthy", "strict", map[string]sloCounts{"availability": up, "ttft": missed, "tpot": missed, "e2e": missed})
	l.wantSLO("healthy", "plain", map[string]sloCounts{"availability": up})

	f := func(family string, want float64, labels ...string) {
		t.Helper()
		if got := p.sum(family, append(labels, "endpoint", "healthy")...); got != want {
			t.Errorf("%s of %s = %v, want %v", family, labels, got, want)
		}
	}
	f("inference_slo_threshold_seconds", 30, "module", "lenient", "slo", "ttft")
	f("inference_slo_threshold_seconds", 0.005, "module", "strict", "slo", "tpot")
	f("inference_slo_objective_ratio", 0.99, "module", "lenient", "slo", "e2e")
	f("inference_slo_objective_ratio", 0.9, "module", "strict", "slo", "availability")
	f("inference_probe_ttft_window_samples", timed("plain"), "module", "plain")
	if timed("plain") > 0 && p.sum("inference_probe_ttft_window_seconds", "endpoint", "healthy", "module", "plain", "stat", "p99_lower") < 0.2 {
		t.Error("the window has not the time to first token")
	}
}

// Confirmations come only after failures, so they would make a blip three times
// as bad as it was. They are results like others, and no more.
func TestConfirmationsAreNotJudged(t *testing.T) {
	l := sloLab(t)
	l.run("broken", schedule.Run{Scheduled: time.Now()})
	for range 2 {
		l.run("broken", schedule.Run{Scheduled: time.Now(), Confirm: true})
	}
	bad := sloCounts{1, 1}
	l.wantSLO("broken", "lenient", map[string]sloCounts{"availability": bad, "ttft": bad, "tpot": {}})
	p := l.page()
	if got := p.probes("broken"); got != 3 {
		t.Errorf("%v results, want 3", got)
	}
	if got := p.sum("inference_probe_ttft_window_samples", "endpoint", "broken"); got != 1 {
		t.Errorf("%v samples in the window, want 1", got)
	}
	l.run("broken", schedule.Run{Scheduled: time.Now()})
	l.wantSLO("broken", "lenient", map[string]sloCounts{"availability": {2, 2}, "ttft": {2, 2}, "tpot": {}})
}
