package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// Costs is what the probes of an endpoint, or of several, take in a day: prompts of the
// wanted lengths, and answers as long as they may be.
type Costs struct {
	// Whose is the name of the endpoint.
	Whose string
	// Tokens are those of prompts and answers.
	Tokens float64
	// Money is the price of the tokens by currency: USD where it is known in that. Without
	// a price it is empty.
	Money map[string]float64
}

// USD is the code of the US dollar.
const USD = "USD"

func (c *Costs) add(other Costs) {
	c.Tokens += other.Tokens
	for currency, amount := range other.Money {
		c.Money[currency] += amount
	}
}

// CostsOf returns what the probes of each endpoint take, the dearest first, and what all
// take together. Those that discovery finds are not among them.
func CostsOf(cfg *config.Config) (each []Costs, all Costs) {
	all = Costs{Whose: "all", Money: map[string]float64{}}
	for _, e := range cfg.Endpoints {
		c := costsOf(e, cfg.Modules, true)
		each = append(each, c)
		all.add(c)
	}
	slices.SortStableFunc(each, func(a, b Costs) int {
		return cmp.Or(cmp.Compare(b.Money[USD], a.Money[USD]), cmp.Compare(b.Tokens, a.Tokens))
	})
	return each, all
}

// costsOf is what the probes of an endpoint take in a day, as a rule or at most.
func costsOf(e *config.Endpoint, modules map[string]*config.Module, likely bool) Costs {
	c := Costs{Whose: e.Name, Money: map[string]float64{}}
	currency, prices := meanPrices(e.Price)
	for _, name := range e.Modules {
		for _, rung := range modules[name].Rungs() {
			s := newSpending(e, rung.Module, nil)
			s.counted, s.likely = true, likely
			t := s.run()
			runs := 24 * time.Hour.Seconds() / time.Duration(rung.Interval).Seconds()
			c.Tokens += runs * float64(t.input+t.output)
			if currency != "" {
				c.Money[currency] += runs * (float64(t.input)*prices.Input + float64(t.output)*prices.Output) / 1e6
			}
		}
	}
	return c
}

// meanPrices returns the prices of tokens over a day from now, and their currency: US
// dollars if they are known in that; "" is no price.
func meanPrices(p *config.Price) (currency string, mean config.TokenPrices) {
	var in func(*config.Price) config.TokenPrices
	switch {
	case p == nil:
		return "", mean
	case p.PerToken():
		currency, in = USD, (*config.Price).InUSD
	case p.Input > 0 || p.Output > 0:
		currency, in = p.Currency, (*config.Price).InCurrency
	default:
		return "", mean
	}
	const parts = 24 * 4
	now := time.Now()
	for i := range parts {
		at := in(p.At(now.Add(time.Duration(i) * 24 * time.Hour / parts)))
		mean.Input += at.Input / parts
		mean.Output += at.Output / parts
	}
	return currency, mean
}

// TightBudgets returns a note for each budget that is smaller than what the probes may
// take, so that probing pauses.
func TightBudgets(cfg *config.Config) []string {
	var notes []string
	usual, most := Costs{Money: map[string]float64{}}, Costs{Money: map[string]float64{}}
	for _, e := range cfg.Endpoints {
		own, ownMost := costsOf(e, cfg.Modules, true), costsOf(e, cfg.Modules, false)
		notes = append(notes, tightBudgets("the budget of "+e.Name, e.Budget, own, ownMost)...)
		usual.add(own)
		most.add(ownMost)
	}
	return append(notes, tightBudgets("global.budget", cfg.Global.Budget, usual, most)...)
}

// tightBudgets are the notes on the limits of one budget, for probes that take so much as
// a rule and at most.
func tightBudgets(whose string, b config.Budget, usual, most Costs) []string {
	var notes []string
	note := func(limit, usual, most float64, window time.Duration, in func(float64) string) {
		switch {
		case limit == 0 || most <= limit:
		case usual <= limit:
			notes = append(notes, fmt.Sprintf("%s allows %s, and its probes may take %s: they pause when it is used up", whose, in(limit), in(most)))
		default:
			lasts := time.Duration(limit / usual * float64(window)).Round(time.Minute)
			notes = append(notes, fmt.Sprintf("%s allows %s, and its probes take %s: they pause when it is used up, after about %s",
				whose, in(limit), in(usual), model.Duration(max(lasts, time.Minute))))
		}
	}
	const hours = 24
	note(float64(b.TokensPerHour), usual.Tokens/hours, most.Tokens/hours, time.Hour,
		func(n float64) string { return fmt.Sprintf("%.0f tokens an hour", n) })
	note(b.USDPerDay, usual.Money[USD], most.Money[USD], hours*time.Hour,
		func(usd float64) string { return "$" + Amount(usd) + " a day" })
	return notes
}

// Amount is an amount of money in decimals, of which those of small ones are significant.
func Amount(v float64) string {
	if v > 0 && v < 1 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}
