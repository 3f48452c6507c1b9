package recorder

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/page"
)

// wellSource is an endpoint whose server shows so many quantities as vLLM's does.
type wellSource struct {
	now    time.Time
	values map[string]float64
}

func (*wellSource) Config() string                      { return "" }
func (*wellSource) Probes(time.Time) ([]Probe, []Entry) { return nil, nil }
func (*wellSource) Explain() []Entry                    { return nil }
func (s *wellSource) Samples() []Entry {
	return []Entry{{At: s.now, Page: &Page{Source: "a:8000", Role: RoleServer, State: page.Up, Values: ValuesOf(s.values)}}}
}

// BenchmarkWell reports what an endpoint costs while all is well, for each of its probes, one every 30 s: it is looked at every
// 5 s, and its server's page is sampled every 5 minutes. B/endpoint is what is kept after 20 minutes.
func BenchmarkWell(b *testing.B) {
	const n = 1000
	s := &wellSource{now: began, values: map[string]float64{}}
	for i := range 40 {
		s.values[fmt.Sprintf("quantity_%02d_total", i)] = float64(i)
	}
	before := liveHeap()
	r := New("v1, go1", func() time.Time { return s.now })
	tracks := make([]*Track, n)
	for i := range tracks {
		tracks[i] = r.Track(fmt.Sprint("endpoint-", i))
	}
	status := up(began)
	probe := func() {
		for range 6 {
			s.now = s.now.Add(5 * time.Second)
			for _, t := range tracks {
				t.Tick(status, "", s)
			}
		}
		for _, t := range tracks {
			if t.TakesProbes() {
				b.Fatal("an endpoint that is well keeps probes")
			}
		}
	}
	for range 40 {
		probe()
	}
	kept := float64(liveHeap()-before) / n
	for b.Loop() {
		for range 10 { // a sample is taken in one of them
			probe()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*10*n), "ns/probe")
	b.ReportMetric(kept, "B/endpoint")
	b.ReportMetric(0, "ns/op")
	runtime.KeepAlive(tracks)
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
