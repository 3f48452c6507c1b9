package app

import (
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// checkBudgets finds modules whose single run may exceed a budget, so that they
// would never run. Discovered endpoints make the shares of global.budget smaller,
// which nobody can know here.
func checkBudgets(cfg *config.Config) []*config.Error {
	each, rest := shares(cfg.Global.Budget, cfg.Endpoints, cfg.Modules)
	var mistakes []*config.Error
	for i, e := range stanzas(cfg) {
		for j, m := range e.asked(cfg) {
			mistake := func(err error, whose string) {
				mistakes = append(mistakes, e.mistake(fmt.Sprintf("modules[%d]", j), "module %q: %v that %s allows", e.Modules[j], err, whose))
			}
			if err := checkBudget(e.Endpoint, m, e.Budget); err != nil {
				mistake(err, "the endpoint's budget")
			}
			if err := checkBudget(e.Endpoint, m, cfg.Global.Budget); err != nil {
				mistake(err, "global.budget")
			} else if i < len(each) {
				if err := checkBudget(e.Endpoint, m, each[i]); err != nil && checkBudget(e.Endpoint, m, rest) != nil {
					mistake(err, "its share of global.budget")
				}
			}
		}
	}
	return mistakes
}

func checkBudget(e *config.Endpoint, m *config.Module, b config.Budget) error {
	for _, rung := range m.Rungs() {
		most := newSpending(e, rung.Module, nil).most()
		if b.TokensPerHour > 0 && most.Tokens > b.TokensPerHour {
			return fmt.Errorf("one run may take %d tokens, more than the %d per hour", most.Tokens, b.TokensPerHour)
		}
		if b.USDPerDay > 0 && most.USD > b.USDPerDay {
			return fmt.Errorf("one run may cost $%.4f, more than the $%g per day", most.USD, b.USDPerDay)
		}
	}
	return nil
}

// tightBudgets tells of budgets of tokens that are smaller than what the modules
// ask for in an hour, so that probing pauses.
func tightBudgets(cfg *config.Config) []string {
	var notes []string
	note := func(whose string, wanted float64, b config.Budget) {
		if b.TokensPerHour > 0 && wanted > float64(b.TokensPerHour) {
			notes = append(notes, fmt.Sprintf("%s allows %d tokens an hour, and its probes may take %.0f: they will pause when it is used up", whose, b.TokensPerHour, wanted))
		}
	}
	var all float64
	for _, e := range cfg.Endpoints {
		var own float64
		for _, name := range e.Modules {
			for _, rung := range cfg.Modules[name].Rungs() {
				s := newSpending(e, rung.Module, nil)
				s.counted = true
				own += float64(s.most().Tokens) * time.Hour.Seconds() / time.Duration(rung.Interval).Seconds()
			}
		}
		note("the budget of "+e.Name, own, e.Budget)
		all += own
	}
	note("global.budget", all, cfg.Global.Budget)
	return notes
}
