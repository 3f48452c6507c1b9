package fleet

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// A share of corrupted answers that rises is logged once, is evidence while it lasts, and is
// logged again when it is over.
func TestCorruptionIsReported(t *testing.T) {
	var log bytes.Buffer
	id := collector.FindingsID{Endpoint: "e", Module: "m"}
	f := &findings{
		id: id, tracker: (Target{Endpoint: new(config.Endpoint), Rung: config.Rung{Module: new(config.Module)}}).Tracker(nil), logger: slog.New(slog.NewTextHandler(&log, nil)),
		series: collector.NewProbes(time.Now).OpenFindings(id),
		page:   status.NewBoard(time.Now).NewEndpoint(&config.Endpoint{Name: "e"}, health.New("e", health.NewShared(time.Now, slog.Default()), nil)),
	}
	corruptions := func() []string {
		var e explain.Evidence
		e.AddFindings("m", f.latest())
		return e.Corruptions
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	observe := func(n int, found ...result.Sign) {
		for range n {
			f.observe([]*result.Result{{Outcome: result.Success, Start: at, Inspected: true, Integrity: found}})
			at = at.Add(time.Minute)
		}
	}
	expect := func(what string, lines, want int) {
		t.Helper()
		if n := strings.Count(log.String(), "of corruption"); n != lines {
			t.Errorf("%s: %d lines, want %d: %s", what, n, lines, log.String())
		}
		if all := corruptions(); len(all) != want {
			t.Errorf("%s: %+v", what, all)
		}
	}
	observe(1000)
	expect("nothing", 0, 0)
	since := at
	observe(1, result.SignToken)
	observe(20)
	expect("one", 0, 0)
	observe(1, result.SignToken)
	observe(10)
	expect("two", 1, 1)
	want := "answers with special tokens since " + since.Format("2006-01-02 15:04 UTC") + ": 2 of 32, usually 0 % (module m)"
	if got := corruptions()[0]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	observe(400)
	expect("over", 2, 0)
}
