package workload

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Facts are what is known of an endpoint as a whole, whatever shows it: at most one finding of each type of health.Facts. The zero value and
// nil know nothing. They are safe for concurrent use.
type Facts struct {
	mu     sync.Mutex
	latest atomic.Pointer[Findings]
}

// Latest returns what is known now, never changed once made; nil is nothing.
func (f *Facts) Latest() *Findings {
	if f == nil {
		return nil
	}
	return f.latest.Load()
}

// A FactType is the type of the facts of one kind, whose zero value is not known.
type FactType interface {
	comparable
	Finding
}

// SetFact replaces the fact of a type, and returns the one before.
func SetFact[F FactType](facts *Facts, fact F) (before F) {
	before, _ = ChangeFact(facts, func(F) F { return fact })
	return before
}

// ChangeFact replaces the fact of a type by what becomes of it, and returns both. Its calls come one after the other.
func ChangeFact[F FactType](facts *Facts, change func(before F) F) (before, now F) {
	facts.mu.Lock()
	defer facts.mu.Unlock()
	all := facts.latest.Load()
	before, _ = In[F](all)
	if now = change(before); now == before {
		return before, now
	}
	next := new(Findings)
	if all != nil {
		next.All = slices.DeleteFunc(slices.Clone(all.All), func(f Finding) bool { _, same := f.(F); return same })
	}
	if none := *new(F); now != none {
		next.All = append(next.All, now)
	}
	facts.latest.Store(next)
	return before, now
}

// Fact is a kind of fact of an endpoint.
type Fact struct {
	// In returns the fact of the kind; nil is not known.
	In func(all *Findings) Finding
	// Metrics have all but the texts, the unit and the labels, which are in families.yml of the collector.
	Metrics []Metric
}

// FactOf returns the kind of the facts of a type.
func FactOf[F Finding](metrics ...Metric) Fact {
	return Fact{func(all *Findings) Finding {
		if f, ok := In[F](all); ok {
			return f
		}
		return nil
	}, metrics}
}

// NoFigures is of findings that the page of an endpoint has a drawing of its own for, or that are shown elsewhere.
type NoFigures struct{}

// Figures implements Finding.
func (NoFigures) Figures() []Figure { return nil }
