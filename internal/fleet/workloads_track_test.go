package fleet

import (
	"fmt"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// trackLab is a fleet that tracks the model of a server by an api.
func trackLab(t *testing.T, api, url string) *lab {
	t.Helper()
	return workLab(t, fmt.Sprintf(`
modules: {track: {track_model: true}}
endpoints: [{name: e, url: %s, api: %s, model: simulated-8b, modules: [track]}]`, url, api))
}

// A change of the weights is found within a day's probes, by log-probabilities where
// the api has them and by the tokens where it has none. 0.1 nats are about what
// a quantization to 4 bits moves.
func TestModelChangeIsFound(t *testing.T) {
	t.Parallel()
	const day = 96
	f := func(api, source, family string, days int, shift float64) {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			testlab.Virtual(t, func(t *testing.T) {
				o := testlab.Swift()
				o.WeightsVersion, o.LogprobNoise = "v1", 0.02
				w := testlab.NewWitness(t, o)
				l := trackLab(t, api, w.URL)
				p := l.times(days*day, "e")
				wantChanges(t, p, "track", map[string]float64{source: 0})
				if v := p.Sum(family, "module", "track"); v > 0.02 || !p.Has(family, "module", "track") {
					t.Errorf("%s is %v of the same model", family, v)
				}
				w.SetWeights("v1", shift, 1)
				wantChanges(t, l.times(day, "e"), "track", map[string]float64{source: 1})
			})
		})
	}
	f("openai-chat", "first_token_logprob", "inference_probe_first_token_logprob_shift", 3, 0.1)
	f("openai-completions", "first_token_logprob", "inference_probe_first_token_logprob_shift", 3, 0.1)
	f("ollama", "first_token", "inference_probe_first_token_variation_ratio", 5, 0.4)
}
