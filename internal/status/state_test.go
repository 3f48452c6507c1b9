package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// The row shows what judges the endpoint.
func TestRowShowsTheState(t *testing.T) {
	l := newLab(t)
	all := l.open(result.SeriesID{Module: "a", Prefix: "cold"}, result.SeriesID{Module: "b", Prefix: "cold"})
	l.observe(all[0], "")
	l.observe(all[1], "")
	version := l.board.Fleet().Version
	if err := l.board.endpoint("e").health.Mute(time.Hour, "new driver"); err != nil {
		t.Fatal(err)
	}
	l.pass(2 * time.Second)
	if u := l.board.Changes(version); len(u.Endpoints) != 1 || u.States[health.Muted] != 1 {
		t.Errorf("a mute is no change: %s", text(t, u))
	}
	l.observe(all[0], result.TimeoutStall)
	l.pass(time.Second)
	l.observe(all[1], result.ConnectError)
	r := l.row()
	r.Failure, r.Outcomes, r.Runs = nil, nil, ""
	expectJSON(t, r, `{"name": "e", "url": "http://e:8000", "model": "llama", "api": "openai-chat", "engine": "vllm",
		"labels": {"team": "search"}, "module": "a", "state": "muted", "since": 1767323045, "last_at": 1767323048,
		"uptime": {"from": 1767323045}, "probes_since": 2, "failed_since": 2, "spells_since": 1, "failing": ["a", "b"], "why": "no token (b) and 1 more",
		"muted": {"until": 1767326645, "reason": "new driver", "state": "down", "since": 1767323047}}`)
}

// What makes an endpoint slow is in the row, with the queue of its servers.
func TestWhySlow(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	o := pace()
	o.Objectives = &series.Objectives{TTFT: 100 * time.Millisecond}
	p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, o)
	for range 15 {
		l.pass(30 * time.Second)
		l.observe(p, "")
	}
	const why = "m: TTFT 200ms, objective 100ms; 15 of 15 answers over an objective since 03:04 UTC"
	if r := l.row(); r.State != health.Slow || r.Why != why || r.OverSince != 15 || r.Since != epochSeconds+30 {
		t.Errorf("%s", text(t, r))
	}
	l.board.SetServers("e", []page.Status{up("s", 0.5, map[config.Quantity]float64{config.RequestsWaiting: 37})})
	if r := l.row(); r.Why != why+"; 37 requests wait in the queue" {
		t.Errorf("%s", text(t, r))
	}
}

// An incident is one change, whoever looks, with its begin, its end and its counts.
func TestChangesOfState(t *testing.T) {
	for _, watched := range []bool{false, true} {
		l := newLab(t)
		all := l.open(result.SeriesID{Module: "a", Prefix: "cold"}, result.SeriesID{Module: "b", Prefix: "cold"})
		look := func() {
			if watched {
				l.board.Fleet()
				l.board.Detail("e")
			}
		}
		at := func(second int, then func()) {
			l.now = epoch().Add(time.Duration(second) * time.Second)
			look()
			if then != nil {
				then()
			}
			look()
		}
		at(10, func() { l.observe(all[0], "") })
		at(20, func() { l.observe(all[1], result.TimeoutStall) })
		at(30, func() { l.observe(all[0], result.TimeoutFirstToken) }) // down
		at(40, func() { l.observe(all[0], result.ConnectError) })
		at(50, func() { l.observe(all[1], ""); l.board.Note("e", "b", "another answer") })
		at(60, func() { l.observe(all[0], "") })
		expectJSON(t, l.detail("e").Changes, `[{"at":1767323095,"module":"b","text":"another answer"},
			{"at":1767323065,"module":"b","state":"degraded","text":"degraded: 3 of 5 probes failed (60 %); first: no token"}]`)
		at(65, func() { l.observe(all[0], "") })
		at(160, nil) // not yet stale
		at(400, func() { l.observe(all[0], "") })
		want := `[{"at":1767323210,"until":1767323445,"state":"stale","text":"stale for 3m: no result for 3 intervals and a timeout"},
			{"at":1767323095,"module":"b","text":"another answer"},
			{"at":1767323065,"until":1767323095,"module":"b","state":"down","text":"down for 30s: 3 of 3 probes failed (100 %); first: no token"}]`
		d := l.detail("e")
		expectJSON(t, d.Changes, want)
		if d.Since != epochSeconds+400 {
			t.Errorf("up since %v", d.Since)
		}
	}
}

func TestChangesAreBounded(t *testing.T) {
	l := newLab(t)
	l.open()
	for i := range 60 {
		l.board.Note("e", "m", fmt.Sprint(i))
		l.pass(time.Second)
	}
	var got []string
	for _, c := range l.detail("e").Changes {
		got = append(got, c.Text)
	}
	if len(got) != 50 || got[0] != "59" || got[49] != "10" {
		t.Errorf("%d changes: %s", len(got), strings.Join(got, " "))
	}
}
