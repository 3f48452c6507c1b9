package schedule

import (
	"math"
	"time"
)

// SavedBudget is what was spent of a budget, in the steps in which it is forgotten.
type SavedBudget struct {
	Tokens []SavedSum `json:"tokens,omitempty"`
	USD    []SavedSum `json:"usd,omitempty"`
}

// SavedSum is the Unix time in seconds at which a step began, and what was spent in it.
type SavedSum [2]float64

// Revision returns a number that grows when something is set aside or spent.
func (b *Budget) Revision() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision
}

// Limited reports whether the budget limits anything.
func (b *Budget) Limited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokensPerHour > 0 || b.usdPerDay > 0
}

// Save returns what is spent. What runs in flight hold counts as spent, for it may be
// where the process is killed.
func (b *Budget) Save() SavedBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	return SavedBudget{Tokens: b.tokens.save(now, float64(b.held.Tokens)), USD: b.usd.save(now, b.held.USD)}
}

// Restore adds what an earlier process has spent. What the clock says is still to be
// spent counts as spent now.
func (b *Budget) Restore(s SavedBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	b.tokens.restore(now, s.Tokens)
	b.usd.restore(now, s.USD)
	b.revision++
}

// save returns the parts that count, the oldest first, with so much more in the latest.
func (w *slidingSum) save(now time.Duration, held float64) []SavedSum {
	w.advance(now)
	var saved []SavedSum
	n := int64(len(w.parts))
	for step := max(0, w.last-n+1); step <= w.last; step++ {
		x := w.parts[step%n]
		if step == w.last {
			x += held
		}
		if x > 0 {
			saved = append(saved, SavedSum{(time.Duration(step) * w.step).Seconds(), x})
		}
	}
	return saved
}

func (w *slidingSum) restore(now time.Duration, saved []SavedSum) {
	w.advance(now)
	n := int64(len(w.parts))
	for _, s := range saved {
		at, x := s[0], s[1]
		if !(x > 0) || math.IsInf(x, 0) || math.IsNaN(at) {
			continue
		}
		step := int64(math.Min(at/w.step.Seconds(), float64(w.last)))
		if step > w.last-n {
			w.parts[step%n] += x
		}
	}
}
