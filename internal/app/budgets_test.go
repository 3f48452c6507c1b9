package app

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/schedule"
)

// What is in force alone decides on a limit, and not who asked last.
func TestBudgetsInForce(t *testing.T) {
	b := newBudgets(config.Budget{})
	before := &config.Endpoint{Name: "a", Budget: config.Budget{TokensPerHour: 100}}
	after := &config.Endpoint{Name: "a", Budget: config.Budget{TokensPerHour: 200}}
	share := func(when string, want float64) {
		t.Helper()
		if got, _ := b.own(before).Used(); got != want {
			t.Errorf("%s: %v of the budget is used, want %v", when, got, want)
		}
	}
	b.limit([]*config.Endpoint{before})
	b.of(before)[0].Reserve(schedule.Cost{Tokens: 50})
	b.of(after) // of a configuration that may be refused
	share("before the reload", 0.5)
	b.limit([]*config.Endpoint{after})
	b.of(before) // of a request that began before the reload
	share("after the reload", 0.25)
	b.limit([]*config.Endpoint{{Name: "a"}})
	share("without a limit", -1)
}
