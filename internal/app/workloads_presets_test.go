package app

import (
	"fmt"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
)

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
	}
	for _, preset := range config.Presets() {
		t.Run(preset.Name, func(t *testing.T) {
			want, ok := shapes[preset.Name]
			if !ok {
				t.Fatal("a built-in module that no test knows")
			}
			o := swift()
			o.ContextLength = want.context
			w := newWitness(t, o)
			p := workLab(t, fmt.Sprintf("endpoints: [{name: e, url: %s, modules: [%s]%s}]", w.url, preset.Name, want.endpoint)).times(1, "e")
			if good, all := p.sum("inference_probe_results_total", "outcome", "success"), p.probes("e"); good != float64(want.requests) || all != good {
				t.Errorf("%v of %v requests went well, want %d", good, all, want.requests)
			}
			if skipped := p.sum(skippedFamily); skipped != float64(want.skipped) || p.sum(skippedFamily, "reason", "context_length") != skipped {
				t.Errorf("%v lengths were left out, want %d", skipped, want.skipped)
			}
			all := w.records()
			if len(all) != want.requests {
				t.Errorf("%d requests, want %d", len(all), want.requests)
			}
			for i := range all {
				if all[i].OutputTokens != want.output || want.output > 0 && all[i].PromptTokens == 0 {
					t.Errorf("request %d: %d tokens answered with %d, want %d", i, all[i].PromptTokens, all[i].OutputTokens, want.output)
				}
			}
		})
	}
}
