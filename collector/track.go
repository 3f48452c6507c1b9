package collector

import "github.com/inference-exporter/inference_exporter/internal/estimate"

// shiftFamilies are how far the first tokens of answers have moved, of modules with
// track_model.
func shiftFamilies() []*findingsFamily {
	shift := func(scored bool) func(f *estimate.Findings) gauge {
		return func(f *estimate.Findings) gauge {
			if f.Shift == nil || f.Shift.Scored != scored {
				return gauge{}
			}
			return gauge{f.Shift.Value, true}
		}
	}
	return []*findingsFamily{
		findingsGauge("first_token_logprob_shift", "",
			"Difference in nats between the log-probabilities of the first tokens of the latest 96 answers and those before them, beyond what chance explains: the mean over prompts and tokens. About 0 for the same model. Only for modules with track_model, where replies have log-probabilities.",
			shift(true)),
		findingsGauge("first_token_variation_ratio", "ratio",
			"Total variation between the first tokens of a day's answers, the latest 96 to 480, and those before them, beyond what chance explains: the ratio of answers that begin differently, as the mean over prompts. About 0 for the same model. Only for modules with track_model, where replies have no log-probabilities.",
			shift(false)),
	}
}
