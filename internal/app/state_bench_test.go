//go:build linux

package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/store"
)

// seriesOf returns n series, each of an endpoint of its own.
func seriesOf(n int, now func() time.Time) []*status.Probes {
	board, shared := status.NewBoard(now), health.NewShared(now, slog.New(slog.DiscardHandler))
	all := make([]*status.Probes, n)
	objectives := &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond}
	for i := range all {
		e := &config.Endpoint{
			Name: fmt.Sprintf("llama-prod-%05d", i),
			URL:  config.URL{URL: &url.URL{Scheme: "http", Host: fmt.Sprintf("llama-%d.internal:8000", i)}},
		}
		id := result.SeriesID{Endpoint: e.Name, Module: "interactive", Prefix: "cold"}
		all[i] = board.NewEndpoint(e, health.New(e.Name, shared, nil), nil).OpenSeries(
			id, health.SeriesOptions{Interval: 30 * time.Second, Timeout: 10 * time.Second, Objectives: objectives}, nil)
	}
	return all
}

// fill gives every series 30 days of uptime and a full history, with a TTFT and TPOT
// that no compression foresees, and a failure in a hundred.
func fill(all []*status.Probes, now *time.Time) {
	random := rand.New(rand.NewPCG(1, 2))
	probe := func() *result.Result {
		r := &result.Result{Start: *now, Outcome: result.Success, Timing: result.Timing{
			TTFT: time.Duration(200e6 * (1 + random.ExpFloat64())), TPOT: time.Duration(20e6 * (1 + 0.1*random.NormFloat64())),
		}}
		if random.IntN(100) == 0 {
			r.Outcome = result.TimeoutStall
		}
		return r
	}
	objectives := &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond}
	add := func(n int, pause time.Duration) {
		for range n {
			*now = now.Add(pause)
			for _, p := range all {
				o := series.Observe(probe(), objectives, false, false)
				p.Observe(&o)
			}
		}
	}
	add(30*24, time.Hour)
	add(480, 30*time.Second)
}

// BenchmarkState is the file of the histories of 10,000 endpoints, all full: its size,
// the processor's time to save it and to load it, and how long a save takes beside
// probes.
func BenchmarkState(b *testing.B) {
	endpoints := 10_000
	if testing.Short() {
		endpoints = 500
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	all := seriesOf(endpoints, clock)
	fill(all, &now)
	open := func(dir string, saved chan<- time.Time) *store.Store {
		return store.Open(store.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), Parts: []store.Part{{
			Name: "history", Every: time.Millisecond, Revision: func() uint64 { return 1 },
			Load: func(record []byte) error {
				var s status.SavedSeries
				if err := json.Unmarshal(record, &s); err != nil {
					return err
				}
				_, err := s.Restore(now)
				return err
			},
			Save: func(put func(any) error) error {
				defer func() { saved <- time.Now() }()
				saved <- time.Now()
				var s status.SavedSeries
				for _, p := range all {
					p.Save(&s)
					if err := put(s); err != nil {
						return err
					}
				}
				return nil
			},
		}}})
	}
	for b.Loop() {
		dir := b.TempDir()
		saved := make(chan time.Time, 10)
		s := open(dir, saved)
		before := processCPU(b)
		s.Close(b.Context())
		b.ReportMetric((processCPU(b) - before).Seconds(), "CPU-s/save")
		b.ReportMetric(float64(s.Stats().Bytes)/float64(endpoints), "B/endpoint")
		<-saved
		<-saved

		before = processCPU(b)
		s = open(dir, saved)
		b.ReportMetric((processCPU(b) - before).Seconds(), "CPU-s/load")
		go func() { _ = s.Run(b.Context()) }()
		began := <-saved
		b.ReportMetric((<-saved).Sub(began).Seconds(), "s/save-beside-probes")
		s.Release()
	}
	b.ReportMetric(0, "ns/op")
}
