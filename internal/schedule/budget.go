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

	mu            sync.Mutex
	tokensPerHour int     // 0 is no limit
	usdPerDay     float64 // 0 is no limit
	tokens, usd   slidingSum
	held          Cost   // by runs in flight
	revision      uint64 // grows with each change
}

// NewBudget returns a budget; a limit of 0 is none.
func NewBudget(tokensPerHour int, usdPerDay float64, now func() time.Time) *Budget {
	start := now()
	began := time.Duration(max(0, start.UnixNano()))
	return &Budget{
		elapsed: func() time.Duration { return began + max(0, now().Sub(start)) }, tokensPerHour: tokensPerHour, usdPerDay: usdPerDay,
		tokens: newSlidingSum(tokenStep, 60), usd: newSlidingSum(usdStep, 96),
	}
}

// Limit changes the limits; what was spent stays spent.
func (b *Budget) Limit(tokensPerHour int, usdPerDay float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokensPerHour, b.usdPerDay = tokensPerHour, usdPerDay
}

// Reserve sets aside what a run may cost at most. It returns false, and sets nothing aside, where that could exceed a
// limit. What was reserved must be settled.
func (b *Budget) Reserve(most Cost) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	if b.tokensPerHour > 0 && b.tokens.sum(now)+float64(b.held.Tokens+most.Tokens) > float64(b.tokensPerHour) {
		return false
	}
	if b.usdPerDay > 0 && b.usd.sum(now)+b.held.USD+most.USD > b.usdPerDay {
		return false
	}
	b.held.Tokens += most.Tokens
	b.held.USD += most.USD
	b.revision++
	return true
}

// Settle replaces what was reserved by what was spent.
func (b *Budget) Settle(reserved, spent Cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held.Tokens -= reserved.Tokens
	b.held.USD = math.Max(0, b.held.USD-reserved.USD)
	now := b.elapsed()
	b.tokens.add(now, float64(spent.Tokens))
	b.usd.add(now, spent.USD)
	b.revision++
}

// Idle reports whether nothing is spent or set aside, so that a new budget would be the same.
func (b *Budget) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	return b.held == Cost{} && b.tokens.sum(now) == 0 && b.usd.sum(now) == 0
}

// Used returns the shares of the limits that are spent or set aside; negative without such a limit.
func (b *Budget) Used() (tokens, usd float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tokens, usd = -1, -1
	now := b.elapsed()
	if b.tokensPerHour > 0 {
		tokens = (b.tokens.sum(now) + float64(b.held.Tokens)) / float64(b.tokensPerHour)
	}
	if b.usdPerDay > 0 {
		usd = (b.usd.sum(now) + b.held.USD) / b.usdPerDay
	}
	return tokens, usd
}

// slidingSum sums what was added in the latest span of time. It forgets in steps of
// an nth of the span, and a step too late rather than too early.
type slidingSum struct {
	step  time.Duration
	parts []float64 // a ring; the parts of the span and the one that goes on
	last  int64     // the step of the latest part
}

func newSlidingSum(step time.Duration, n int) slidingSum {
	return slidingSum{step: step, parts: make([]float64, n+1)}
}

// advance empties the parts that time has left behind.
func (w *slidingSum) advance(now time.Duration) {
	step := int64(now / w.step)
	for n := min(step-w.last, int64(len(w.parts))); n > 0; n-- {
		w.parts[(step-n+1)%int64(len(w.parts))] = 0
	}
	w.last = step
}

func (w *slidingSum) add(now time.Duration, x float64) {
	w.advance(now)
	w.parts[w.last%int64(len(w.parts))] += x
}

func (w *slidingSum) sum(now time.Duration) float64 {
	w.advance(now)
	var sum float64
	for _, x := range w.parts {
		sum += x
	}
	return sum
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
	return b.tokensPerHour > 0 || b.usdPerDay > 0
}

// Save returns what is spent, with what runs in flight hold: it may be where the process is killed.
func (b *Budget) Save() SavedBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.elapsed()
	return SavedBudget{Tokens: b.tokens.save(now, float64(b.held.Tokens)), USD: b.usd.save(now, b.held.USD)}
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
