package status

import (
	"slices"
	"time"
)

// sweepInterval is how often, at most, all endpoints are looked at for what time
// alone changes.
const sweepInterval = time.Second

// Fleet returns all rows. They are shared and must not be changed.
func (b *Board) Fleet() *Fleet {
	now := b.now()
	t := b.table(now, 0)
	f := &Fleet{Version: t.version, At: unixSeconds(now), States: t.states, Endpoints: t.rows}
	if f.Endpoints == nil {
		f.Endpoints = []*Row{}
	}
	return f
}

// Changes returns what has changed after a version, as Fleet or Changes told it:
// everything, where the version is older than what is remembered, or from
// another process. The rows are shared and must not be changed.
func (b *Board) Changes(since uint64) *Update {
	now := b.now()
	t := b.table(now, since)
	return &Update{
		Version: t.version, At: unixSeconds(now), States: t.states,
		Endpoints: t.rows, Removed: t.removed, Reset: t.reset,
	}
}

// table is what has changed after a version; everything with reset.
type table struct {
	version uint64
	reset   bool
	removed []string
	rows    []*Row // by name
	states  map[State]int
}

func (b *Board) table(now time.Time, since uint64) *table {
	b.sweep(now)
	t := &table{states: make(map[State]int)}
	for _, s := range States() {
		t.states[s] = 0
	}
	b.mu.Lock()
	t.version, t.reset = b.version.Load(), true
	if since >= b.removed.forgotten && since <= t.version {
		t.reset = false
		t.removed = slices.DeleteFunc(b.removed.after(since), func(name string) bool { return b.endpoints[name] != nil })
	}
	all := b.inOrder()
	b.mu.Unlock()
	if t.reset {
		since = 0
		t.rows = make([]*Row, 0, len(all))
	}
	for _, e := range all {
		row, state := e.latest(now, since)
		t.states[state]++
		if row != nil {
			t.rows = append(t.rows, row)
		}
	}
	return t
}

// sweep gives endpoints a new version that time alone has changed.
func (b *Board) sweep(now time.Time) {
	b.mu.Lock()
	if !b.swept.IsZero() && now.Sub(b.swept) < sweepInterval {
		b.mu.Unlock()
		return
	}
	b.swept = now
	all := b.inOrder()
	b.mu.Unlock()
	for _, e := range all {
		e.age(now)
	}
}

// maxTombstones bounds how many removed endpoints are remembered.
const maxTombstones = 4096

// tombstones are the endpoints that were removed, the oldest first.
type tombstones struct {
	list []tombstone
	// forgotten is the version before which endpoints may have gone that are not
	// in the list.
	forgotten uint64
}

type tombstone struct {
	name    string
	version uint64
}

func (t *tombstones) add(name string, version uint64) {
	if len(t.list) == maxTombstones {
		t.forgotten = t.list[0].version
		t.list = slices.Delete(t.list, 0, 1)
	}
	t.list = append(t.list, tombstone{name, version})
}

// after returns the names of what was removed after a version, each once,
// sorted.
func (t *tombstones) after(version uint64) []string {
	i, _ := slices.BinarySearchFunc(t.list, version+1, func(s tombstone, v uint64) int {
		if s.version < v {
			return -1
		}
		return 1
	})
	var names []string
	for _, s := range t.list[i:] {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
