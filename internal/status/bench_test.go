package status

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// benchBoard returns a board of n endpoints with one series each, every one of
// which has seen so many probes: answers of 64 tokens, and a failure now and
// then.
func benchBoard(n, probes int, configs []*config.Endpoint) (*watched, []*judged, *time.Time) {
	now := epoch()
	b := newWatched(func() time.Time { return now })
	all := make([]*judged, n)
	objectives := &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond}
	b.SetEndpoint(configs...)
	for i := range all {
		b.SetServers(configs[i].Name, []page.Status{up("s", 0.5, map[config.Quantity]float64{config.RequestsRunning: 3})})
		o := pace()
		o.Objectives, o.First = objectives, true
		all[i] = b.OpenSeries(result.SeriesID{Endpoint: configs[i].Name, Module: "interactive", Prefix: "cold"}, o)
	}
	for range probes {
		now = now.Add(30 * time.Second)
		for i, p := range all {
			if now.Unix()/30%100 == int64(i%100) {
				p.Observe(failure(now, result.TimeoutFirstToken))
				continue
			}
			p.Observe(answer(now, 64))
		}
	}
	return b, all, &now
}

// many is how many endpoints the benchmarks of a large fleet have: 10,000, and with -short what shows that they run.
func many() int {
	if testing.Short() {
		return 500
	}
	return 10_000
}

func benchConfigs(n int) []*config.Endpoint {
	all := make([]*config.Endpoint, n)
	for i := range all {
		all[i] = configured(fmt.Sprintf("llama-prod-%05d", i))
	}
	return all
}

// BenchmarkMemory is what a board holds after more than four hours of probes
// every 30 s, all rows made.
func BenchmarkMemory(b *testing.B) {
	sizes := []int{1000, 10_000}
	if testing.Short() {
		sizes = []int{100}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			configs := benchConfigs(n)
			for b.Loop() {
				before := heap()
				board, all, _ := benchBoard(n, 500, configs)
				board.Fleet()
				held := heap() - before
				b.ReportMetric(held/1e6, "MB")
				b.ReportMetric(held/float64(n), "B/endpoint")
				runtime.KeepAlive(board)
				runtime.KeepAlive(all)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heap returns the bytes that are in use.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkObserve is what a probe waits for.
func BenchmarkObserve(b *testing.B) {
	n := min(many(), 1000)
	_, all, now := benchBoard(n, 500, benchConfigs(n))
	results := []*result.Result{answer(*now, 64), failure(*now, result.TimeoutFirstToken)}
	for i, name := range []string{"success", "failure"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				all[n%len(all)].Observe(results[i])
				n++
			}
		})
	}
	b.Run("while read", func(b *testing.B) {
		board := all[0].endpoint.board
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
					board.Fleet()
				}
			}
		}()
		n := 0
		for b.Loop() {
			all[n%len(all)].Observe(results[0])
			n++
		}
		close(stop)
		<-ended
	})
}

// BenchmarkFleet is the page of 10,000 endpoints: all rows rebuilt, and none.
func BenchmarkFleet(b *testing.B) {
	board, all, now := benchBoard(many(), 40, benchConfigs(many()))
	b.Run("all changed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for _, p := range all {
				p.Observe(success(*now))
			}
			b.StartTimer()
			board.Fleet()
		}
	})
	b.Run("none changed", func(b *testing.B) {
		for b.Loop() {
			*now = now.Add(time.Millisecond)
			board.Fleet()
		}
	})
}

// BenchmarkChanges is a second of 10,000 endpoints that are probed every 30 s.
func BenchmarkChanges(b *testing.B) {
	board, all, now := benchBoard(many(), 40, benchConfigs(many()))
	version, next := board.Fleet().Version, 0
	for b.Loop() {
		b.StopTimer()
		*now = now.Add(time.Second)
		for range 333 {
			all[next%len(all)].Observe(success(*now))
			next++
		}
		b.StartTimer()
		u := board.Changes(version)
		if len(u.Endpoints) != 333 {
			b.Fatalf("%d rows", len(u.Endpoints))
		}
		version = u.Version
	}
}

// BenchmarkDetail is the page of one endpoint.
func BenchmarkDetail(b *testing.B) {
	board, _, _ := benchBoard(1, 500, benchConfigs(1))
	for b.Loop() {
		if _, ok := board.Detail("llama-prod-00000"); !ok {
			b.Fatal("no endpoint")
		}
	}
}
