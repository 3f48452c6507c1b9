package collector

import (
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

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

// costRow is what the probes cost. Where the tokens of the prompt are not known, the part
// that is would look like the whole. Those that are not known to come from the cache have the
// full price.
func costRow() row {
	return row{
		Name: "probe_cost_usd_total", Unit: "usd", Label: "kind", Values: costKinds(), On: onProbe | onCancel | onSpend,
		Help: "Cost in US dollars of the tokens of probes with any outcome, from the counts reported by the server and the configured prices. Probes whose prompt tokens are not reported are excluded. Prompt tokens that the server does not report as cached count as input. Absent for kinds without a price.",
		Has: func(o *SeriesOptions, i int) bool {
			return o.Price.PerToken() && tokenPrices(o.Price.InUSD())[i].present
		},
		Sum: func(p *probe, i int) float64 {
			t := &p.tokens
			if t.Prompt < 0 {
				return 0
			}
			cached := min(max(0, t.Cached), t.Prompt)
			n := [numCosts]int{costInput: t.Prompt - cached, costCachedInput: cached, costOutput: max(0, t.Output)}[i]
			return float64(n) * tokenPrices(p.options.Price.At(p.Start).InUSD())[i].value
		},
		Per: pricedTokens,
	}
}

// promptTokensRow is what all kinds are asked.
func promptTokensRow() row {
	return row{
		Name: "probe_prompt_tokens_total", Unit: "tokens", On: onProbe | onCancel | onSpend,
		Help:  "Prompt tokens of probes with any outcome, as counted by the server, including cached tokens.",
		Count: func(p *probe, _ int) int { return p.tokens.Prompt },
	}
}

// tokenRows are the token counts of answers.
func tokenRows() []row {
	sources := result.TokenSources()
	return []row{
		{
			Name: "probe_cached_prompt_tokens_total", Unit: "tokens", Late: late, On: onProbe | onCancel | onSpend,
			Help:  "Prompt tokens that came from the server's prefix cache. Absent until the server reports it.",
			Count: func(p *probe, _ int) int { return p.tokens.Cached },
		},
		{
			Name: "probe_output_tokens_total", Unit: "tokens", Label: "kind", Values: []string{"answer", "reasoning"}, On: onProbe | onCancel | onSpend,
			Help: "Output tokens of probes with any outcome. If the server does not report reasoning tokens, kind reasoning is absent and answer counts all tokens.",
			Late: func(i int) bool { return i == 1 },
			Count: func(p *probe, i int) int {
				reasoning := min(p.tokens.Reasoning, p.tokens.Output)
				if i == 1 {
					return reasoning
				}
				return p.tokens.Output - max(0, reasoning)
			},
		},
		{
			Name: "probe_token_source_total", Label: "source", Values: labelValues(sources), On: onProbe | onCancel | onSpend, Flaw: true,
			Help:  "Probes by where their count of output tokens comes from: the server's usage, or the number of token events where it reports none.",
			Count: func(p *probe, i int) int { return one(p.tokens.Output >= 0 && p.tokens.Source == sources[i]) },
		},
	}
}
