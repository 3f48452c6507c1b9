package status

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
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
	probes := map[string]*judged{}
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
	l.board.SetServers("d", []page.Status{{Server: "s", State: page.Down}})
	expect([]string{"d"}, nil)
	l.board.SetServers("d", []page.Status{{Server: "s", State: page.Down, At: l.now}}) // a row looks the same
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
	if u := l.board.Changes(version); len(u.Endpoints) != 0 || u.States[health.Up] != 1 {
		t.Errorf("%s", text(t, u))
	}
	l.pass(time.Second)
	u := l.board.Changes(version)
	if len(u.Endpoints) != 1 || u.Endpoints[0].State != health.Stale || u.Endpoints[0].Since != epochSeconds+100 || u.States[health.Stale] != 1 {
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
			l.observe(all[1-first], result.Empty)
			version := l.board.Fleet().Version
			l.pass(51 * time.Second) // the first is 101 s old
			u := l.board.Changes(version)
			if len(u.Endpoints) != 1 || u.Endpoints[0].State != health.Down || !slices.Equal(u.Endpoints[0].Failing, []string{fmt.Sprint("m", 1-first)}) {
				t.Errorf("first %d, %q: %s", first, outcome, text(t, u))
			}
		}
	}
}

// A client whose version is too old, or of another process, is reset.
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
	if next := newWatched(func() time.Time { return l.now }); next.Fleet().Version <= version || !next.Changes(version).Reset {
		t.Error("the next process takes a version of this one for its own")
	}
}

func TestRemovedEndpointsAreBounded(t *testing.T) {
	l := newLab(t)
	var before []uint64 // the version before each removal
	for i := range 5000 {
		name := fmt.Sprintf("e%04d", i)
		l.board.SetEndpoint(configured(name))
		before = append(before, l.board.version.Load())
		l.board.RemoveEndpoint(name)
	}
	// 4096 are forgotten, and 5000 - 4096 = 904 are not.
	if u := l.board.Changes(before[4096]); u.Reset || len(u.Removed) != 904 || u.Removed[0] != "e4096" {
		t.Errorf("reset %t, %d removed", u.Reset, len(u.Removed))
	}
	if u := l.board.Changes(before[4095]); !u.Reset || len(u.Removed) != 0 {
		t.Errorf("reset %t, %d removed", u.Reset, len(u.Removed))
	}
}

// mirror is a table that follows a board as a page does: from updates alone.
type mirror struct {
	version uint64
	rows    map[string]*Row
}

func (m *mirror) follow(b *watched) *Update {
	u := b.Changes(m.version)
	if u.Reset {
		clear(m.rows)
	}
	for _, name := range u.Removed {
		delete(m.rows, name)
	}
	for _, r := range u.Endpoints {
		m.rows[r.Name] = r
	}
	m.version = u.Version
	return u
}

// equals compares the mirror with the board.
func (m *mirror) equals(t *rapid.T, b *watched) {
	f := b.Fleet()
	var rows []*Row
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		rows = append(rows, m.rows[name])
	}
	if got, want := text(t, rows), text(t, f.Endpoints); got != want && (len(rows) > 0 || len(f.Endpoints) > 0) {
		t.Fatalf("the mirror has %s\nthe board %s", got, want)
	}
	counts := map[health.State]int{}
	for _, s := range health.States() {
		counts[s] = 0
	}
	for _, r := range rows {
		counts[r.State]++
	}
	if !maps.Equal(counts, f.States) {
		t.Fatalf("the rows come to %v, the board says %v", counts, f.States)
	}
}

// Whatever happens, a page that applies the updates has the table of the board:
// with endpoints that go and come back, states that time changes, and boards of
// new processes.
func TestMirror(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := epoch()
		clock := func() time.Time { return now }
		board := newWatched(clock)
		follower, late := &mirror{rows: map[string]*Row{}}, &mirror{rows: map[string]*Row{}}
		opened := map[result.SeriesID]*judged{}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("e", rapid.IntRange(0, 3).Draw(t, "endpoint")) })
		id := rapid.Custom(func(t *rapid.T) result.SeriesID {
			return result.SeriesID{
				Endpoint: name.Draw(t, "name"), Module: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "module"),
				Prefix:      rapid.SampledFrom([]string{"cold", "warm"}).Draw(t, "prefix"),
				Concurrency: rapid.SampledFrom([]string{"", "", "8"}).Draw(t, "concurrency"),
			}
		})
		follow := func(t *rapid.T) {
			follower.follow(board)
			follower.equals(t, board)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":       func(*rapid.T) {},
			"follow": follow,
			"follow late": func(t *rapid.T) {
				late.follow(board)
				late.equals(t, board)
			},
			"set": func(t *rapid.T) {
				cfg := configured(name.Draw(t, "name"))
				cfg.Model = rapid.SampledFrom([]string{"", "m"}).Draw(t, "model")
				board.SetEndpoint(cfg)
			},
			"remove": func(t *rapid.T) { board.RemoveEndpoint(name.Draw(t, "name")) },
			"open": func(t *rapid.T) {
				i, o := id.Draw(t, "id"), pace()
				o.First = rapid.Bool().Draw(t, "first")
				o.Objectives = &series.Objectives{Share: 0.9}
				opened[i] = board.OpenSeries(i, o)
			},
			"close": func(t *rapid.T) { board.CloseSeries(id.Draw(t, "id")) },
			"observe": func(t *rapid.T) {
				p, r := opened[id.Draw(t, "id")], success(now)
				if p == nil {
					t.Skip("no such series")
				}
				if rapid.Bool().Draw(t, "fails") {
					r = failure(now, rapid.SampledFrom(result.Outcomes()[1:]).Draw(t, "outcome"))
				}
				p.Observe(r)
			},
			"servers": func(t *rapid.T) {
				var all []page.Status
				for i := range rapid.IntRange(0, 2).Draw(t, "servers") {
					running := float64(rapid.IntRange(0, 2).Draw(t, "running"))
					all = append(all, up(fmt.Sprint(i), -1, map[config.Quantity]float64{config.RequestsRunning: running}))
				}
				board.SetServers(name.Draw(t, "name"), all)
			},
			"note": func(t *rapid.T) { board.Note(name.Draw(t, "name"), "a", "text") },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			},
			"restart": func(t *rapid.T) {
				now = now.Add(time.Second)
				board = newWatched(clock)
				clear(opened)
			},
		})
		follow(t)
	})
}

// The board is written and read from everywhere at once; in the end a mirror
// that only followed the updates has its table.
func TestConcurrency(t *testing.T) {
	b := newWatched(time.Now)
	name := func(r *rand.Rand) string { return fmt.Sprint("e", r.IntN(20)) }
	for i := range 20 {
		b.SetEndpoint(configured(fmt.Sprint("e", i)))
	}
	var writers, readers sync.WaitGroup
	for i := range 4 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		writers.Go(func() {
			for range 500 {
				id := result.SeriesID{Endpoint: name(r), Module: "m", Prefix: "cold"}
				p := b.OpenSeries(id, pace())
				for n := r.IntN(5); p != nil && n > 0; n-- { // else it is off the board
					p.Observe(success(time.Now()))
					p.Observe(failure(time.Now(), result.Empty))
				}
				switch r.IntN(6) {
				case 0:
					b.CloseSeries(id)
				case 1:
					b.RemoveEndpoint(name(r))
				case 2:
					b.SetEndpoint(configured(name(r)))
				case 3:
					b.SetServers(name(r), []page.Status{up("s", 0.5, map[config.Quantity]float64{config.RequestsRunning: r.Float64()})})
				case 4:
					b.Note(name(r), "m", "text")
				}
			}
		})
	}
	follower := &mirror{rows: map[string]*Row{}}
	stop := make(chan struct{})
	read := func(f func()) {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	read(func() { follower.follow(b) })
	read(func() { text(t, b.Fleet()) })
	read(func() {
		if d, ok := b.Detail("e7"); ok {
			text(t, d)
		}
	})
	writers.Wait()
	close(stop)
	readers.Wait()
	follower.follow(b)
	f := b.Fleet()
	if len(f.Endpoints) != len(follower.rows) {
		t.Errorf("the mirror has %d rows, the board %d", len(follower.rows), len(f.Endpoints))
	}
	shown := 0
	for _, row := range f.Endpoints {
		if got, want := text(t, follower.rows[row.Name]), text(t, row); got != want {
			t.Errorf("the mirror has %s, the board %s", got, want)
		}
		d, _ := b.Detail(row.Name)
		shown += len(d.Series)
	}
	if n := b.pool.Logs(); n != shown {
		t.Errorf("%d series are counted, %d are there", n, shown)
	}
}
