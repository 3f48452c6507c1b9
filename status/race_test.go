package status

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// The board is written and read from everywhere at once; in the end a mirror
// that only followed the updates has its table.
func TestConcurrency(t *testing.T) {
	b := NewBoard(time.Now)
	name := func(r *rand.Rand) string { return fmt.Sprint("e", r.IntN(20)) }
	for i := range 20 {
		b.SetEndpoint(configured(fmt.Sprint("e", i)))
	}
	var writers, readers sync.WaitGroup
	for i := range 4 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		writers.Go(func() {
			for range 500 {
				id := result.SeriesID{Endpoint: name(r), Module: "m", Prefix: "cold"}
				p := b.OpenSeries(id, pace())
				for range r.IntN(5) {
					p.Observe(success(time.Now()))
					p.Observe(failure(time.Now(), result.Empty))
				}
				switch r.IntN(6) {
				case 0:
					b.CloseSeries(id)
				case 1:
					b.RemoveEndpoint(name(r))
				case 2:
					b.SetEndpoint(configured(name(r)))
				case 3:
					b.SetServers(name(r), []engine.Status{up("s", 0.5, map[config.Quantity]float64{config.RequestsRunning: r.Float64()})})
				case 4:
					b.Note(name(r), "m", "text")
				}
			}
		})
	}
	follower := &mirror{rows: map[string]*Row{}}
	stop := make(chan struct{})
	read := func(f func()) {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	read(func() { follower.follow(b) })
	read(func() { text(t, b.Fleet()) })
	read(func() {
		if d, ok := b.Detail("e7"); ok {
			text(t, d)
		}
	})
	writers.Wait()
	close(stop)
	readers.Wait()
	follower.follow(b)
	f := b.Fleet()
	if len(f.Endpoints) != len(follower.rows) {
		t.Errorf("the mirror has %d rows, the board %d", len(follower.rows), len(f.Endpoints))
	}
	series := 0
	for _, row := range f.Endpoints {
		if got, want := text(t, follower.rows[row.Name]), text(t, row); got != want {
			t.Errorf("the mirror has %s, the board %s", got, want)
		}
		d, _ := b.Detail(row.Name)
		series += len(d.Series)
	}
	if n := b.open.Load(); n != int64(series) {
		t.Errorf("%d series are counted, %d are there", n, series)
	}
}
