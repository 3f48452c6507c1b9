package health

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// benchSeries returns those of n endpoints with one each.
func benchSeries(n int, now *time.Time) []*Series {
	shared := NewShared(func() time.Time { return *now }, slog.New(slog.DiscardHandler))
	all := make([]*Series, n)
	for i := range all {
		name := fmt.Sprintf("llama-prod-%05d", i)
		o := ofPace()
		o.Objectives = half()
		all[i] = New(name, shared, nil).OpenSeries(result.SeriesID{Endpoint: name, Module: "interactive", Prefix: "cold"}, o)
	}
	return all
}

// BenchmarkMemory is what 10,000 endpoints hold: when all are up, and when all are down
// after 16 incidents.
func BenchmarkMemory(b *testing.B) {
	const n = 10_000
	for name, pattern := range map[string]string{"up": "ssss", "down": "FFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFFsssFF"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				now := begin()
				before := heap()
				all := benchSeries(n, &now)
				for _, c := range pattern {
					now = now.Add(30 * time.Second)
					for _, s := range all {
						see(s, benchResult(now, c == 'F'), false)
					}
				}
				b.ReportMetric((heap()-before)/n, "B/endpoint")
				runtime.KeepAlive(all)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchResult(start time.Time, failed bool) *result.Result {
	r := probeOf(start, result.Success)
	if failed {
		r.Outcome, r.Err = result.ConnectError, errors.New("connection refused (dial tcp 10.0.0.5:8000: connect)")
	}
	return r
}

// BenchmarkObserve is one result: of an endpoint that is up, and of one that fails.
func BenchmarkObserve(b *testing.B) {
	for name, failed := range map[string]bool{"up": false, "down": true} {
		b.Run(name, func(b *testing.B) {
			now := begin()
			all := benchSeries(1, &now)
			r := benchResult(now, failed)
			b.ReportAllocs()
			for b.Loop() {
				see(all[0], r, false)
			}
		})
	}
}

// BenchmarkStatus is what a scrape asks of each endpoint.
func BenchmarkStatus(b *testing.B) {
	now := begin()
	all := benchSeries(1, &now)
	see(all[0], benchResult(now, false), false)
	e := all[0].endpoint
	b.ReportAllocs()
	for b.Loop() {
		e.Status()
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
