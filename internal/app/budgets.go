package app

import (
	"maps"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/schedule"
)

// budgets are those of a configuration, by the endpoint's name. They outlive
// the endpoint's other settings, so that changing those gives no new allowance.
// It is safe for concurrent use.
type budgets struct {
	all *schedule.Budget

	mu   sync.Mutex
	each map[string]*schedule.Budget
}

func newBudgets(common config.Budget) *budgets {
	return &budgets{all: newBudget(common), each: map[string]*schedule.Budget{}}
}

func newBudget(b config.Budget) *schedule.Budget {
	return schedule.NewBudget(b.TokensPerHour, b.USDPerDay, time.Now)
}

// setCommon changes the limits of the budget of all.
func (b *budgets) setCommon(common config.Budget) {
	b.all.Limit(common.TokensPerHour, common.USDPerDay)
}

// keep forgets the budgets of endpoints that are gone, once nothing is spent of
// them: an endpoint that comes back soon finds its budget as it left it.
func (b *budgets) keep(known func(endpoint string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.each, func(name string, own *schedule.Budget) bool { return !known(name) && own.Idle() })
}

// limit has the budgets of the endpoints go by their settings. It is for those in
// force alone: neither a configuration that may yet be refused nor a request that
// began before a reload changes a limit.
func (b *budgets) limit(inForce []*config.Endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range inForce {
		if own := b.each[e.Name]; own != nil {
			own.Limit(e.Budget.TokensPerHour, e.Budget.USDPerDay)
		}
	}
}

// own returns the budget of an endpoint; nil where it never had one, as few have.
func (b *budgets) own(e *config.Endpoint) *schedule.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.each[e.Name]
	if own == nil {
		if e.Budget == (config.Budget{}) {
			return nil
		}
		own = newBudget(e.Budget)
		b.each[e.Name] = own
	}
	return own
}

// used tells what is used of the budget of an endpoint; nil where it has none.
func (b *budgets) used(e *config.Endpoint) func() (tokens, usd float64) {
	if own := b.own(e); own != nil {
		return own.Used
	}
	return nil
}

// of returns the budgets that stand in front of the runs of an endpoint.
func (b *budgets) of(e *config.Endpoint) []*schedule.Budget {
	if own := b.own(e); own != nil {
		return []*schedule.Budget{own, b.all}
	}
	return []*schedule.Budget{b.all}
}
