package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestDetail(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	rung := result.SeriesID{Endpoint: "e", Module: "ladder", Prefix: "warm", InputTokens: "8000", OutputTokens: "64"}
	burst := result.SeriesID{Endpoint: "e", Module: "burst", Prefix: "cold", Concurrency: "8"}
	o := SeriesOptions{Pace: Pace{Interval: 60, Timeout: 30}, First: true}
	o.SLO, o.Window = &SLO{Objective: 0.9}, func() *Window { return &Window{Samples: 1} }
	l.board.OpenSeries(burst, pace())
	p := l.board.OpenSeries(rung, o)
	l.pass(1500 * time.Millisecond)
	l.observe(p, result.DNSError)
	d := l.detail("e")
	d.Series[1].Probes = d.Series[1].Probes[:0] // tested elsewhere
	expectJSON(t, d, fmt.Sprintf(`{"name": "e", "url": "http://e:8000", "labels": {"team": "search"}, "module": "ladder",
		"state": "down", "since": 1767323046.5, "last_at": 1767323046.5, "outcomes": ["dns_error"], "failing": ["ladder"],
		"failure": {"at": 1767323046.5, "module": "ladder", "outcome": "dns_error", "message": "no token",
			"advice": "Does the host's name resolve on this machine? Look for a typing error in the URL, a missing search domain, and at the resolver itself."},
		"ttft_window": {"samples": 1}, "slo": {"objective": 0.9},
		"at": 1767323046.5, "version": %d,
		"series": [
			{"module": "burst", "prefix": "cold", "concurrency": "8", "interval_seconds": 30, "probes": [],
				"history": {"at": [], "ttft_seconds": [], "tpot_seconds": [], "outcome": []}},
			{"module": "ladder", "prefix": "warm", "input_tokens": "8000", "output_tokens": "64", "interval_seconds": 60,
				"ttft_window": {"samples": 1}, "slo": {"objective": 0.9}, "probes": [],
				"history": {"at": [1767323046.5], "ttft_seconds": [null], "tpot_seconds": [null], "outcome": ["dns_error"]}}],
		"changes": [{"at": 1767323046.5, "text": "down: the host name does not resolve"}]}`, d.Version))

	// The order is that of the latest calls.
	l.board.OpenSeries(burst, pace())
	if s := l.detail("e").Series; s[0].Module != "ladder" || s[1].Module != "burst" || len(s[0].History.At) != 1 {
		t.Errorf("%s", text(t, s))
	}
	// A version of the page is one for Changes.
	if u := l.board.Changes(l.detail("e").Version); u.Reset || len(u.Endpoints) != 0 {
		t.Errorf("%s", text(t, u))
	}
}

// An endpoint without series has a page too.
func TestDetailWithoutSeries(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	d := l.detail("e")
	expectJSON(t, d, fmt.Sprintf(`{"name": "e", "url": "http://e:8000", "labels": {"team": "search"}, "state": "waiting",
		"since": 1767323045, "at": 1767323045, "version": %d, "series": []}`, d.Version))
}

// The version of an endpoint grows with what happens to it and with what time
// alone changes, and with nothing of others.
func TestVersion(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	last := uint64(0)
	f := func(what string, grows bool) {
		t.Helper()
		v, ok := l.board.Version("e")
		if !ok || v > last != grows {
			t.Errorf("%s: version %d after %d, %t", what, v, last, ok)
		}
		last = v
	}
	f("new", true)
	l.observe(p, "")
	f("a probe", true)
	l.board.SetEndpoint(configured("other"))
	f("another endpoint", false)
	l.pass(time.Hour)
	f("stale", true)
	l.board.RemoveEndpoint("e")
	if _, ok := l.board.Version("e"); ok {
		t.Error("it is still there")
	}
}
