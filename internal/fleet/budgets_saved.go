package fleet

import (
	"encoding/json"
	"errors"
	"maps"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
)

// savedBudget is a record of what a fleet's budgets keep over a restart.
type savedBudget struct {
	Of       budgetKind `json:"of"`
	Endpoint string     `json:"endpoint,omitempty"`
	schedule.SavedBudget
}

// budgetKind is which of the budgets a record is of.
type budgetKind string

const (
	budgetOfAll      budgetKind = "all"
	budgetOfRest     budgetKind = "rest"
	budgetOfEndpoint budgetKind = "endpoint" // its own
	budgetOfShare    budgetKind = "share"    // an endpoint's part of all
)

// SaveBudgets puts what is spent of the budgets as records, from which RestoreBudgets
// makes it again in another process. It returns the first error of put. It is safe for
// concurrent use.
func (f *Fleet) SaveBudgets(put func(record any) error) error { return f.budgets.save(put) }

// RestoreBudgets takes a record of an earlier process. It comes before Apply.
func (f *Fleet) RestoreBudgets(record []byte) error { return f.budgets.restore(record) }

// BudgetsRevision returns a number that differs when there is something new for
// SaveBudgets. It is safe for concurrent use.
func (f *Fleet) BudgetsRevision() uint64 { return f.budgets.revision() }

func (b *budgets) save(put func(record any) error) error {
	b.mu.Lock()
	each, shares := maps.Clone(b.each), maps.Clone(b.shares)
	b.mu.Unlock()
	var all []savedBudget
	if b.all.Limited() {
		all = append(all, savedBudget{Of: budgetOfAll, SavedBudget: b.all.Save()}, savedBudget{Of: budgetOfRest, SavedBudget: b.rest.Save()})
	}
	for name, own := range each {
		all = append(all, savedBudget{budgetOfEndpoint, name, own.Save()})
	}
	for name, share := range shares {
		all = append(all, savedBudget{budgetOfShare, name, share.Save()})
	}
	for _, s := range all {
		if len(s.Tokens) == 0 && len(s.USD) == 0 {
			continue
		}
		if err := put(s); err != nil {
			return err
		}
	}
	return nil
}

// restore adds what an earlier process has spent of a budget. Budgets of endpoints get
// their limits as those become active.
func (b *budgets) restore(record []byte) error {
	var s savedBudget
	if err := json.Unmarshal(record, &s); err != nil {
		return err
	}
	switch s.Of {
	case budgetOfAll:
		b.all.Restore(s.SavedBudget)
	case budgetOfRest:
		b.rest.Restore(s.SavedBudget)
	case budgetOfEndpoint:
		restoreIn(b.each, s)
	case budgetOfShare:
		restoreIn(b.shares, s)
	default:
		return errors.New("not a record of a budget")
	}
	return nil
}

func restoreIn(of map[string]*schedule.Budget, s savedBudget) {
	if of[s.Endpoint] == nil {
		of[s.Endpoint] = newBudget(config.Budget{})
	}
	of[s.Endpoint].Restore(s.SavedBudget)
}

// revision sums up the revisions of all that are saved. What an endpoint spends of its
// share it spends of all.
func (b *budgets) revision() (sum uint64) {
	if b.all.Limited() {
		sum = b.all.Revision()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, own := range b.each {
		sum += own.Revision()
	}
	return sum
}
