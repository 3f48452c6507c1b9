package prober

import (
	"runtime"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// BenchmarkTracker is what a tracker of an ordinary module takes after 300 probes: for a run,
// and in memory.
func BenchmarkTracker(b *testing.B) {
	r := &result.Result{
		Outcome: result.Success, Kind: api.Generation, Model: "m", Prefix: "cold", Length: 256, Inspected: true,
		Timing: result.Timing{TTFT: 100 * time.Millisecond}, Tokens: result.Tokens{Prompt: 256, Cached: -1, Output: 64, Reasoning: -1},
	}
	m := config.None().Modules[config.Interactive]
	const n = 1000
	trackers := make([]*workload.Tracker, n)
	before := live()
	for i := range trackers {
		trackers[i] = workload.NewTracker(time.Now, func() []workload.Estimate { return Estimates(new(config.Endpoint), m) })
		for range 300 {
			trackers[i].Observe([]*result.Result{r})
		}
	}
	kept := float64(live()-before) / n
	b.ReportAllocs()
	for b.Loop() {
		trackers[0].Observe([]*result.Result{r})
	}
	b.ReportMetric(kept, "B/tracker")
	runtime.KeepAlive(trackers)
}

func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
