package collector

import (
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Indexes of what tokens are paid for as.
const costInput, costCachedInput, costOutput, numCosts = 0, 1, 2, 3

// costKinds lists the label values in the order of the indexes.
func costKinds() []string { return []string{"input", "cached_input", "output"} }

// pricedTokens is how many tokens a price is for. Amounts are divided by it only
// when they are shown, so that rounding errors do not add up.
const pricedTokens = 1e6

// cost is what the tokens of a series cost.
type cost struct {
	price [numCosts]gauge   // of pricedTokens, in US dollars
	spent [numCosts]float64 // US dollars × pricedTokens
}

// tokenPrices returns the prices of pricedTokens in US dollars. Cached input may
// be free where input is not; a price of 0 of anything else is none.
func tokenPrices(p *config.Price) [numCosts]gauge {
	if p == nil {
		return [numCosts]gauge{}
	}
	return [numCosts]gauge{
		costInput:       {p.InputUSD, p.InputUSD > 0},
		costCachedInput: {p.CachedInputUSD, p.InputUSD > 0},
		costOutput:      {p.OutputUSD, p.OutputUSD > 0},
	}
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
	c.price = tokenPrices(p)
	return c
}

// add counts the tokens of a probe. Prompt tokens that are not known to come
// from the cache have the full price.
func (c *cost) add(t *result.Tokens) {
	if t.Prompt < 0 {
		return // the part that is known would look like the whole
	}
	prompt := t.Prompt
	cached := min(max(0, t.Cached), prompt)
	for i, n := range [numCosts]int{costInput: prompt - cached, costCachedInput: cached, costOutput: max(0, t.Output)} {
		c.spent[i] += float64(n) * c.price[i].value
	}
}

// costFamily is what the probes cost.
func costFamily() *probeFamily {
	return newProbeFamily(Family{
		Name: "probe_cost_usd_total", Type: Counter, Unit: "usd", Labels: []string{"kind"}, Values: costKinds(),
		Help: "US dollars that the tokens of probes with any outcome cost, by the counts that the server reported and the configured prices; probes whose prompt it did not count are left out. Prompt tokens that the server does not report as cached are input. Absent for what has no price.",
	}, nil, func(e encoder, f *family, v *values) {
		if v.cost == nil {
			return
		}
		for _, i := range f.order {
			if v.cost.price[i].present {
				e.counter(i, v.cost.spent[i]/pricedTokens)
			}
		}
	})
}
