package estimate

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// fill observes results until all windows are full.
func fill(l *lab, results func(i int) []*result.Result) {
	for i := range 300 {
		l.run(results(i)...)
	}
}

// modules are what trackers see, by what it costs.
func modules() map[string]func(i int) []*result.Result {
	s := newServer(1)
	plain, long := s.ask(256), s.ask(4000)
	burst := level(64, 100*ms)
	return map[string]func(int) []*result.Result{
		"plain":  func(int) []*result.Result { return []*result.Result{plain} },
		"ladder": func(i int) []*result.Result { return []*result.Result{s.ask([]int{256, 1024, 4096}[i%3])} },
		"paired": func(int) []*result.Result {
			second := warm(s.ask(32))
			second.Tokens.Prompt += 3968
			return []*result.Result{long, cached(second, 3968)}
		},
		"burst of 64": func(int) []*result.Result { return burst },
		"questions": func(i int) []*result.Result {
			return []*result.Result{with(answer(fmt.Sprint(i%maxPrompts), "a"), func(r *result.Result) {
				r.Answer.Model, r.Answer.Fingerprint = "m", fmt.Sprint(i%8)
			})}
		},
		"score": func(i int) []*result.Result { return []*result.Result{scored(-2 + float64(i%7)/1000)} },
	}
}

func BenchmarkObserve(b *testing.B) {
	for name, results := range modules() {
		b.Run(name, func(b *testing.B) {
			l, i := newLab(time.Second), 0
			fill(l, results)
			b.ReportAllocs()
			for b.Loop() {
				l.run(results(i)...)
				i++
			}
		})
	}
}

// BenchmarkMemory reports the bytes of a tracker whose windows are full.
func BenchmarkMemory(b *testing.B) {
	const trackers = 20
	for name, results := range modules() {
		b.Run(name, func(b *testing.B) {
			var per float64
			for b.Loop() {
				all := make([]*lab, trackers)
				before := liveHeap()
				for i := range all {
					all[i] = newLab(time.Second)
					fill(all[i], results)
				}
				per = float64(liveHeap()-before) / trackers
				runtime.KeepAlive(all)
			}
			b.ReportMetric(per, "B/tracker")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkPrefillAccuracy reports relative errors over 2,000 data sets with 10 %
// noise.
func BenchmarkPrefillAccuracy(b *testing.B) {
	for _, lengths := range [][]int{{16, 4096}, {256, 4096}, {256, 1024, 4096}, {256, 512, 1024, 2048, 4096}, {1000, 8000, 32000}} {
		for _, n := range []int{30, 60, 90, 240} {
			for _, outliers := range []float64{0, 0.05} {
				b.Run(fmt.Sprintf("%v/n=%d/outliers=%v", lengths, n, outliers), func(b *testing.B) {
					var a accuracy
					for b.Loop() {
						a = judge(2000, n, outliers, 0.05, lengths...)
					}
					b.ReportMetric(100*quantile(a.rate, 0.5), "%rate-p50")
					b.ReportMetric(100*quantile(a.rate, 0.95), "%rate-p95")
					b.ReportMetric(100*quantile(a.fixed, 0.5), "%fixed-p50")
					b.ReportMetric(100*quantile(a.fixed, 0.95), "%fixed-p95")
					b.ReportMetric(float64(100*a.rateWithin)/float64(len(a.rate)), "%rate-within")
					b.ReportMetric(float64(100*a.absent)/2000, "%absent")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkShift reports false shifts in a month of a score every minute, over
// 200 months, and how many scores it takes to find a shift of 0.02.
func BenchmarkShift(b *testing.B) {
	for name, kind := range map[string]noise{"independent": independent, "correlated": correlated, "heavy-tailed": heavyTailed} {
		for _, deviation := range []float64{0.002, 0.005, 0.0075, 0.01} {
			b.Run(fmt.Sprintf("%s/noise=%v", name, deviation), func(b *testing.B) {
				var events int
				var early, late []float64
				for b.Loop() {
					events = falseShifts(200, deviation, kind)
					early = delays(1000, minBaseline, 0.02, deviation, kind)
					late = delays(1000, maxBaseline, 0.02, deviation, kind)
				}
				b.ReportMetric(float64(events)/200, "false/month")
				b.ReportMetric(quantile(early, 0.95), "early-p95")
				b.ReportMetric(quantile(late, 0.5), "late-p50")
				b.ReportMetric(quantile(late, 0.95), "late-p95")
				b.ReportMetric(quantile(late, 0.99), "late-p99")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkFlips reports the changes in a month of an answer every minute of
// which a share is like no other, over 200 months.
func BenchmarkFlips(b *testing.B) {
	for _, share := range []float64{0.05, 0.1, 0.2} {
		b.Run(fmt.Sprint(share), func(b *testing.B) {
			var events uint64
			for b.Loop() {
				events = 0
				for seed := range uint64(200) {
					events += flips(seed, share)
				}
			}
			b.ReportMetric(float64(events)/200, "changes/month")
			b.ReportMetric(0, "ns/op")
		})
	}
}

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
	remembering := func(memory float64) climate { c := harsh(0.25); c.memory = memory; return c }
	for _, c := range []climate{harsh(0.1), harsh(0.15), harsh(0.18), harsh(0.2), harsh(0.25), harsh(0.3), remembering(0.6), remembering(0.9)} {
		b.Run(fmt.Sprintf("sigma=%v/memory=%v", c.sigma, c.memory), func(b *testing.B) {
			for b.Loop() {
				d, falsely := date(b, c, 1.2, 20, 50), 0
				for seed := range uint64(10) {
					falsely += len(newSeries(c, 1000+seed).days(90, 1))
				}
				b.ReportMetric(100*float64(len(d.off))/float64(d.steps), "%found")
				b.ReportMetric(100*d.within(10), "%within-10")
				b.ReportMetric(100*d.within(20), "%within-20")
				b.ReportMetric(quantile(d.delays, 0.5), "delay-p50")
				b.ReportMetric(quantile(d.delays, 0.95), "delay-p95")
				b.ReportMetric(100*float64(d.covered)/float64(d.steps), "%in-bounds")
				b.ReportMetric(float64(falsely)/10, "false/90days")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDrift reports false changes of embeddings in 200 months of an answer every
// ten minutes, by the median of the noise as a share of the norm.
func BenchmarkDrift(b *testing.B) {
	for _, median := range []float64{0.001, 0.005, 0.01, 0.02, 0.04} {
		b.Run(fmt.Sprint(median), func(b *testing.B) {
			const months, each = 200, 30 * 24 * 6
			for b.Loop() {
				events := uint64(0)
				for seed := range uint64(months) {
					events += noisyAnswers(seed, each, median, 0, 0)
				}
				b.ReportMetric(float64(events)/months, "changes/month")
			}
		})
	}
}
