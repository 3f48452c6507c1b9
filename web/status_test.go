package web

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/inference-exporter/inference_exporter/status"
)

// table is a status with a history of its own: each change has a version.
type table struct {
	mu      sync.Mutex
	version uint64
	rows    map[string]uint64 // the version of each endpoint
	gone    map[string]uint64
	asked   []uint64 // since which version changes were asked for
	fleets  int      // how often all was asked for
	details int      // how often an endpoint was
}

func newTable(names ...string) *table {
	t := &table{rows: make(map[string]uint64), gone: make(map[string]uint64)}
	t.change(names...)
	return t
}

// change makes each of the endpoints a new one or a changed one.
func (t *table) change(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		t.version++
		t.rows[name] = t.version
		delete(t.gone, name)
	}
}

func (t *table) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	delete(t.rows, name)
	t.gone[name] = t.version
}

// since returns the endpoints with a newer version.
func (t *table) since(version uint64) []*status.Row {
	var rows []*status.Row
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		if t.rows[name] > version {
			rows = append(rows, &status.Row{Name: name, State: status.Up, Since: float64(t.rows[name])})
		}
	}
	return rows
}

func (t *table) Fleet() *status.Fleet {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fleets++
	return &status.Fleet{
		Version: t.version, At: 1000, States: map[status.State]int{status.Up: len(t.rows)}, Endpoints: t.since(0),
	}
}

func (t *table) Changes(since uint64) *status.Update {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = append(t.asked, since)
	u := &status.Update{Version: t.version, At: 1000, States: map[status.State]int{status.Up: len(t.rows)}}
	if since > t.version { // a version of another process
		u.Reset, since = true, 0
	} else {
		for _, name := range slices.Sorted(maps.Keys(t.gone)) {
			if t.gone[name] > since {
				u.Removed = append(u.Removed, name)
			}
		}
	}
	u.Endpoints = t.since(since)
	return u
}

func (t *table) Version(name string) (uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, ok := t.rows[name]
	return version, ok
}

func (t *table) Detail(name string) (*status.Detail, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.details++
	version, ok := t.rows[name]
	return &status.Detail{Row: status.Row{Name: name, State: status.Up}, At: 1000, Version: version}, ok
}

// questions returns since which versions changes were asked for so far.
func (t *table) questions() []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.asked)
}

// newStatusSite is a site whose status page shows s; more changes its options.
func newStatusSite(t testing.TB, s Status, more ...func(*Options)) *site {
	return newSiteWith(t, append([]func(*Options){func(o *Options) { o.Status = s }}, more...)...)
}
