package app

import (
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/schedule"
)

// allowance guards what one request for probes may spend.
type allowance struct {
	rungs    []*spending
	reserved []schedule.Cost
}

// allowanceOf is that of a target: under the endpoint's budget, if it is one of
// the configuration, and under that of all. Others have no budget of their own,
// though one of the configuration may have their name.
func allowanceOf(t *probeTarget, configured bool, b *budgets) *allowance {
	a := &allowance{}
	for _, rung := range t.module.Rungs() {
		limits := b.ofStrangers()
		if configured {
			limits = b.of(t.endpoint)
		}
		a.rungs = append(a.rungs, newSpending(t.endpoint, rung.Module, limits))
	}
	return a
}

func (a *allowance) reserve() bool {
	for _, s := range a.rungs {
		most, ok := s.reserve()
		if !ok {
			a.settle(nil)
			return false
		}
		a.reserved = append(a.reserved, most)
	}
	return true
}

// settle counts what was spent; rungs without results spent nothing.
func (a *allowance) settle(all []rungResults) {
	for i, most := range a.reserved {
		var results []*result.Result
		if i < len(all) {
			results = result.Spent(all[i].results, all[i].skip)
		}
		a.rungs[i].settle(most, results)
	}
}
