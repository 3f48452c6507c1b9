package app

import (
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// ownLoad knows when the exporter itself put load on an endpoint, so that what was
// measured beside it is not held against the endpoint. It is safe for concurrent
// use.
type ownLoad struct {
	mu      sync.Mutex
	running int
	ended   time.Time // the last one that did
}

func (b *ownLoad) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running++
}

func (b *ownLoad) end(now func() time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	b.ended = now()
}

// disturbed tells whether a burst ran at some time during a probe that has just
// ended and is none itself.
func (b *ownLoad) disturbed(r *result.Result) bool {
	if r.Concurrency > 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running > 0 || b.ended.After(r.Start)
}
