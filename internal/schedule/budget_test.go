package schedule

import (
	"math"
	"testing"
	"time"
)

// manual is a clock that is set by hand.
type manual struct{ at time.Time }

func newManual() *manual { return &manual{time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)} }

func (m *manual) now() time.Time          { return m.at }
func (m *manual) advance(d time.Duration) { m.at = m.at.Add(d) }

func TestBudgetStopsBeforeItIsExceeded(t *testing.T) {
	clock := newManual()
	b := NewBudget(1000, 0, clock.now)
	most := Cost{Tokens: 300}
	for i := range 3 {
		if !b.Reserve(most) {
			t.Fatalf("reservation %d of 300 of 1000 was refused", i+1)
		}
	}
	if b.Reserve(most) {
		t.Error("1200 of 1000 could be reserved")
	}
	if !b.Reserve(Cost{Tokens: 100}) {
		t.Error("the last 100 of 1000 were refused")
	}
	// 250, 250 and 250 were spent, and the 100 were not.
	for range 3 {
		b.Settle(most, Cost{Tokens: 250})
	}
	b.Settle(Cost{Tokens: 100}, Cost{})
	if tokens, usd := b.Used(); tokens != 0.75 || usd >= 0 {
		t.Errorf("used %v of the tokens and %v of the money, want 0.75 and none", tokens, usd)
	}
	if b.Reserve(most) || !b.Reserve(Cost{Tokens: 250}) {
		t.Error("want room for 250 and no more")
	}
}

// What was spent counts for an hour, and up to a minute longer.
func TestBudgetComesBack(t *testing.T) {
	clock := newManual()
	b := NewBudget(100, 0, clock.now)
	spend := func() bool {
		ok := b.Reserve(Cost{Tokens: 60})
		if ok {
			b.Settle(Cost{Tokens: 60}, Cost{Tokens: 60})
		}
		return ok
	}
	if !spend() || spend() {
		t.Fatal("want 60 of 100 once")
	}
	clock.advance(time.Hour - time.Second)
	if spend() {
		t.Error("120 of 100 within an hour")
	}
	clock.advance(time.Minute + time.Second)
	if !spend() {
		t.Error("refused after an hour and a minute")
	}
	clock.advance(1000 * time.Hour)
	if tokens, _ := b.Used(); tokens != 0 {
		t.Errorf("used %v after a long time, want 0", tokens)
	}
}

func TestBudgetOfMoney(t *testing.T) {
	clock := newManual()
	b := NewBudget(0, 0.10, clock.now)
	for range 9 {
		if !b.Reserve(Cost{Tokens: 1e9, USD: 0.01}) {
			t.Fatal("9 of 10 cents were refused")
		}
		b.Settle(Cost{Tokens: 1e9, USD: 0.01}, Cost{Tokens: 5, USD: 0.01})
	}
	if b.Reserve(Cost{USD: 0.02}) {
		t.Error("11 of 10 cents could be reserved")
	}
	if tokens, usd := b.Used(); tokens >= 0 || math.Abs(usd-0.9) > 1e-9 {
		t.Errorf("used %v of the tokens and %v of the money, want none and 0.9", tokens, usd)
	}
	clock.advance(24*time.Hour + 15*time.Minute)
	if !b.Reserve(Cost{USD: 0.10}) {
		t.Error("refused after a day")
	}
}

func TestBudgetWithoutLimits(t *testing.T) {
	b := NewBudget(0, 0, time.Now)
	if !b.Reserve(Cost{Tokens: math.MaxInt32, USD: 1e9}) {
		t.Error("refused without a limit")
	}
	if tokens, usd := b.Used(); tokens >= 0 || usd >= 0 {
		t.Errorf("used %v, %v, want no such limits", tokens, usd)
	}
}

func TestBudgetIdle(t *testing.T) {
	clock := newManual()
	b := NewBudget(100, 1, clock.now)
	if !b.Idle() {
		t.Error("a new budget is not idle")
	}
	b.Reserve(Cost{Tokens: 5})
	if b.Idle() {
		t.Error("idle with a run in flight")
	}
	b.Settle(Cost{Tokens: 5}, Cost{Tokens: 5, USD: 0.5})
	clock.advance(2 * time.Hour)
	if b.Idle() {
		t.Error("idle although money of this day is spent")
	}
	clock.advance(24 * time.Hour)
	if !b.Idle() {
		t.Error("not idle a day after the last run")
	}
}
