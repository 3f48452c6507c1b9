package prober

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Dates of retirement are those of the list and of each reply, also of one with an error. The list is read again after a day.
func TestRetirement(t *testing.T) {
	listed, sunset := time.Now().Add(40*24*time.Hour).UTC(), time.Now().Add(20*24*time.Hour).UTC().Truncate(time.Second)
	var lists atomic.Int64
	var gone atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		lists.Add(1)
		fmt.Fprintf(w, `{"data":[{"id":"m","expiration_date":%q}]}`, listed.Format(time.DateOnly))
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Sunset", sunset.Format(http.TimeFormat))
		if gone.Load() {
			http.Error(w, `{"error":{"message":"gone"}}`, http.StatusGone)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, answered("m"))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	cfg := newEndpoint(t, s.URL)
	cfg.Model = ""
	p := newProber(t, cfg, newModule())
	day, _ := time.Parse(time.DateOnly, listed.Format(time.DateOnly))
	want := api.Retirement{Header: sunset.Unix(), Listed: day.Unix()}
	for range 2 {
		if r := p.one(t.Context(), time.Now()); r.Retirement != want {
			t.Errorf("%s %v: %+v, want %+v", r.Outcome, r.Err, r.Retirement, want)
		}
		gone.Store(true)
	}
	gone.Store(false)
	p.endpoint.stale = false
	p.one(t.Context(), time.Now())
	before := lists.Load()
	p.endpoint.lookedUpAt = time.Now().Add(-listAge)
	p.one(t.Context(), time.Now())
	if n := lists.Load() - before; before != 1 || n != 1 {
		t.Errorf("%d lists, and %d after a day", before, n)
	}
}
