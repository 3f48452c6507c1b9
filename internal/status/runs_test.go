package status

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
)

// slowBy returns a success of which one measure is over the objective of TestRuns.
func slowBy(l *lab, change func(t *result.Timing)) *result.Result {
	r := success(l.now)
	change(&r.Timing)
	return r
}

func TestRuns(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	id := result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}
	o := pace() // every 30 s
	o.Objectives = &series.Objectives{TTFT: 500 * time.Millisecond, TPOT: 100 * time.Millisecond, E2E: 3 * time.Second}
	p := l.board.OpenSeries(id, o)
	step := func(after time.Duration, r func() *result.Result, want string) {
		t.Helper()
		l.pass(after)
		p.Observe(r())
		if got := l.row().Runs; got != want {
			t.Errorf("row: runs %q, want %q", got, want)
		}
		if got := l.detail("e").Series[0].Runs; got != want {
			t.Errorf("series: runs %q, want %q", got, want)
		}
	}
	good := func() *result.Result { return success(l.now) }
	step(0, good, ".")
	step(30*time.Second, func() *result.Result { return slowBy(l, func(t *result.Timing) { t.TTFT = 501 * time.Millisecond }) }, ".o")
	step(30*time.Second, func() *result.Result { return slowBy(l, func(t *result.Timing) { t.TPOT = 101 * time.Millisecond }) }, ".oo")
	step(30*time.Second, func() *result.Result {
		return slowBy(l, func(t *result.Timing) { t.Duration = 3001 * time.Millisecond })
	}, ".ooo")
	step(30*time.Second, func() *result.Result { return failure(l.now, result.Empty) }, ".ooox")
	step(10*time.Second, good, ".ooox.")                             // a confirmation comes early
	step(44*time.Second, good, ".ooox..")                            // late by less than half of an interval
	step(90*time.Second, good, ".ooox..--.")                         // two were missed
	step(-90*time.Second, good, ".ooox..--..")                       // the clock was set back
	step(27*30*time.Second, good, "-.."+strings.Repeat("-", 26)+".") // at most 30, the latest of them
}

// The TPOT of two tokens is the gap between them, which no objective judges: neither for the
// row nor for the state of the endpoint.
func TestShortAnswersAreNotLate(t *testing.T) {
	for tokens, want := range map[int]string{1: strings.Repeat(".", 15) + "up", 2: strings.Repeat(".", 15) + "up", 3: strings.Repeat("o", 15) + "slow"} {
		l := newLab(t)
		l.board.SetEndpoint(configured("e"))
		o := pace()
		o.Objectives = &series.Objectives{Share: 0.99, TPOT: 10 * time.Millisecond}
		p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, o)
		for range 15 {
			r := slowBy(l, func(t *result.Timing) { t.TPOT = 60 * time.Millisecond })
			r.Tokens.Output = tokens
			p.Observe(r)
			l.pass(30 * time.Second)
		}
		if got := l.row().Runs + string(l.row().State); got != want {
			t.Errorf("%d tokens: %s, want %s", tokens, got, want)
		}
	}
}

// What was probed at another interval has missed no run of the new one.
func TestRunsOfAnotherInterval(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	id := result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}
	p := l.board.OpenSeries(id, health.SeriesOptions{Interval: 300 * time.Second})
	for range 3 {
		l.observe(p, "")
		l.pass(300 * time.Second)
	}
	l.board.OpenSeries(id, pace())
	l.observe(p, "")
	l.pass(60 * time.Second)
	l.observe(p, "")
	if got, want := l.row().Runs, "....-."; got != want {
		t.Errorf("runs %q, want %q", got, want)
	}
}

func found(all ...workload.Finding) *workload.Findings { return &workload.Findings{All: all} }

func TestFindings(t *testing.T) {
	l := newLab(t)
	id := result.SeriesID{Module: "burst", Prefix: "cold", Concurrency: "1"}
	l.open(id, result.SeriesID{Module: "lengths", Prefix: "cold"})
	version, _ := l.board.Version("e")
	l.board.SetFindings("e", "lengths", found(&load.Finding{Prefill: &load.Prefill{
		TokensPerSecond: workload.Interval{Value: 8000, Lower: 7600, Upper: 8400}, FixedSeconds: workload.Interval{Value: 0.03, Lower: 0.02, Upper: 0.04},
	}}))
	l.board.SetFindings("e", "burst", found(&load.BurstFinding{
		Knee: &load.Burst{Concurrency: 16}, Bursts: []load.Burst{{Concurrency: 1, TokensPerSecond: 40}, {Concurrency: 16, Failed: 2}},
	}))
	if now, _ := l.board.Version("e"); now <= version {
		t.Errorf("version %d after %d", now, version)
	}
	expectJSON(t, l.detail("e").Findings, `[
		{"module": "burst", "figures": [{"label": "knee", "value": "16 at once", "note": "miss the objective"}], "burst_knee_concurrency": 16, "bursts": [{"concurrency": 1, "failed": 0, "output_tokens_per_second": 40}, {"concurrency": 16, "failed": 2}]},
		{"module": "lengths", "figures": [{"label": "prefill", "value": "8000 tokens/s", "note": "(7600 to 8400)"},
			{"label": "fixed part", "value": "30.0 ms", "note": "(20.0 ms to 40.0 ms) of TTFT do not depend on the length"}],
			"prefill_tokens_per_second": {"estimate": 8000, "lower": 7600, "upper": 8400}, "ttft_fixed_seconds": {"estimate": 0.03, "lower": 0.02, "upper": 0.04}}]`)
	l.board.SetFindings("e", "lengths", nil) // of a new model, for instance
	id.Endpoint = "e"
	l.board.CloseSeries(id)
	expectJSON(t, l.detail("e").Findings, `null`)
}

func TestEndpointsOnGPUs(t *testing.T) {
	l := newLab(t)
	for name, uuids := range map[string][]string{"b": {"GPU-1", "GPU-2"}, "a": {"GPU-1"}, "c": nil} {
		e := configured(name)
		if uuids != nil {
			e.Hardware = &config.Hardware{UUIDs: uuids}
		}
		l.board.SetEndpoint(e)
	}
	page := l.board.GPUs(gpu.Snapshots{{State: gpu.StateUp, Devices: []gpu.DeviceSnapshot{
		{UUID: "GPU-1", Up: true}, {UUID: "GPU-2", Index: 1, Up: true}, {UUID: "GPU-3", Index: 2, Up: true},
	}}})
	expectJSON(t, page.GPUs, `[{"gpu": 0, "uuid": "GPU-1", "endpoints": ["a", "b"]}, {"gpu": 1, "uuid": "GPU-2", "endpoints": ["b"]}, {"gpu": 2, "uuid": "GPU-3"}]`)
}
