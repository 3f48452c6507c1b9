package store

import (
	"testing"
	"time"
)

// What was restored is handed over once, and waits for an hour after the first of it came.
func TestWaiting(t *testing.T) {
	w := NewWaiting[string, int](time.Hour)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	take := func(key string, want int, there bool) {
		t.Helper()
		if v, ok := w.Take(key, at); v != want || ok != there {
			t.Errorf("%s: got %d, %t; want %d, %t", key, v, ok, want, there)
		}
	}
	take("a", 0, false)
	w.Put("a", 1, at)
	w.Put("a", 2, at)
	at = at.Add(59 * time.Minute)
	w.Put("b", 3, at)
	w.Put("c", 4, at)
	take("a", 2, true)
	take("a", 0, false)
	if all := w.All(at); len(all) != 2 || all["b"] != 3 || all["c"] != 4 {
		t.Errorf("got %v", all)
	}
	at = at.Add(2 * time.Minute) // after the hour of a
	take("b", 0, false)
	if all := w.All(at); len(all) != 0 {
		t.Errorf("got %v after an hour", all)
	}
	w.Put("d", 5, at) // a reload, days later, has an hour of its own
	at = at.Add(59 * time.Minute)
	take("d", 5, true)
}
