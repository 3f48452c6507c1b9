package status

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// Board is the store behind the status page. It is safe for concurrent use, and
// who writes to it does not wait for who reads it: each endpoint has a lock of
// its own.
type Board struct {
	now      func() time.Time
	began    int64                    // of histories, see tenths
	outcomes map[result.Outcome]uint8 // index in result.Outcomes
	open     atomic.Int64             // series of all endpoints

	// version is that of the latest change. A change is made while the lock of
	// its endpoint, or mu, is held, and gets its version there: who has read the
	// version and then gets the lock sees all changes up to it.
	version atomic.Uint64

	mu        sync.Mutex
	endpoints map[string]*endpoint
	sorted    []*endpoint // by name; nil is to be made anew, never changed
	removed   tombstones
	swept     time.Time
}

// NewBoard returns an empty store. now is the clock, and that of the starts of
// the results too.
func NewBoard(now func() time.Time) *Board {
	start := now()
	b := &Board{
		now: now, began: tenths(start),
		outcomes:  make(map[result.Outcome]uint8),
		endpoints: make(map[string]*endpoint),
	}
	for i, o := range result.Outcomes() {
		b.outcomes[o] = uint8(i)
	}
	// Versions go on above those of an earlier process, so that a page that knows
	// one of those can be told to begin anew.
	first := uint64(max(0, start.UnixMicro()))
	b.version.Store(first)
	b.removed.forgotten = first
	return b
}

// SetEndpoint adds an endpoint, or changes its configuration: its series and
// their history stay. The configuration must not be changed afterwards.
func (b *Board) SetEndpoint(cfg *config.Endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.endpoints[cfg.Name]; e != nil {
		e.configure(cfg)
		return
	}
	e := &endpoint{board: b, name: cfg.Name, state: Waiting, since: b.now()}
	e.configure(cfg)
	b.endpoints[cfg.Name] = e
	b.sorted = nil
}

// RemoveEndpoint takes an endpoint and its series off the board. What is
// observed into them later is lost.
func (b *Board) RemoveEndpoint(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.endpoints[name]
	if e == nil {
		return
	}
	b.open.Add(-e.retire())
	delete(b.endpoints, name)
	b.sorted = nil
	b.removed.add(name, b.version.Add(1))
}

// OpenSeries adds a series, or changes the options of the one that is there. The
// page shows the series in the order of these calls. What is observed into a series of an endpoint that is not on the board is
// lost.
func (b *Board) OpenSeries(id result.SeriesID, o SeriesOptions) *Probes {
	e := b.endpoint(id.Endpoint)
	if e == nil {
		return &Probes{endpoint: &endpoint{board: b}, closed: true}
	}
	return e.openSeries(id, o)
}

// CloseSeries takes a series off the board. What is observed into it later is
// lost.
func (b *Board) CloseSeries(id result.SeriesID) {
	if e := b.endpoint(id.Endpoint); e != nil {
		e.closeSeries(id)
	}
}

// SetServers replaces what is known of the servers behind an endpoint. The
// statuses must not be changed afterwards.
func (b *Board) SetServers(endpoint string, statuses []engine.Status) {
	if e := b.endpoint(endpoint); e != nil {
		e.setServers(statuses)
	}
}

// Note adds something that happened to the changes of an endpoint. The text may
// quote a server.
func (b *Board) Note(endpoint, module, text string) {
	if e := b.endpoint(endpoint); e != nil {
		e.note(module, harmless(text))
	}
}

// endpoint returns the endpoint of a name; nil for none.
func (b *Board) endpoint(name string) *endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.endpoints[name]
}

// inOrder returns the endpoints by name; b.mu is held.
func (b *Board) inOrder() []*endpoint {
	if b.sorted == nil {
		b.sorted = make([]*endpoint, 0, len(b.endpoints))
		for _, e := range b.endpoints {
			b.sorted = append(b.sorted, e)
		}
		slices.SortFunc(b.sorted, func(x, y *endpoint) int { return strings.Compare(x.name, y.name) })
	}
	return b.sorted
}
