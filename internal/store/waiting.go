package store

import (
	"maps"
	"sync"
	"time"
)

// maxWaiting bounds the records of a Waiting.
const maxWaiting = 1 << 20

// Waiting holds what was restored until its owner is there, which discovery may find later.
// It is safe for concurrent use.
type Waiting[K comparable, V any] struct {
	lasts time.Duration

	mu    sync.Mutex
	all   map[K]V   // nil while there is none: a map keeps the room that it had
	since time.Time // when the first of them came
}

// NewWaiting returns an empty one. What it holds is forgotten so long after the first of it
// came.
func NewWaiting[K comparable, V any](lasts time.Duration) *Waiting[K, V] {
	return &Waiting[K, V]{lasts: lasts}
}

// Put adds a value, or replaces that of its key. It returns false where there is no room.
func (w *Waiting[K, V]) Put(key K, v V, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forget(now); w.all == nil {
		w.all, w.since = map[K]V{}, now
	}
	if _, known := w.all[key]; !known && len(w.all) >= maxWaiting {
		return false
	}
	w.all[key] = v
	return true
}

// Take returns the value of a key, once.
func (w *Waiting[K, V]) Take(key K, now time.Time) (v V, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	v, ok = w.all[key]
	if delete(w.all, key); len(w.all) == 0 {
		w.all = nil
	}
	return v, ok
}

// All returns what still waits.
func (w *Waiting[K, V]) All(now time.Time) map[K]V {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	return maps.Clone(w.all)
}

// forget drops what has waited long enough.
func (w *Waiting[K, V]) forget(now time.Time) {
	if now.Sub(w.since) > w.lasts {
		w.all = nil
	}
}
