package fleet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const kneeFamily = "inference_probe_burst_knee_concurrency"

// burstLab is a fleet that asks a server bursts under an objective of TTFT.
func burstLab(t *testing.T, url, levels string, input, output int, ttft time.Duration) *lab {
	t.Helper()
	return workLab(t, fmt.Sprintf(`
modules: {burst: {input_tokens: %d, output_tokens: %d, concurrency: %s, slo: {ttft: %s}}}
endpoints: [{name: e, url: %s, modules: [burst]}]`, input, output, levels, ttft, url))
}

// splitLevels splits the latest requests of a server into those of each level.
func splitLevels(t *testing.T, all []simulator.Record, levels ...int) map[int][]simulator.Record {
	t.Helper()
	sum := 0
	for _, n := range levels {
		sum += n
	}
	if len(all) < sum {
		t.Fatalf("%d requests, want %d at least", len(all), sum)
	}
	all = all[len(all)-sum:]
	split := map[int][]simulator.Record{}
	for _, n := range levels {
		split[n], all = all[:n], all[n:]
	}
	return split
}

// kneeOf is the first level at which the nearest-rank 90th percentile of the
// waits at the server exceeds the objective; 0 is none.
func kneeOf(split map[int][]simulator.Record, levels []int, objective time.Duration) int {
	for _, n := range levels {
		var waits []float64
		for i := range split[n] {
			waits = append(waits, firstToken(&split[n][i]))
		}
		slices.Sort(waits)
		if rank := int(math.Ceil(0.9 * float64(n))); waits[rank-1] > objective.Seconds() {
			return n
		}
	}
	return 0
}

// outputRate is what a burst put out, from its first arrival to its last event.
func outputRate(burst []simulator.Record) float64 {
	first, last, tokens := burst[0].Arrival, time.Time{}, 0
	for i := range burst {
		r := &burst[i]
		if r.Arrival.Before(first) {
			first = r.Arrival
		}
		for _, e := range r.Events {
			if e.At.After(last) {
				last = e.At
			}
		}
		tokens += r.OutputTokens
	}
	return float64(tokens) / last.Sub(first).Seconds()
}

// The knee is where the server's arithmetic puts it, once by its prefill and once
// by its slots.
func TestBurstKneeAgainstTheSimulator(t *testing.T) {
	levels := []int{1, 2, 4, 8, 16}
	slots := testlab.Brisk()
	slots.Slots, slots.PrefillTokensPerSecond, slots.DecodeStep = 4, 1e6, 4*time.Millisecond
	for name, tc := range map[string]struct {
		options       simulator.Options
		input, output int
		objective     time.Duration
		want          int
	}{
		// A step computes 512 tokens of prompts and takes 12.8 ms for them, and 5
		// for tokens: of n prompts of 512 the k-th has its first token after k ×
		// 17.8 ms. Nine tenths of 4 need 71 ms, of 8 142.
		"prefill": {testlab.Brisk(), 512, 2, 100 * time.Millisecond, 8},
		// Four run at once, for 12 × 4 ms. Of 8 requests four wait for that.
		"slots": {slots, 64, 12, 30 * time.Millisecond, 8},
	} {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				w := testlab.NewWitness(t, tc.options)
				l := burstLab(t, w.URL, "[1, 2, 4, 8, 16]", tc.input, tc.output, tc.objective)
				l.times(1, "e") // finds the length
				p := l.times(1, "e")
				split := splitLevels(t, w.Records(), levels...)
				if knee := kneeOf(split, levels, tc.objective); knee != tc.want {
					t.Errorf("the server had its knee at %d, want %d", knee, tc.want)
				}
				checkKnee(t, p, tc.want)
				checkBursts(t, p, split)
			})
		})
	}
}

// checkKnee wants the knee where the server had it.
func checkKnee(t *testing.T, p metricsPage, want int) {
	t.Helper()
	knee := int(p.Sum(kneeFamily))
	if knee != want {
		t.Errorf("knee at %d, want %d", knee, want)
	}
	const ofKnee, ofLevel = "inference_probe_burst_knee_tokens_per_second", "inference_probe_burst_output_tokens_per_second"
	if got, want := p.Sum(ofKnee), p.Sum(ofLevel, "concurrency", strconv.Itoa(knee)); got != want || got == 0 {
		t.Errorf("%v tokens/s at the knee, want %v", got, want)
	}
}

// checkBursts compares each burst of the latest run with the server's records.
func checkBursts(t *testing.T, p metricsPage, split map[int][]simulator.Record) {
	t.Helper()
	for n, records := range split {
		level := []string{"concurrency", strconv.Itoa(n)}
		rate, want := p.Sum("inference_probe_burst_output_tokens_per_second", level...), outputRate(records)
		if math.Abs(rate/want-1) > 0.001 {
			t.Errorf("%v tokens/s at %d, the server gave %v", rate, n, want)
		}
		if failed := "inference_probe_burst_failed"; p.Sum(failed, level...) != 0 || !p.Has(failed, level...) {
			t.Errorf("%v of %d failed", p.Sum(failed, level...), n)
		}
		first, last := records[0].Arrival, records[0].Arrival
		for i := range records {
			if at := records[i].Arrival; at.Before(first) {
				first = at
			} else if at.After(last) {
				last = at
			}
		}
		spread := p.Sum("inference_probe_burst_start_spread_seconds", level...)
		t.Logf("%2d at once: %.0f tokens/s, at the server %.0f; sent within %.0f µs, read by the server within %.0f µs",
			n, rate, want, 1e6*spread, 1e6*last.Sub(first).Seconds())
		if spread != 0 {
			t.Errorf("a burst of %d spread over %v s", n, spread)
		}
	}
	for _, family := range []string{
		"inference_probe_slo_eligible_total", "inference_probe_slo_bad_total", "inference_slo_threshold_seconds", "inference_slo_objective_ratio",
	} {
		if p.Has(family, "module", "burst") {
			t.Errorf("%s of bursts, which nothing judges", family)
		}
	}
}

// A burst that is turned away in part is the last one of its run.
func TestBurstsEndAtARefusal(t *testing.T) {
	o := testlab.Brisk()
	o.Slots, o.QueueLimit = 2, 1
	for name, tc := range map[string]struct {
		server  simulator.Options
		path    string
		last    int // the last level that is asked
		failed  int // of which so many fail
		outcome result.Outcome
	}{
		"queue full (503)": {o, "", 4, 1, result.Overloaded},
		"rate limit (429)": {testlab.Brisk(), "/fault/status_429", 1, 1, result.RateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				w := testlab.NewWitness(t, tc.server)
				l := burstLab(t, w.URL+tc.path, "[1, 2, 4, 8]", 64, 16, time.Second)
				p := l.times(1, "e")
				asked := 0
				for _, n := range []int{1, 2, 4, 8} {
					level := []string{"concurrency", strconv.Itoa(n)}
					want := 0.0
					if n == tc.last {
						want = float64(tc.failed)
					}
					if got := p.Sum("inference_probe_burst_failed", level...); got != want {
						t.Errorf("%v of %d failed, want %v", got, n, want)
					}
					if p.Has("inference_probe_burst_failed", level...) != (n <= tc.last) {
						t.Errorf("a burst of %d on the page: %t", n, n > tc.last)
					}
					if n <= tc.last {
						asked += n
					}
				}
				if got := w.Requests(); got != asked {
					t.Errorf("%d requests reached the server, want %d", got, asked)
				}
				if got := p.Sum("inference_probe_results_total", "outcome", string(tc.outcome)); got != float64(tc.failed) {
					t.Errorf("%v results of %s, want %d", got, tc.outcome, tc.failed)
				}
				if got := p.Sum(kneeFamily); got != float64(tc.last) {
					t.Errorf("knee at %v, want %d: it turned requests away", got, tc.last)
				}
			})
		})
	}
}
