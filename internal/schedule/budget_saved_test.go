package schedule

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// restarted returns a budget of a new process, with what the one before has saved.
func restarted(t *testing.T, b *Budget, tokens int, usd float64, now func() time.Time) *Budget {
	t.Helper()
	text, err := json.Marshal(b.Save())
	if err != nil {
		t.Fatal(err)
	}
	var s SavedBudget
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	next := NewBudget(tokens, usd, now)
	next.Restore(s)
	return next
}

func spend(b *Budget, tokens int, usd float64) bool {
	c := Cost{tokens, usd}
	if !b.Reserve(c) {
		return false
	}
	b.Settle(c, c)
	return true
}

// However often the process restarts, an hour has one allowance, and after it the
// next: what is spent gets no younger by being saved.
func TestBudgetOverRestarts(t *testing.T) {
	clock := newManual()
	b := NewBudget(100, 1, clock.now)
	if !spend(b, 60, 0.6) {
		t.Fatal("60 of 100 were refused")
	}
	for i := range 59 * 6 { // each 10 s
		clock.advance(10 * time.Second)
		b = restarted(t, b, 100, 1, clock.now)
		if tokens, usd := b.Used(); tokens != 0.6 || usd != 0.6 {
			t.Fatalf("after restart %d: used %v and %v", i+1, tokens, usd)
		}
	}
	if spend(b, 60, 0) || !spend(b, 40, 0) {
		t.Error("want room for 40 and no more")
	}
	clock.advance(2*time.Minute + time.Second) // an hour and a minute after the 60
	b = restarted(t, b, 100, 1, clock.now)
	if tokens, usd := b.Used(); tokens != 0.4 || usd != 0.6 {
		t.Errorf("after an hour: used %v and %v, want 0.4 and 0.6", tokens, usd)
	}
	clock.advance(25 * time.Hour)
	if b = restarted(t, b, 100, 1, clock.now); !b.Idle() {
		t.Error("not idle after a day")
	}
}

// What is in flight as the process is killed may have been spent.
func TestBudgetOfAKilledProcess(t *testing.T) {
	clock := newManual()
	b := NewBudget(100, 1, clock.now)
	before := b.Revision()
	b.Reserve(Cost{Tokens: 70, USD: 0.7})
	if b.Revision() == before {
		t.Error("nothing is new after a reservation")
	}
	if tokens, usd := restarted(t, b, 100, 1, clock.now).Used(); tokens != 0.7 || usd != 0.7 {
		t.Errorf("used %v and %v, want 0.7", tokens, usd)
	}
}

// A clock that was set back does not free what is spent, nor keeps it for longer than
// a window from now; one that was set forward frees it.
func TestBudgetAfterAStepOfTheClock(t *testing.T) {
	clock := newManual()
	b := NewBudget(100, 0, clock.now)
	spend(b, 60, 0)
	clock.at = clock.at.Add(-10 * time.Hour)
	back := restarted(t, b, 100, 0, clock.now)
	if tokens, _ := back.Used(); tokens != 0.6 {
		t.Errorf("set back: used %v", tokens)
	}
	clock.advance(TokenWindow + time.Second)
	if !back.Idle() {
		t.Error("set back: not free after a window")
	}
	clock = newManual()
	b = NewBudget(100, 0, clock.now)
	spend(b, 60, 0)
	clock.at = clock.at.Add(10 * time.Hour)
	if !restarted(t, b, 100, 0, clock.now).Idle() {
		t.Error("set forward: not free")
	}
}

// What no budget saves changes nothing, and a clock before 1970 does no harm.
func TestBudgetRestoresNoNonsense(t *testing.T) {
	now := func() time.Time { return time.Unix(-5, 0) }
	b := NewBudget(100, 1, now)
	b.Restore(SavedBudget{
		Tokens: []SavedSum{{0, -5}, {0, math.NaN()}, {0, math.Inf(1)}, {math.NaN(), 5}, {-1e300, 5}, {math.Inf(-1), 5}},
		USD:    []SavedSum{{1e300, 0.25}, {math.Inf(1), 0.25}},
	})
	if tokens, usd := b.Used(); tokens != 0 || usd != 0.5 {
		t.Errorf("used %v and %v, want 0 and 0.5", tokens, usd)
	}
}
