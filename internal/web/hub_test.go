package web

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/internal/status"
)

// mustWatch watches until the test ends.
func mustWatch(t testing.TB, h *hub, endpoint string, since uint64) *watcher {
	t.Helper()
	w, err := h.watch(endpoint, since)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A watcher that is eight events behind is dropped at the ninth.
func TestWatcherIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a")
		h := newHub(endpoints, slog.New(slog.DiscardHandler))
		defer h.close()
		for queued := 1; queued <= 9; queued++ {
			w := mustWatch(t, h, "", endpoints.version)
			synctest.Wait()
			for range queued {
				endpoints.change("a")
				h.round()
			}
			got := 0
			for closed := false; !closed; {
				select {
				case _, ok := <-w.events:
					closed = !ok
					got++
				default:
					closed = true
				}
			}
			if queued == 9 && (got != 9 || !w.dropped) { // eight events and the end
				t.Errorf("%d of 9 events, dropped %t", got, w.dropped)
			}
			if queued < 9 && (got != queued || w.dropped) {
				t.Errorf("%d of %d events, dropped %t", got, queued, w.dropped)
			}
			h.leave(w)
		}
	})
}

// With a version of another process nothing is certain, so that the page of an
// endpoint that is gone has to look too.
func TestResetIsNewsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(newTable("a"), slog.New(slog.DiscardHandler))
		defer h.close()
		w := mustWatch(t, h, "gone", 99)
		defer h.leave(w)
		if e := <-w.events; string(e.plain) != newsEvent(1)+"\n" {
			t.Errorf("got the event %q", e.plain)
		}
	})
}

// badStatus has a number that JSON cannot say.
type badStatus struct{ *table }

func (b badStatus) Changes(since uint64) *status.Update {
	u := b.table.Changes(since)
	if u.Version > 1 {
		u.At = math.NaN()
	}
	return u
}

// Watchers that cannot get a change must not believe that nothing changed.
func TestChangesThatCannotBeEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		endpoints := newTable("a")
		h := newHub(badStatus{endpoints}, slog.New(slog.NewTextHandler(&log, nil)))
		defer h.close()
		w := mustWatch(t, h, "", 1)
		defer h.leave(w)
		synctest.Wait()
		endpoints.change("a")
		h.round()
		if e, ok := <-w.events; ok {
			t.Errorf("got the event %q", e.plain)
		}
		if !strings.Contains(log.String(), "NaN") {
			t.Errorf("logged %q", log.String())
		}
		if _, err := h.watch("", 7); err == nil {
			t.Error("another one watches")
		}
	})
}

// replica is a page's copy of the table: the version of each endpoint.
type replica struct {
	*watcher      // nil while it does not watch
	ended    bool // whether it was dropped
	version  uint64
	rows     map[string]uint64
}

// apply brings the copy up to date with what the watcher got.
func (r *replica) apply(t *rapid.T) {
	for {
		var e *event
		select {
		case e = <-r.events:
		default:
			return
		}
		if r.ended = e == nil; r.ended {
			return
		}
		_, data, _ := strings.Cut(string(e.plain), "data: ")
		var update status.Update
		if err := json.Unmarshal([]byte(data), &update); err != nil {
			t.Fatal(err)
		}
		if update.Reset {
			clear(r.rows)
		}
		for _, name := range update.Removed {
			delete(r.rows, name)
		}
		for _, row := range update.Endpoints {
			if uint64(row.Since) < r.rows[row.Name] {
				t.Fatalf("%s went back from %d to %g", row.Name, r.rows[row.Name], row.Since)
			}
			r.rows[row.Name] = uint64(row.Since)
		}
		if update.Version < r.version && !update.Reset {
			t.Fatalf("the page went back from %d to %d", r.version, update.Version)
		}
		r.version = update.Version
	}
}

// Whatever changes and whoever comes and goes when, after a round each page has
// the table as it is.
func TestPagesAgree(t *testing.T) {
	rapid.Check(t, checkPagesAgree)
}

func checkPagesAgree(t *rapid.T) {
	endpoints := newTable("a")
	h := newHub(endpoints, slog.New(slog.DiscardHandler))
	defer h.close()
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	pages := make([]*replica, 4)
	for i := range pages {
		pages[i] = &replica{rows: make(map[string]uint64)}
	}
	page := rapid.Custom(func(t *rapid.T) *replica { return pages[rapid.IntRange(0, 3).Draw(t, "page")] })
	t.Repeat(map[string]func(*rapid.T){
		"change": func(t *rapid.T) { endpoints.change(names.Draw(t, "name")) },
		"remove": func(t *rapid.T) { endpoints.remove(names.Draw(t, "name")) },
		"come or go": func(t *rapid.T) {
			p := page.Draw(t, "page")
			if p.watcher != nil {
				p.apply(t)
				h.leave(p.watcher)
				p.watcher = nil
				return
			}
			w, err := h.watch("", p.version)
			if err != nil {
				t.Fatal(err)
			}
			p.watcher, p.ended = w, false
		},
		"restart": func(t *rapid.T) { // with a version of another process
			if p := page.Draw(t, "page"); p.watcher == nil {
				p.version = 1 << 40
			}
		},
		"read": func(t *rapid.T) {
			if p := page.Draw(t, "page"); p.watcher != nil {
				p.apply(t)
			}
		},
		"round": func(*rapid.T) { h.round() },
		"": func(t *rapid.T) {
			h.round()
			for i, p := range pages {
				if p.watcher == nil {
					continue
				}
				p.apply(t)
				if diff := cmp.Diff(endpoints.rows, p.rows); !p.ended && diff != "" {
					t.Fatalf("page %d (-want +got):\n%s", i, diff)
				}
			}
		},
	})
	for _, p := range pages {
		if p.watcher != nil {
			h.leave(p.watcher)
		}
	}
}

// squares is a text in which little repeats.
var squares = func() string {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprint(&text, i*i*i*i)
	}
	return text.String()
}()

// Compressed events make a stream in any order.
func TestPackedEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "endpoint-1 is up", "endpoint-1 is down", "\n\n", squares})
		texts := rapid.SliceOf(rapid.SliceOf(word)).Draw(t, "texts")
		p := newPacker()
		var events []*event
		for _, text := range texts {
			events = append(events, p.pack([]byte(strings.Join(text, ""))))
		}
		want, packed := "", gzipHeader
		for _, i := range rapid.SliceOf(rapid.IntRange(0, max(0, len(texts)-1))).Draw(t, "order") {
			if len(events) > 0 {
				want += string(events[i].plain)
				packed += string(events[i].packed)
			}
		}
		if got := unpacked(t, packed, len(want)); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// unpacked returns the first n bytes of a stream that has no end.
func unpacked(t *rapid.T, stream string, n int) string {
	r, err := gzip.NewReader(strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
