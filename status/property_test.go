package status

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// mirror is a table that follows a board as a page does: from updates alone.
type mirror struct {
	version uint64
	rows    map[string]*Row
}

func (m *mirror) follow(b *Board) *Update {
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
func (m *mirror) equals(t *rapid.T, b *Board) {
	f := b.Fleet()
	var rows []*Row
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		rows = append(rows, m.rows[name])
	}
	if got, want := text(t, rows), text(t, f.Endpoints); got != want && (len(rows) > 0 || len(f.Endpoints) > 0) {
		t.Fatalf("the mirror has %s\nthe board %s", got, want)
	}
	counts := map[State]int{}
	for _, s := range States() {
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
		board := NewBoard(clock)
		follower, late := &mirror{rows: map[string]*Row{}}, &mirror{rows: map[string]*Row{}}
		series := map[result.SeriesID]*Probes{}
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
				o.Window = func() *Window { return &Window{Samples: now.Minute()} }
				series[i] = board.OpenSeries(i, o)
			},
			"close": func(t *rapid.T) { board.CloseSeries(id.Draw(t, "id")) },
			"observe": func(t *rapid.T) {
				p, r := series[id.Draw(t, "id")], success(now)
				if p == nil {
					t.Skip("no such series")
				}
				if rapid.Bool().Draw(t, "fails") {
					r = failure(now, rapid.SampledFrom(result.Outcomes()[1:]).Draw(t, "outcome"))
				}
				p.Observe(r)
			},
			"servers": func(t *rapid.T) {
				var all []engine.Status
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
			"start anew": func(t *rapid.T) {
				now = now.Add(time.Second)
				board = NewBoard(clock)
				clear(series)
			},
		})
		follow(t)
	})
}
