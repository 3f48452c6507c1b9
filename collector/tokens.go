package collector

import (
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// spend counts what a probe used, and what that cost.
func (v *values) spend(r *result.Result) {
	t := believed(r.Tokens)
	v.countTokens(&t)
	if v.cost != nil {
		v.cost.add(&t, r.Start)
	}
}

// maxTokens is more tokens than one probe has of any kind. A count above it is no
// count: counters must not lose their precision or fall.
const maxTokens = 1 << 32

// believed returns the counts without those that cannot be.
func believed(t result.Tokens) result.Tokens {
	for _, n := range []*int{&t.Prompt, &t.Cached, &t.Output, &t.Reasoning} {
		if *n > maxTokens {
			*n = api.Unknown
		}
	}
	return t
}

// countTokens adds the counts that were reported.
func (v *values) countTokens(t *result.Tokens) {
	if t.Prompt >= 0 {
		v.promptTokens += uint64(t.Prompt)
	}
	if t.Cached >= 0 {
		v.cachedReported = true
		v.cachedTokens += uint64(t.Cached)
	}
	if t.Output < 0 {
		return
	}
	reasoning := 0
	if t.Reasoning >= 0 {
		v.reasoningReported = true
		reasoning = min(t.Reasoning, t.Output)
	}
	v.outputTokens[outputReasoning] += uint64(reasoning)
	v.outputTokens[outputAnswer] += uint64(t.Output - reasoning)
	switch t.Source {
	case result.TokensFromUsage:
		v.tokenSources[sourceUsage]++
	case result.TokensFromEvents:
		v.tokenSources[sourceEvents]++
	}
}

// Indexes of what tokens are paid for as.
const costInput, costCachedInput, costOutput, numCosts = 0, 1, 2, 3

// costKinds lists the label values in the order of the indexes.
func costKinds() []string { return []string{"input", "cached_input", "output"} }

// pricedTokens is how many tokens a price is for. Amounts are divided by it only
// when they are shown, so that rounding errors do not add up.
const pricedTokens = 1e6

// tokenPrices returns prices as costKinds lists them. Cached input may be free where
// input is not; a price of 0 of anything else is none.
func tokenPrices(p config.TokenPrices) [numCosts]gauge {
	return [numCosts]gauge{
		costInput:       {p.Input, p.Input > 0},
		costCachedInput: {p.CachedInput, p.Input > 0},
		costOutput:      {p.Output, p.Output > 0},
	}
}

// cost is what the tokens of a series cost.
type cost struct {
	price *config.Price
	known [numCosts]bool    // what has a price
	spent [numCosts]float64 // US dollars × pricedTokens
}

// at returns the cost with the price of the tokens that are counted from now on; nil
// where tokens have no price. A nil cost is one of nothing so far.
func (c *cost) at(p *config.Price) *cost {
	if !p.PerToken() {
		return nil
	}
	if c == nil {
		c = &cost{}
	}
	c.price = p
	for i, g := range tokenPrices(p.InUSD()) {
		c.known[i] = g.present
	}
	return c
}

// add counts the tokens of a probe that started at an instant. Prompt tokens that are
// not known to come from the cache have the full price.
func (c *cost) add(t *result.Tokens, start time.Time) {
	if t.Prompt < 0 {
		return // the part that is known would look like the whole
	}
	prompt := t.Prompt
	cached := min(max(0, t.Cached), prompt)
	price := tokenPrices(c.price.At(start).InUSD())
	for i, n := range [numCosts]int{costInput: prompt - cached, costCachedInput: cached, costOutput: max(0, t.Output)} {
		c.spent[i] += float64(n) * price[i].value
	}
}

// costFamily is what the probes cost.
func costFamily() *probeFamily {
	return newProbeFamily(Family{
		Name: "probe_cost_usd_total", Type: Counter, Unit: "usd", Labels: []string{"kind"}, Values: costKinds(),
		Help: "Cost in US dollars of the tokens of probes with any outcome, from the counts reported by the server and the configured prices. Probes whose prompt tokens are not reported are excluded. Prompt tokens that the server does not report as cached count as input. Absent for kinds without a price.",
	}, nil, func(e encoder, f *family, v *values) {
		if v.cost == nil {
			return
		}
		for _, i := range f.order {
			if v.cost.known[i] {
				e.counter(i, v.cost.spent[i]/pricedTokens)
			}
		}
	})
}

// promptTokensFamily is what all kinds are asked.
func promptTokensFamily() *probeFamily {
	return probeCounter("probe_prompt_tokens_total", "tokens",
		"Prompt tokens of probes with any outcome, as counted by the server, including cached tokens.",
		func(v *values) (uint64, bool) { return v.promptTokens, true })
}

// tokenFamilies are the token counts of answers.
func tokenFamilies() []*probeFamily {
	return []*probeFamily{
		probeCounter("probe_cached_prompt_tokens_total", "tokens",
			"Prompt tokens that came from the server's prefix cache. Absent until the server reports it.",
			func(v *values) (uint64, bool) { return v.cachedTokens, v.cachedReported }),
		outputTokensFamily(),
		probeCounters("probe_token_source_total", "source", labelValues(result.TokenSources()),
			"Probes by where their count of output tokens comes from: the server's usage, or the number of token events where it reports none.",
			func(v *values, i int) uint64 { return v.tokenSources[i] }),
	}
}

// outputTokensFamily has a reasoning part only where the server reports one.
func outputTokensFamily() *probeFamily {
	return newProbeFamily(Family{
		Name: "probe_output_tokens_total", Type: Counter, Unit: "tokens",
		Labels: []string{"kind"}, Values: []string{"answer", "reasoning"},
		Help: "Output tokens of probes with any outcome. If the server does not report reasoning tokens, kind reasoning is absent and answer counts all tokens.",
	}, nil, func(e encoder, _ *family, v *values) {
		e.counter(outputAnswer, float64(v.outputTokens[outputAnswer]))
		if v.reasoningReported {
			e.counter(outputReasoning, float64(v.outputTokens[outputReasoning]))
		}
	})
}
