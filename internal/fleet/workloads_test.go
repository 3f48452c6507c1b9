package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// The tests of workloads hold the page of metrics against what a simulated
// server knows that it did. They run in virtual time.

// firstToken is how long a request waited for its first token, in seconds.
func firstToken(r *simulator.Record) float64 {
	for _, e := range r.Events {
		if e.Tokens > 0 {
			return e.At.Sub(r.Arrival).Seconds()
		}
	}
	return 0
}

// workLab is a fleet by a configuration, whose tasks the test runs.
func workLab(t *testing.T, text string) *lab {
	t.Helper()
	l, cfg := newLab(t), parse(t, text)
	if err := l.Apply(planOf(cfg)); err != nil {
		t.Fatal(err)
	}
	return l
}

// times runs all modules of an endpoint n times, one after the other.
func (l *lab) times(n int, endpoint string) metricsPage {
	l.t.Helper()
	for range n {
		l.run(endpoint, schedule.Run{Scheduled: time.Now()})
	}
	return l.page()
}

// until goes on with that until the page is as wanted, up to most times.
func (l *lab) until(most int, endpoint, what string, wanted func(metricsPage) bool) metricsPage {
	l.t.Helper()
	for range most {
		if p := l.times(1, endpoint); wanted(p) {
			return p
		}
	}
	l.t.Fatalf("no %s after %d more runs", what, most)
	return nil
}

// interval is an estimate on the page with its bounds.
type interval struct{ value, lower, upper float64 }

// intervalOf returns the one of a family, which must be there with both bounds.
func intervalOf(t *testing.T, p metricsPage, family string, labels ...string) interval {
	t.Helper()
	get := func(stat string) float64 {
		with := append(slices.Clone(labels), "stat", stat)
		if !p.Has(family, with...) {
			t.Errorf("%s of %s is not there", family, with)
		}
		return p.Sum(family, with...)
	}
	return interval{get("estimate"), get("lower"), get("upper")}
}

// encloses reports whether the bounds enclose a value, with their distance from the
// estimate stretched by a factor: bounds of 95 % miss the truth once in twenty
// runs of a test, and those of twice the distance once in some 10,000.
func (i interval) encloses(v, factor float64) bool {
	return v >= i.value-factor*(i.value-i.lower) && v <= i.value+factor*(i.upper-i.value)
}

// medianOf returns the median of values, of which there must be some.
func medianOf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// logRelative logs a figure beside the truth.
func logRelative(t *testing.T, what string, got, want float64) {
	t.Helper()
	t.Logf("%s: %s, true %s (%+.2f %%)", what, fmt.Sprintf("%.6g", got), fmt.Sprintf("%.6g", want), 100*(got/want-1))
}

// Every built-in module asks what it says, once, and without an error.
func TestPresetsAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	type shape struct {
		context  int
		endpoint string
		requests int // of one run
		skipped  int // lengths that the model has no room for
		output   int // tokens of each answer
	}
	shapes := map[string]shape{
		"interactive":     {16_384, "", 1, 0, 64},
		"rag":             {16_384, "", 1, 0, 128},
		"agent":           {16_384, "", 2, 0, 128}, // a pair
		"code-completion": {16_384, "", 1, 0, 32},
		"batch":           {16_384, "", 1 + 8 + 32, 0, 256},
		"long-context":    {8192, "", 2, 2, 32}, // 1000 and 8000; not 32,000 and 128,000
		"embedding":       {16_384, ", api: openai-embeddings", 1, 0, 0},
		"tool-call":       {16_384, "", 1, 0, 10}, // the name, and 35 bytes of arguments
		"structured":      {16_384, "", 1, 0, 16}, // 63 bytes
	}
	for _, preset := range config.Presets() {
		t.Run(preset.Name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				want, ok := shapes[preset.Name]
				if !ok {
					t.Fatal("a built-in module that no test knows")
				}
				o := testlab.Swift()
				o.ContextLength = want.context
				w := testlab.NewWitness(t, o)
				p := workLab(t, fmt.Sprintf("endpoints: [{name: e, url: %s, modules: [%s]%s}]", w.URL, preset.Name, want.endpoint)).times(1, "e")
				if good, all := p.Sum("inference_probe_results_total", "outcome", "success"), p.Probes("e"); good != float64(want.requests) || all != good {
					t.Errorf("%v of %v requests succeeded, want %d", good, all, want.requests)
				}
				if skipped := p.Sum(skippedFamily); skipped != float64(want.skipped) || p.Sum(skippedFamily, "reason", "context_length") != skipped {
					t.Errorf("%v lengths were left out, want %d", skipped, want.skipped)
				}
				all := w.Records()
				if len(all) != want.requests {
					t.Errorf("%d requests, want %d", len(all), want.requests)
				}
				for i := range all {
					if all[i].OutputTokens != want.output || want.output > 0 && all[i].PromptTokens == 0 {
						t.Errorf("request %d: %d tokens answered with %d, want %d", i, all[i].PromptTokens, all[i].OutputTokens, want.output)
					}
				}
			})
		})
	}
}
