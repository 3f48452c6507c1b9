package status

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Board is the store behind the status page. It is safe for concurrent use, and
// writers do not wait for readers: each endpoint has a lock of its own.
type Board struct {
	now  func() time.Time
	pool series.Pool // of the logs of all endpoints

	// version is that of the latest change. A change is made while the lock of its endpoint, or mu, is held, and gets
	// its version there: who has read the version and then gets the lock sees all changes up to it.
	version atomic.Uint64

	mu        sync.Mutex
	endpoints []*Endpoint       // those that are shown, by name; never changed
	removed   map[string]uint64 // the versions of those that are gone, by name
	forgotten uint64            // the version before which others may have gone
	swept     time.Time
	gateways  map[string]*Gateway // by name
	restarts  []int64             // of the exporter, Unix times, the latest last
}

// NewBoard returns a board that shows no endpoints. now is the clock, and that of the starts of the results too.
func NewBoard(now func() time.Time) *Board {
	b := &Board{now: now, removed: map[string]uint64{}, gateways: map[string]*Gateway{}}
	// Versions go on above those of an earlier process, so that a page that knows one of those is reset.
	b.forgotten = uint64(max(0, now().UnixMicro()))
	b.version.Store(b.forgotten)
	return b
}

// maxRemoved bounds how many removed endpoints are remembered.
const maxRemoved = 4096

// Revision returns a number that differs when something has changed.
func (b *Board) Revision() uint64 { return b.version.Load() }

// Show makes these the endpoints that are shown, each under its own name.
func (b *Board) Show(all []*Endpoint) {
	all = slices.SortedFunc(slices.Values(all), func(x, y *Endpoint) int { return strings.Compare(x.name, y.name) })
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.endpoints
	b.endpoints = all
	for _, e := range before {
		if named(all, e.name) == nil {
			if len(b.removed) == maxRemoved {
				clear(b.removed)
				b.forgotten = b.version.Load()
			}
			b.removed[e.name] = b.version.Add(1)
		}
	}
	for _, e := range all {
		if named(before, e.name) != e {
			delete(b.removed, e.name)
			e.mu.Lock()
			e.touch()
			e.mu.Unlock()
		}
	}
}

// named returns the endpoint of a name among those in order; nil for none.
func named(all []*Endpoint, name string) *Endpoint {
	i, ok := slices.BinarySearchFunc(all, name, func(e *Endpoint, name string) int { return strings.Compare(e.name, name) })
	if !ok {
		return nil
	}
	return all[i]
}

func (b *Board) all() []*Endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.endpoints
}

// sweepInterval is how often, at most, all endpoints are looked at for what time alone changes.
const sweepInterval = time.Second

// Fleet returns all rows. They are shared and must not be changed.
func (b *Board) Fleet() *Fleet {
	u := b.Changes(0)
	return &Fleet{u.Version, u.At, u.States, u.Endpoints}
}

// Changes returns what has changed after a version that Fleet or Changes returned: everything, where the version is
// older than what is remembered, or from another process. The rows are shared and must not be changed.
func (b *Board) Changes(since uint64) *Update {
	now := b.now()
	b.sweep(now)
	u := &Update{At: stats.UnixSeconds(now), States: make(map[health.State]int), Endpoints: []*Row{}}
	for _, s := range health.States() {
		u.States[s] = 0
	}
	b.mu.Lock()
	u.Version = b.version.Load()
	if u.Reset = since < b.forgotten || since > u.Version; u.Reset {
		since = 0
	} else {
		for name, version := range b.removed {
			if version > since {
				u.Removed = append(u.Removed, name)
			}
		}
		slices.Sort(u.Removed)
	}
	all := b.endpoints
	b.mu.Unlock()
	for _, e := range all {
		row, state := e.latest(now, since)
		u.States[state]++
		if row != nil {
			u.Endpoints = append(u.Endpoints, row)
		}
	}
	return u
}

// sweep gives endpoints a new version that time alone has changed.
func (b *Board) sweep(now time.Time) {
	b.mu.Lock()
	if !b.swept.IsZero() && now.Sub(b.swept) < sweepInterval {
		b.mu.Unlock()
		return
	}
	b.swept = now
	all := b.endpoints
	b.mu.Unlock()
	for _, e := range all {
		e.age(now)
	}
}
