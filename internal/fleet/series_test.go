package fleet

import (
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// served returns a success that started at an instant.
func served(start time.Time, ttft time.Duration) *result.Result {
	r := &result.Result{Start: start, Outcome: result.Success, Kind: api.Generation, Model: "m", Prefix: "cold"}
	r.Timing = result.Timing{TTFT: ttft, TTFO: ttft, TPOT: ttft / 10, MaxGap: ttft / 5, Duration: 2 * ttft}
	return r
}

// A step is on both pages; slow probes beside bursts of our own and confirmations of
// failures make none.
func TestStepsOfAnEndpoint(t *testing.T) {
	l := workLab(t, `
modules: {m: {interval: 30s}}
endpoints: [{name: e, url: "http://127.0.0.1:1", modules: [m]}]`)
	series, now := l.members["e"].tasks[0].series, time.Now().Add(-12*time.Hour)
	observe := func(n int, ttft time.Duration, o Observation) {
		for i := range n {
			o.Result = served(now, ttft+time.Duration(i%5)*ttft/50)
			series.Observe(&o)
			now = now.Add(30 * time.Second)
		}
	}
	observe(200, 100*time.Millisecond, Observation{})
	observe(50, 900*time.Millisecond, Observation{Disturbed: true})
	observe(50, 900*time.Millisecond, Observation{Confirmation: true})
	if l.page().Has("inference_probe_step_ratio") {
		t.Fatal("a step by probes that do not count")
	}
	observe(10, 100*time.Millisecond, Observation{})
	at := now
	observe(20, 200*time.Millisecond, Observation{})
	p := l.page()
	for _, metric := range []string{"ttft", "tpot"} {
		if ratio := p.Sum("inference_probe_step_ratio", "metric", metric); math.Abs(ratio-2) > 0.05 {
			t.Errorf("%s: ratio %v, want 2", metric, ratio)
		}
		if got := p.Sum("inference_probe_step_timestamp_seconds", "metric", metric); math.Abs(got-float64(at.UnixMilli())/1e3) > 30 {
			t.Errorf("%s: a step at %v, want %v", metric, got, at.Unix())
		}
	}
	d, _ := l.Board.Detail("e")
	steps := d.Series[0].Steps
	if len(steps) != 2 || steps[0].Before > 0.2 || steps[0].After < steps[0].Before {
		t.Errorf("steps on the status page: %+v", steps)
	}
}
