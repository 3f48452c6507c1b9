package collector

import (
	"github.com/inference-exporter/inference_exporter/config"
)

// spending is the state behind the samples of what an endpoint costs and what
// its probes may spend.
type spending struct {
	price  *config.Price
	budget func() (tokens, usd float64) // nil without a budget
}

// spendingFamily is a family of what endpoints cost and their probes may spend.
type spendingFamily = familyOf[spending]

// budgetResources lists what budgets limit, in the order of their results.
func budgetResources() []string { return []string{"tokens", "usd"} }

// spendingFamilies returns the families of prices and budgets, in the order of
// the documentation.
func spendingFamilies() []*spendingFamily {
	return []*spendingFamily{
		newSpendingFamily(Family{
			Name: "price_usd_per_hour", Type: Gauge, Unit: "usd_per_hour",
			Help: "Price of all GPUs of the endpoint for an hour in US dollars, as configured.",
		}, func(e encoder, _ *family, v spending) {
			if price := v.price.PerHour(); price > 0 {
				e.gauge(0, price)
			}
		}),
		newSpendingFamily(Family{
			Name: "price_usd_per_token", Type: Gauge, Unit: "usd_per_token", Labels: []string{"kind"}, Values: costKinds(),
			Help: "Price of one token in US dollars, as configured. Absent for what has no price.",
		}, func(e encoder, f *family, v spending) {
			prices := tokenPrices(v.price)
			for _, i := range f.order {
				if prices[i].present {
					e.gauge(i, prices[i].value/pricedTokens)
				}
			}
		}),
		newSpendingFamily(Family{
			Name: "budget_used_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"resource"}, Values: budgetResources(),
			Help: "Share of the endpoint's budget that its probes have spent: tokens over the last hour, US dollars over the last 24 hours. Probes that would bring it above 1 do not run. Absent without such a budget.",
		}, func(e encoder, f *family, v spending) {
			if v.budget == nil {
				return
			}
			used := budgetUse(v.budget)
			for _, i := range f.order {
				if used[i].present {
					e.gauge(i, used[i].value)
				}
			}
		}),
	}
}

// newSpendingFamily returns a family with the labels of every such family.
// f.Name comes without "endpoint_".
func newSpendingFamily(f Family, emit func(e encoder, f *family, v spending)) *spendingFamily {
	f.Name, f.Group = "endpoint_"+f.Name, GroupEndpoint
	return &spendingFamily{newFamily(f, []string{"endpoint", "model"}, nil), emit}
}

// newSpending renders the labels of what an endpoint costs and may spend.
func newSpending(info EndpointInfo, reserved []string) *labelled[spending] {
	return &labelled[spending]{
		newLabelBlock([]pair{{"endpoint", info.Endpoint}, {"model", boundModel(info.Model)}}, info.Labels, reserved),
		spending{info.Price, info.Budget},
	}
}

// budgetUse returns the used shares by index in budgetResources.
func budgetUse(budget func() (tokens, usd float64)) [2]gauge {
	tokens, usd := budget()
	return [2]gauge{{tokens, tokens >= 0}, {usd, usd >= 0}}
}
