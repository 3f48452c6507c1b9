package status

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/engine"
)

// names returns those of rows.
func names(rows []*Row) []string {
	var all []string
	for _, r := range rows {
		all = append(all, r.Name)
	}
	return all
}

func TestChanges(t *testing.T) {
	l := newLab(t)
	probes := map[string]*Probes{}
	for _, name := range []string{"c", "a", "b", "d"} {
		l.board.SetEndpoint(configured(name))
		probes[name] = l.board.OpenSeries(result.SeriesID{Endpoint: name, Module: "m", Prefix: "cold"}, pace())
	}
	f := l.board.Fleet()
	if got := names(f.Endpoints); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("the fleet is %v", got)
	}
	version := f.Version
	expect := func(rows, removed []string) {
		t.Helper()
		u := l.board.Changes(version)
		if !slices.Equal(names(u.Endpoints), rows) || !slices.Equal(u.Removed, removed) || u.Reset {
			t.Errorf("changed %v, removed %v, reset %t; want %v, %v", names(u.Endpoints), u.Removed, u.Reset, rows, removed)
		}
		if (u.Version > version) != (len(rows)+len(removed) > 0) {
			t.Errorf("version %d after %d", u.Version, version)
		}
		version = u.Version
	}
	expect(nil, nil)
	probes["c"].Observe(success(l.now))
	probes["b"].Observe(failure(l.now, result.Empty))
	expect([]string{"b", "c"}, nil)
	expect(nil, nil)
	l.board.SetServers("d", []engine.Status{{Server: "s", State: engine.Down}})
	expect([]string{"d"}, nil)
	l.board.SetServers("d", []engine.Status{{Server: "s", State: engine.Down, At: l.now}}) // a row looks the same
	expect(nil, nil)
	l.board.Note("a", "m", "something")
	expect([]string{"a"}, nil)
	l.board.RemoveEndpoint("b")
	l.board.RemoveEndpoint("c")
	expect(nil, []string{"b", "c"})
	expect(nil, nil)
	l.board.RemoveEndpoint("a")
	l.board.SetEndpoint(configured("a")) // gone and back
	expect([]string{"a"}, nil)
	for range 2 {
		l.board.SetEndpoint(configured("b"))
		l.board.RemoveEndpoint("b")
	}
	expect(nil, []string{"b"})
	l.pass(time.Hour)
	probes["d"].Observe(success(l.now.Add(-time.Hour)))
	expect([]string{"d"}, nil)
}

// What time alone changes comes out too, once.
func TestChangesOfTime(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	l.observe(p, "")
	version := l.board.Fleet().Version
	l.pass(100 * time.Second)
	if u := l.board.Changes(version); len(u.Endpoints) != 0 || u.States[Up] != 1 {
		t.Errorf("%s", text(t, u))
	}
	l.pass(time.Second)
	u := l.board.Changes(version)
	if len(u.Endpoints) != 1 || u.Endpoints[0].State != Stale || u.Endpoints[0].Since != epochSeconds+100 || u.States[Stale] != 1 {
		t.Errorf("%s", text(t, u))
	}
	l.pass(time.Second)
	if u := l.board.Changes(u.Version); len(u.Endpoints) != 0 {
		t.Errorf("again: %s", text(t, u))
	}
}

// One series of several that gets old changes the row, whatever the order.
func TestChangesOfOldSeries(t *testing.T) {
	for _, first := range []int{0, 1} {
		for _, outcome := range []result.Outcome{"", result.Empty} {
			l := newLab(t)
			all := l.open(result.SeriesID{Module: "m0", Prefix: "cold"}, result.SeriesID{Module: "m1", Prefix: "cold"})
			l.observe(all[first], outcome)
			l.pass(50 * time.Second)
			l.observe(all[1-first], result.Empty)
			version := l.board.Fleet().Version
			l.pass(51 * time.Second) // the first is 101 s old
			u := l.board.Changes(version)
			if len(u.Endpoints) != 1 || u.Endpoints[0].State != Down || !slices.Equal(u.Endpoints[0].Failing, []string{fmt.Sprint("m", 1-first)}) {
				t.Errorf("first %d, %q: %s", first, outcome, text(t, u))
			}
		}
	}
}

// Who knows a version that is too old, or that of another process, begins anew.
func TestReset(t *testing.T) {
	l := newLab(t)
	l.open()
	version := l.board.Fleet().Version
	for since, reset := range map[uint64]bool{
		0: true, 1: true, version - 2: true, // before this process
		version - 1: false, version: false,
		version + 1: true, 1 << 63: true, // of one that began later
	} {
		u := l.board.Changes(since)
		if u.Reset != reset || u.Reset && (len(u.Endpoints) != 1 || len(u.Removed) != 0) {
			t.Errorf("since %d: %s", since, text(t, u))
		}
	}

	// A process that begins later has higher versions from the start.
	l.pass(time.Second)
	if next := NewBoard(func() time.Time { return l.now }); next.Fleet().Version <= version || !next.Changes(version).Reset {
		t.Error("the next process takes a version of this one for its own")
	}
}

func TestTombstonesAreBounded(t *testing.T) {
	l := newLab(t)
	var before []uint64 // the version before each removal
	for i := range 5000 {
		name := fmt.Sprintf("e%04d", i)
		l.board.SetEndpoint(configured(name))
		before = append(before, l.board.version.Load())
		l.board.RemoveEndpoint(name)
	}
	if n := len(l.board.removed.list); n != 4096 {
		t.Errorf("%d tombstones", n)
	}
	// 5000 - 4096 = 904 are forgotten.
	if u := l.board.Changes(before[904]); u.Reset || len(u.Removed) != 4096 || u.Removed[0] != "e0904" {
		t.Errorf("reset %t, %d removed", u.Reset, len(u.Removed))
	}
	if u := l.board.Changes(before[903]); !u.Reset || len(u.Removed) != 0 {
		t.Errorf("reset %t, %d removed", u.Reset, len(u.Removed))
	}
}
