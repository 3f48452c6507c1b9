package fleet

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// A long prompt delays the first token of a short one by all that is left of its prefill where a step computes one prompt
// after the other, and by no more than steps of both where long prompts are computed in small parts.
//
// A step computes 512 tokens of prompts in 12.8 ms, and samples in 5 ms. The prompt of 256 tokens has its first token
// after 6.4 + 5 ms alone. The one of 6,144 takes 12 steps, of which the last samples: the short one, which is sent
// 50 ms after it, waits until 158.6 ms and then for its own step, 120 ms in all. In parts of 128 tokens a step of the
// long one takes 3.2 ms, and 50 ms after its beginning the next one begins in 1.2 ms: then the short one has two parts, each
// beside one of the long prompt, 2 × 6.4 + 5 ms.
func TestInterferenceAgainstTheSimulator(t *testing.T) {
	for name, tc := range map[string]struct {
		part  int
		ratio float64
	}{
		"one after the other": {0, 120 / 11.4},
		"in small parts":      {128, 19.0 / 11.4},
	} {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				o := testlab.Brisk()
				o.LongPrefill = tc.part
				w := testlab.NewWitness(t, o)
				l := workLab(t, fmt.Sprintf(`
modules: {beside: {input_tokens: 256, output_tokens: 2, interference: 6144, timeout: 10s}}
endpoints: [{name: e, url: %s, modules: [beside]}]`, w.URL))
				l.times(2, "e") // finds the lengths
				const family = "inference_probe_interference_ttft_ratio"
				p := l.times(20, "e")
				var alone, beside, long []float64
				records := w.Records()
				for i := 0; i+2 < len(records); i += 3 {
					run := records[i : i+3]
					alone, long, beside = append(alone, firstToken(&run[0])), append(long, firstToken(&run[1])), append(beside, firstToken(&run[2]))
					if apart := run[2].Arrival.Sub(run[1].Arrival); apart < 25*time.Millisecond || run[1].PromptTokens < 5500 || run[2].PromptTokens > 400 {
						t.Errorf("prompts of %d and %d tokens, %s apart", run[1].PromptTokens, run[2].PromptTokens, apart)
					}
				}
				got := intervalOf(t, p, family)
				t.Logf("ratio %+v; at the server alone %.4f s, beside %.4f, long %.4f", got, medianOf(alone), medianOf(beside), medianOf(long))
				for what, want := range map[string]float64{"by the records": medianOf(beside) / medianOf(alone), "by the options": tc.ratio} {
					logRelative(t, "ratio "+what, got.value, want)
					if math.Abs(got.value/want-1) > 1e-6 {
						t.Errorf("ratio %v, %s %v", got.value, what, want)
					}
				}
				for family, want := range map[string][]float64{"alone_seconds": alone, "beside_seconds": beside} {
					if got := p.Sum("inference_probe_interference_ttft_" + family); math.Abs(got-medianOf(want)) > 1e-6 {
						t.Errorf("%s %v, at the server %v", family, got, medianOf(want))
					}
				}
				checkBeside(t, p, w, records)
			})
		})
	}
}

// checkBeside wants the long prompts among what was spent, and among no probes.
func checkBeside(t *testing.T, p metricsPage, w *testlab.Witness, records []simulator.Record) {
	t.Helper()
	prompts := 0
	for i := range records {
		prompts += records[i].PromptTokens
	}
	testlab.WantSum(t, p, "inference_probe_prompt_tokens_total", float64(prompts))
	if n, want := p.Sum("inference_probe_results_total"), float64(w.Requests()*2/3); n != want {
		t.Errorf("%v results, want %v: the long prompts are no probes", n, want)
	}
	if p.Has("inference_probe_slo_eligible_total") || p.Has("inference_probe_burst_failed") {
		t.Error("judged, or taken for bursts")
	}
}
