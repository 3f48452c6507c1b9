package series

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkStepsObserve measures a result of a series whose windows are full, in a calm
// series and in one of which every second probe fails.
func BenchmarkStepsObserve(b *testing.B) {
	for name, failing := range map[string]float64{"calm": 0, "failing": 0.5} {
		b.Run(name, func(b *testing.B) {
			c := harsh(0.25)
			c.failing = failing
			s := newSeries(c, 1)
			s.days(1.2, 1)
			b.ReportAllocs()
			for b.Loop() {
				s.ask(1, 1)
			}
		})
	}
}

// BenchmarkStepsMemory reports the bytes of a series whose windows are full.
func BenchmarkStepsMemory(b *testing.B) {
	const n = 100
	for b.Loop() {
		all := make([]*Steps, n)
		before := liveHeap()
		for i := range all {
			s := newSeries(harsh(0.25), uint64(i))
			s.ask(2*maxProbes, 1)
			kept := s.steps
			all[i] = &kept
		}
		b.ReportMetric(float64(liveHeap()-before)/n, "B/series")
		runtime.KeepAlive(all)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStepsSave is what the steps of a series with full windows take to save: the
// time, and the bytes before compression.
func BenchmarkStepsSave(b *testing.B) {
	s := newSeries(harsh(0.2), 1)
	s.days(3, 1)
	size := 0
	for b.Loop() {
		text, err := json.Marshal(s.steps.Clone())
		if err != nil {
			b.Fatal(err)
		}
		size = len(text)
	}
	b.ReportMetric(float64(size), "B/series")
}

// BenchmarkSteps reports how 1,000 steps of 20 % are found and dated, and how many are
// found in ten times 90 days without one, by the noise.
func BenchmarkSteps(b *testing.B) {
	worlds, seeds := 20, uint64(10)
	remembering := func(memory float64) climate { c := harsh(0.25); c.memory = memory; return c }
	climates := []climate{harsh(0.1), harsh(0.15), harsh(0.18), harsh(0.2), harsh(0.25), harsh(0.3), remembering(0.6), remembering(0.9)}
	if testing.Short() {
		worlds, seeds, climates = 1, 1, climates[:1]
	}
	for _, c := range climates {
		b.Run(fmt.Sprintf("sigma=%v/memory=%v", c.sigma, c.memory), func(b *testing.B) {
			for b.Loop() {
				d, falsely := date(b, c, 1.2, worlds, 50), 0
				for seed := range seeds {
					falsely += len(newSeries(c, 1000+seed).days(90, 1))
				}
				b.ReportMetric(100*float64(len(d.off))/float64(d.steps), "%found")
				b.ReportMetric(100*d.within(10), "%within-10")
				b.ReportMetric(100*d.within(20), "%within-20")
				b.ReportMetric(quantile(d.delays, 0.5), "delay-p50")
				b.ReportMetric(quantile(d.delays, 0.95), "delay-p95")
				b.ReportMetric(100*float64(d.covered)/float64(d.steps), "%in-bounds")
				b.ReportMetric(float64(falsely)/float64(seeds), "false/90days")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
