package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
)

// restarted returns the budgets of a new process, with what the one before has saved.
func restarted(t *testing.T, b *budgets) *budgets {
	t.Helper()
	next := newBudgets(config.Budget{})
	err := b.save(func(record any) error {
		line, err := json.Marshal(record)
		if err != nil {
			return err
		}
		return next.restore(line)
	})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// What the endpoints have spent of their own budgets, of their shares and of the rest
// is spent after a restart too: together they get no second allowance.
func TestBudgetsOverARestart(t *testing.T) {
	common := config.Budget{TokensPerHour: 100_000}
	b, endpoints, m := sharing(common, time.Minute, "a", "b")
	endpoints[0].Budget.TokensPerHour = 30_000
	activate := func(b *budgets) {
		b.limit(endpoints)
		b.share(common, endpoints, map[string]*config.Module{"m": m})
	}
	activate(b)
	left := func(b *budgets, i int) int { return drain(t, newSpending(endpoints[i], m, b.of(endpoints[i])), 1100) }
	if own, share := left(b, 0), left(b, 1); own < 28_000 || own > 30_000 || share < 68_000 {
		t.Fatalf("spent %d and %d", own, share)
	}
	next := restarted(t, b)
	activate(next)
	for name, of := range map[string][2]*schedule.Budget{
		"all": {b.all, next.all}, "own": {b.get(budgetOfEndpoint, "a"), next.get(budgetOfEndpoint, "a")},
		"share": {b.get(budgetOfShare, "b"), next.get(budgetOfShare, "b")},
	} {
		was, _ := of[0].Used()
		if is, _ := of[1].Used(); was != is || was <= 0.9 {
			t.Errorf("%s: %v was used, and %v is", name, was, is)
		}
	}
	for i := range endpoints {
		if more := left(next, i); more != 0 {
			t.Errorf("endpoint %d: %d more tokens after a restart", i, more)
		}
	}
}

// Without a budget there is nothing to save, whatever is spent.
func TestNoBudgetsToSave(t *testing.T) {
	b, endpoints, m := sharing(config.Budget{}, time.Minute, "a")
	s := newSpending(endpoints[0], m, b.of(endpoints[0]))
	s.reserve()
	s.settle(nil)
	if b.revision() != 0 {
		t.Error("there is something new")
	}
	if err := b.save(func(record any) error { t.Errorf("saved %v", record); return nil }); err != nil {
		t.Error(err)
	}
}

// What is spent is new, of the budget of all as of an endpoint's own.
func TestRevisionOfBudgets(t *testing.T) {
	for _, common := range []config.Budget{{}, {TokensPerHour: 100_000}} {
		b, endpoints, m := sharing(common, time.Minute, "a", "b")
		if common == (config.Budget{}) {
			endpoints[0].Budget.TokensPerHour = 30_000
		}
		b.limit(endpoints)
		s := newSpending(endpoints[0], m, b.of(endpoints[0]))
		before := b.revision()
		if s.reserve(); b.revision() == before {
			t.Errorf("%+v: nothing is new", common)
		}
	}
}

func TestRestoreBudgetRejects(t *testing.T) {
	for _, record := range []string{``, `{}`, `{"of":"later"}`, `{"of":"all","tokens":5}`} {
		if err := newBudgets(config.Budget{}).restore([]byte(record)); err == nil {
			t.Errorf("accepted %s", record)
		}
	}
}
