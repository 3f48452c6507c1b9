package collector

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// Bounds of vLLM's histograms.
var (
	vllmTTFTBounds = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	vllmTokenBounds = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
	vllmRequestBounds = []float64{
		0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
)

// vllmHistogram returns a histogram that has seen a long run.
func vllmHistogram(bounds []float64, seed int) *engine.Histogram {
	h := &engine.Histogram{Bounds: bounds, Sum: float64(seed) * 12.345678}
	for i := range bounds {
		h.Count += uint64(seed * (i + 7) % 9973)
		h.Counts = append(h.Counts, h.Count)
	}
	h.Count += 3
	return h
}

// vllmStatus returns a server with everything that vLLM tells. seed makes the
// values differ.
func vllmStatus(server string, seed int) engine.Status {
	at := epoch.Add(time.Duration(seed) * time.Second)
	snapshot := &engine.Snapshot{
		Engine: "vllm", At: at.Add(10 * time.Millisecond),
		Values:          make(map[config.Quantity]float64),
		Histograms:      make(map[config.Quantity]*engine.Histogram),
		Requests:        map[string]float64{"stop": float64(seed * 1000), "length": float64(seed * 10), "abort": 1, "error": 0},
		PrefixCacheUnit: "tokens", PrefixCacheRatio: 0.625, LastProgress: at,
	}
	for i, q := range append(config.Numbers(), config.PrefixCacheAsked, config.PrefixCacheHits) {
		if config.IsRatio(q) {
			snapshot.Values[q] = 1 / float64(seed+1)
			continue
		}
		snapshot.Values[q] = float64((seed + 1) * (i*i*i*i*i + 1))
	}
	for i, q := range config.Distributions() {
		bounds := [][]float64{vllmTTFTBounds, vllmTokenBounds, vllmTokenBounds}
		if i < len(bounds) {
			snapshot.Histograms[q] = vllmHistogram(bounds[i], seed+1)
			continue
		}
		snapshot.Histograms[q] = vllmHistogram(vllmRequestBounds, seed+i)
	}
	return engine.Status{
		Server: server, URL: "http://" + server + "/metrics", At: at, Duration: 12 * time.Millisecond,
		State: engine.Up, Snapshot: snapshot, LastProgress: at,
	}
}

// benchServers returns a store of n servers, ten for each endpoint.
func benchServers(n int) *Servers {
	s := NewServers()
	for i := range n / 10 {
		id, statuses := benchEndpoint(i)
		s.Set(id, statuses)
	}
	return s
}

// benchEndpoint is the n-th endpoint of the benchmarks, with ten servers.
func benchEndpoint(n int) (ServersID, []engine.Status) {
	tg := benchTarget(n)
	var statuses []engine.Status
	for i := range 10 {
		statuses = append(statuses, vllmStatus(fmt.Sprintf("10.0.%d.%d:8000", n, i), i))
	}
	return ServersID{Endpoint: tg.Endpoint, Model: tg.model, Labels: tg.Labels}, statuses
}

// BenchmarkWriteServers measures a page of 500 servers in each format, with a
// reading of one endpoint between two pages.
func BenchmarkWriteServers(b *testing.B) {
	const n = 500
	servers := benchServers(n)
	page := NewExposition(prometheus.NewRegistry(), servers)
	id, statuses := benchEndpoint(0)
	for _, format := range []expfmt.Format{expfmt.FmtText, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtProtoDelim} {
		b.Run(fmt.Sprintf("%s/%d", formatName(format), n), func(b *testing.B) {
			var size countingWriter
			if err := page.Write(&size, format); err != nil { // fills the buffer pool
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				servers.Set(id, statuses)
				if err := page.Write(io.Discard, format); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ms/page")
			b.ReportMetric(float64(size)/1e6, "MB/page")
		})
	}
}

// BenchmarkSet measures a reading of ten servers of one endpoint whose labels
// stay, beside 490 others.
func BenchmarkSet(b *testing.B) {
	s := benchServers(500)
	id, statuses := benchEndpoint(0)
	b.ReportAllocs()
	for b.Loop() {
		s.Set(id, statuses)
	}
}
