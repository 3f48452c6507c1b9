package fleet

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const (
	costFamily    = "inference_probe_cost_usd_total"
	skippedFamily = "inference_probe_skipped_total"
)

// What probes cost is the server's tokens at the configured prices.
func TestCostAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Swift())
		l := workLab(t, fmt.Sprintf(`
modules:
  pairs: {input_tokens: 600, output_tokens: 4, prefix: paired}
  ladder: {input_tokens: [100, 300], output_tokens: 6}
  talk: {input_tokens: 80, output_tokens: 5, prefix: conversation, turns: 3}
  burst: {input_tokens: 50, output_tokens: 3, concurrency: [1, 3]}
  questions: {questions: true, output_tokens: 32}
endpoints:
  - name: e
    url: %s
    modules: [pairs, ladder, talk, burst, questions]
    price: {input_usd: 3, cached_input_usd: 0.3, output_usd: 15, gpu_hour_usd: 2.5, gpus: 4}`, w.URL))
		p := l.times(4, "e")
		cached, uncached, output := 0, 0, 0
		for _, r := range w.Records() {
			cached += r.CachedTokens
			uncached += r.PromptTokens - r.CachedTokens
			output += r.OutputTokens
		}
		if cached == 0 {
			t.Error("the load has no hits")
		}
		for kind, want := range map[string]float64{
			"input": float64(uncached) * 3 / 1e6, "cached_input": float64(cached) * 0.3 / 1e6, "output": float64(output) * 15 / 1e6,
		} {
			if got := p.Sum(costFamily, "kind", kind); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s has cost %v, want %v", kind, got, want)
			}
		}
		for kind, want := range map[string]float64{"input": 3e-6, "cached_input": 0.3e-6, "output": 15e-6} {
			if got := p.Sum("inference_endpoint_price_usd_per_token", "kind", kind); math.Abs(got-want) > 1e-12 {
				t.Errorf("a token of %s costs %v, want %v", kind, got, want)
			}
		}
		if got := p.Sum("inference_endpoint_price_usd_per_hour"); got != 10 {
			t.Errorf("an hour costs %v, want 10", got)
		}
	})
}

// A budget is kept although the first prompts, whose length in tokens nobody
// knows yet, are longer than they should be.
func TestBudgetHoldsForTheFirstPrompts(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		for budget := 2100; budget <= 3500; budget += 100 {
			w := testlab.NewWitness(t, testlab.Swift())
			l := workLab(t, fmt.Sprintf(`
modules: {long: {input_tokens: 2000, output_tokens: 4}}
endpoints: [{name: e, url: %s, api: openai-chat, modules: [long], budget: {tokens_per_hour: %d}}]`, w.URL, budget))
			p := l.times(2, "e")
			if spent := w.Tokens(); spent > budget {
				t.Errorf("%d tokens of a budget of %d", spent, budget)
			}
			const used = "inference_endpoint_budget_used_ratio"
			if got, want := p.Sum(used, "resource", "tokens"), float64(w.Tokens())/float64(budget); math.Abs(got-want) > 1e-9 {
				t.Errorf("%v of the budget is used, want %v", got, want)
			}
		}
	})
}

// What a server counts is worth no more than what was sent to it: neither the counters
// nor the cost of its endpoint, nor the budget of the others, take more. The healthy
// endpoint misses no run, whatever the other one spends.
func TestHostileCounts(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		const runs, sent = 25, 1280 + 250 // bytes of 213 words with the body around them
		const believed = 2400             // prompt tokens: it may be a service's own preamble
		for _, reported := range []int{0, 1, believed, 99_999_999, 100_000_001, math.MaxInt} {
			w := testlab.NewWitness(t, testlab.Swift())
			l := workLab(t, fmt.Sprintf(`
global: {budget: {tokens_per_hour: 40000, usd_per_day: 0.04}}
modules: {chat: {input_tokens: 256, output_tokens: 4, interval: 1m}}
endpoints:
  - {name: hostile, url: %q, api: openai-chat, model: m, modules: [chat], price: {input_usd: 1, output_usd: 1}}
  - {name: healthy, url: %q, api: openai-chat, modules: [chat], price: {input_usd: 1, output_usd: 1}}`,
				testlab.Counts(t, func(int) int { return reported }), w.URL))
			l.times(3*runs, "hostile")
			p := l.times(runs, "healthy")
			if got := p.Sum(skippedFamily, "endpoint", "healthy"); got != 0 || w.Requests() != runs {
				t.Errorf("%d reported: %v runs of the healthy endpoint were left out, %d made", reported, got, w.Requests())
			}
			results := p.Sum("inference_probe_results_total", "endpoint", "hostile")
			for family, per := range map[string]float64{"inference_probe_prompt_tokens_total": 1, costFamily: 1e6} {
				if got := p.Sum(family, "endpoint", "hostile") * per; got < 0 || got > results*(sent+8192+4) {
					t.Errorf("%d reported: %s is %v after %v probes", reported, family, got, results)
				}
			}
			least := 10.0
			if reported == believed { // it spends its half of the budget
				least = 20_000 / believed
			}
			if results < least {
				t.Errorf("%d reported: %v probes of the hostile endpoint, want at least %v", reported, results, least)
			}
		}
	})
}

// A server that counts one token of each prompt spends a budget all the same: a token of
// prose has fewer than nine bytes.
func TestBudgetDoesNotTrustSmallCounts(t *testing.T) {
	s := newSpending(&config.Endpoint{}, &config.Module{InputTokens: config.Tokens(8000), OutputTokens: config.Tokens(1)}, nil)
	for _, tc := range []struct{ reported, bytes, want int }{
		{1, 38_600, 38_600/9 + 1},
		{7000, 38_600, 7001},
		{-1, 38_600, 12_065}, // the most: 1.5 x 8000 + 64 + 1
	} {
		r := &result.Result{Sent: time.Now(), Status: http.StatusOK, PromptBytes: tc.bytes, Tokens: result.Tokens{Prompt: tc.reported, Cached: -1, Output: 1}}
		if got := spentBy(r, nil, s.request(0)).Tokens; got != tc.want {
			t.Errorf("%d reported of %d bytes: %d tokens are spent, want %d", tc.reported, tc.bytes, got, tc.want)
		}
	}
}
