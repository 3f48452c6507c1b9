package schedule

import (
	"math"
	"sync"
	"time"
)

// Cost is what runs spend.
type Cost struct {
	// Tokens counts those of prompts and answers together.
	Tokens int
	// USD is money, in US dollars.
	USD float64
}

// The longest that a Budget remembers: the hour and the day that it limits, and the step in which it forgets.
const (
	TokenWindow = 60*tokenStep + tokenStep
	USDWindow   = 96*usdStep + usdStep

	tokenStep, usdStep = time.Minute, 15 * time.Minute
)

// Budget limits what runs may spend: tokens in any hour, money in any 24 hours. It begins empty, or with what Restore
// takes from an earlier process. It is safe for concurrent use.
type Budget struct {
	// elapsed is the time since 1970 when the budget began and, from then on, of a clock that no one sets.
	elapsed func() time.Duration

	mu          sync.Mutex
	tokens, usd account
	revision    uint64 // grows with each change
}

// NewBudget returns a budget; a limit of 0 is none.
func NewBudget(tokensPerHour int, usdPerDay float64, now func() time.Time) *Budget {
	start := now()
	began := time.Duration(max(0, start.UnixNano()))
	return &Budget{
		elapsed: func() time.Duration { return began + max(0, now().Sub(start)) },
		tokens:  account{limit: float64(tokensPerHour), step: tokenStep, parts: make([]float64, 60+1)},
		usd:     account{limit: usdPerDay, step: usdStep, parts: make([]float64, 96+1)},
	}
}

// Limit changes the limits; what was spent stays spent.
func (b *Budget) Limit(tokensPerHour int, usdPerDay float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens.limit, b.usd.limit = float64(tokensPerHour), usdPerDay
}

// Reserve sets aside what a run may cost at most. It returns false, and sets nothing aside, where that could exceed a
// limit. What was reserved must be settled.
func (b *Budget) Reserve(most Cost) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	if !b.tokens.hasRoom(now, float64(most.Tokens)) || !b.usd.hasRoom(now, most.USD) {
		return false
	}
	b.tokens.held += float64(most.Tokens)
	b.usd.held += most.USD
	b.revision++
	return true
}

// Settle replaces what was reserved by what was spent.
func (b *Budget) Settle(reserved, spent Cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	b.tokens.settle(now, float64(reserved.Tokens), float64(spent.Tokens))
	b.usd.settle(now, reserved.USD, spent.USD)
	b.revision++
}

// Idle reports whether nothing is spent or set aside, so that a new budget would be the same.
func (b *Budget) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	return b.tokens.used(now) == 0 && b.usd.used(now) == 0
}

// Used returns the shares of the limits that are spent or set aside; negative without such a limit.
func (b *Budget) Used() (tokens, usd float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	return b.tokens.share(now), b.usd.share(now)
}

// account is what a budget knows of tokens, or of money. It forgets what was spent in steps of an nth of its span of
// time, and a step too late rather than too early.
type account struct {
	limit float64 // 0 is none
	held  float64 // by runs in flight
	step  time.Duration
	parts []float64 // a ring of what was spent; the parts of the span and the one that goes on
	last  int64     // the step of the latest part
}

// advance empties the parts that time has left behind.
func (a *account) advance(now time.Duration) {
	step := int64(now / a.step)
	for n := min(step-a.last, int64(len(a.parts))); n > 0; n-- {
		a.parts[(step-n+1)%int64(len(a.parts))] = 0
	}
	a.last = step
}

func (a *account) settle(now time.Duration, reserved, spent float64) {
	a.advance(now)
	a.held = max(0, a.held-reserved)
	a.parts[a.last%int64(len(a.parts))] += spent
}

// used returns what is spent or set aside.
func (a *account) used(now time.Duration) float64 {
	a.advance(now)
	var sum float64
	for _, x := range a.parts {
		sum += x
	}
	return sum + a.held
}

func (a *account) hasRoom(now time.Duration, most float64) bool {
	return a.limit <= 0 || a.used(now)+most <= a.limit
}

// share returns used as a share of the limit; negative without one.
func (a *account) share(now time.Duration) float64 {
	if a.limit <= 0 {
		return -1
	}
	return a.used(now) / a.limit
}

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
	return b.tokens.limit > 0 || b.usd.limit > 0
}

// Save returns what is spent, with what runs in flight hold: it may be where the process is killed.
func (b *Budget) Save() SavedBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	return SavedBudget{Tokens: b.tokens.save(now), USD: b.usd.save(now)}
}

// Restore adds what an earlier process has spent. What the clock places in the future is spent now.
func (b *Budget) Restore(s SavedBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	b.tokens.restore(now, s.Tokens)
	b.usd.restore(now, s.USD)
	b.revision++
}

// save returns the parts that count, the oldest first, with what is held in the latest.
func (a *account) save(now time.Duration) []SavedSum {
	a.advance(now)
	var saved []SavedSum
	n := int64(len(a.parts))
	for step := max(0, a.last-n+1); step <= a.last; step++ {
		x := a.parts[step%n]
		if step == a.last {
			x += a.held
		}
		if x > 0 {
			saved = append(saved, SavedSum{(time.Duration(step) * a.step).Seconds(), x})
		}
	}
	return saved
}

func (a *account) restore(now time.Duration, saved []SavedSum) {
	a.advance(now)
	n := int64(len(a.parts))
	for _, s := range saved {
		at, x := s[0], s[1]
		if !(x > 0) || math.IsInf(x, 0) || math.IsNaN(at) {
			continue
		}
		step := int64(math.Min(at/a.step.Seconds(), float64(a.last)))
		if step > a.last-n {
			a.parts[step%n] += x
		}
	}
}
