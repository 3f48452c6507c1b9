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

// SetFact replaces the fact of a type, and returns the one before; the zero value of the type is not known.
func SetFact[F interface {
	comparable
	Finding
}](facts *Facts, fact F) (before F) {
	facts.mu.Lock()
	defer facts.mu.Unlock()
	all := facts.latest.Load()
	before, _ = In[F](all)
	if fact == before {
		return before
	}
	next := new(Findings)
	if all != nil {
		next.All = slices.DeleteFunc(slices.Clone(all.All), func(f Finding) bool { _, same := f.(F); return same })
	}
	if none := *new(F); fact != none {
		next.All = append(next.All, fact)
	}
	facts.latest.Store(next)
	return before
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
