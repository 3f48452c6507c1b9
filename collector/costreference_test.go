package collector

import (
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// exactPrice has prices of a token that are powers of two, so that sums are the
// same in any order: 2^-10 for input, 2^-12 where it is cached, 2^-8 for output.
func exactPrice() *config.Price {
	return &config.Price{InputUSD: 1e6 / 1024, CachedInputUSD: 1e6 / 4096, OutputUSD: 1e6 / 256}
}

// createSpent makes the series of verdicts and of cost that exist from the
// start.
func (ref *reference) createSpent(t target) {
	for _, own := range []string{"correct", "wrong", "wrong_format", "refused", "repetition"} {
		ref.checks.WithLabelValues(t.with(own)...)
	}
	for _, own := range []string{"input", "cached_input", "output"} {
		ref.cost.WithLabelValues(t.with(own)...)
	}
}

// spend counts what a result cost at exactPrice, and its verdict.
func (ref *reference) spend(t target, r *result.Result) {
	pay := func(own string, tokens int, price float64) {
		ref.cost.WithLabelValues(t.with(own)...).Add(float64(tokens) * price)
	}
	prompt, cached := r.Tokens.Prompt, r.Tokens.Cached
	switch {
	case prompt > 0 && cached > prompt:
		pay("cached_input", prompt, 1.0/4096)
	case prompt > 0 && cached > 0:
		pay("input", prompt-cached, 1.0/1024)
		pay("cached_input", cached, 1.0/4096)
	case prompt > 0:
		pay("input", prompt, 1.0/1024)
	}
	if r.Tokens.Output > 0 {
		pay("output", r.Tokens.Output, 1.0/256)
	}
	if r.Outcome != result.Canceled && r.Answer.Verdict != "" {
		ref.checks.WithLabelValues(t.with(string(r.Answer.Verdict))...).Inc()
	}
}
