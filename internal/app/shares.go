package app

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/schedule"
)

// shares are the parts of the budget of all that endpoints have to themselves, in
// their order, and what is left for who needs more. Nobody can spend what is another's:
// all that the shares and the rest allow together is the budget.
func shares(all config.Budget, endpoints []*config.Endpoint, modules map[string]*config.Module) (each []config.Budget, rest config.Budget) {
	tokens, usd := make([]float64, len(endpoints)), make([]float64, len(endpoints))
	for i, e := range endpoints {
		tokens[i], usd[i] = wants(e, modules)
	}
	tokensLeft := divide(float64(all.TokensPerHour), tokens)
	usdLeft := divide(all.USDPerDay, usd)
	each = make([]config.Budget, len(endpoints))
	for i := range each {
		each[i] = part(all, tokens[i], usd[i])
	}
	return each, part(all, tokensLeft, usdLeft)
}

// part is a part of a budget. It has a limit where the whole has one; where 0 would be
// none it is next to nothing.
func part(all config.Budget, tokens, usd float64) config.Budget {
	var b config.Budget
	if all.TokensPerHour > 0 {
		b.TokensPerHour = max(1, int(min(tokens, math.MaxInt64/2))) // that fits, though rounded up
	}
	if all.USDPerDay > 0 {
		b.USDPerDay = max(math.SmallestNonzeroFloat64, usd)
	}
	return b
}

// wants is the most that the modules of an endpoint ask for: tokens in an hour and US
// dollars in a day, as budgets count them, within the endpoint's own budget.
func wants(e *config.Endpoint, modules map[string]*config.Module) (tokens, usd float64) {
	for _, name := range e.Modules {
		m := modules[name]
		if m == nil {
			continue
		}
		for _, rung := range m.Rungs() {
			most := newSpending(e, rung.Module, nil).most()
			// As many runs as begin in a window, and the one in flight.
			runs := func(window time.Duration) float64 {
				return math.Ceil(window.Seconds()/time.Duration(rung.Interval).Seconds()) + 1
			}
			tokens += float64(most.Tokens) * runs(schedule.TokenWindow)
			usd += most.USD * runs(schedule.USDWindow)
		}
	}
	if own := float64(e.Budget.TokensPerHour); own > 0 {
		tokens = min(tokens, own)
	}
	if own := e.Budget.USDPerDay; own > 0 {
		usd = min(usd, own)
	}
	return tokens, usd
}

// divide replaces what each wants by what it gets, and returns what is left. Nobody
// gets more than wanted, nor less than an equal part of the whole (max-min fairness).
func divide(whole float64, wants []float64) (left float64) {
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(wants[a], wants[b]) })
	left = whole
	for n, i := range order {
		wants[i] = min(wants[i], left/float64(len(order)-n))
		left -= wants[i]
	}
	return max(0, left)
}
