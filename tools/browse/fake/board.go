// Package fake serves the status page with a made-up fleet, so that states that
// are rare in life can be looked at: the handlers are the exporter's own, what
// they tell is invented.
package fake

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/status"
)

// Board is what the page shows. It is safe for concurrent use.
type Board struct {
	mu       sync.Mutex
	version  uint64
	base     uint64 // the version of the latest reset
	details  map[string]*status.Detail
	versions map[string]uint64 // of rows, those removed included
}

// NewBoard returns a board with the given endpoints.
func NewBoard(details ...*status.Detail) *Board {
	b := &Board{}
	b.Reset(details...)
	return b
}

// Reset replaces everything, as after a restart of the exporter.
func (b *Board) Reset(details ...*status.Detail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	b.base = b.version
	b.details, b.versions = map[string]*status.Detail{}, map[string]uint64{}
	for _, d := range details {
		b.details[d.Name], b.versions[d.Name] = d, b.version
	}
}

// Set adds or replaces an endpoint.
func (b *Board) Set(d *status.Detail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	b.details[d.Name], b.versions[d.Name] = d, b.version
}

// Remove takes an endpoint away.
func (b *Board) Remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	delete(b.details, name)
	b.versions[name] = b.version
}

// Fleet returns all endpoints by name.
func (b *Board) Fleet() *status.Fleet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &status.Fleet{Version: b.version, At: now(), States: b.states(), Endpoints: b.rows(0)}
}

// Changes returns what is new since a version.
func (b *Board) Changes(since uint64) *status.Update {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := &status.Update{Version: b.version, At: now(), States: b.states()}
	if since < b.base || since > b.version {
		u.Reset, u.Endpoints = true, b.rows(0)
		return u
	}
	u.Endpoints = b.rows(since)
	for name, version := range b.versions {
		if b.details[name] == nil && version > since {
			u.Removed = append(u.Removed, name)
		}
	}
	return u
}

// Version returns the version of the latest change of an endpoint.
func (b *Board) Version(name string) (uint64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.details[name]
	return b.versions[name], ok
}

// Detail returns one endpoint.
func (b *Board) Detail(name string) (*status.Detail, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.details[name]
	if !ok {
		return nil, false
	}
	page := *d
	page.At, page.Version = now(), b.version
	return &page, true
}

func (b *Board) rows(since uint64) []*status.Row {
	rows := []*status.Row{}
	for _, name := range slices.Sorted(maps.Keys(b.details)) {
		if b.versions[name] > since {
			rows = append(rows, &b.details[name].Row)
		}
	}
	return rows
}

func (b *Board) states() map[status.State]int {
	states := map[status.State]int{}
	for _, d := range b.details {
		states[d.State]++
	}
	return states
}

// now is the time in seconds since 1970.
func now() float64 { return float64(time.Now().UnixMilli()) / 1000 }
