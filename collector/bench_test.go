package collector

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// benchTarget is the n-th series of the benchmarks.
func benchTarget(n int) target {
	return target{
		result.SeriesID{Endpoint: fmt.Sprintf("llama-prod-%05d", n), Module: "interactive", Prefix: "cold"},
		map[string]string{"team": "search", "a_zone": "fra1"},
		"meta-llama/Llama-3.1-8B-Instruct",
	}
}

// benchResult is a success of 64 tokens that fills every family; latencies
// spread log-normally, as those of real servers.
func benchResult(r *rand.Rand, model string) *result.Result {
	spread := func(median time.Duration) time.Duration {
		return time.Duration(float64(median) * math.Exp(0.4*r.NormFloat64()))
	}
	res := success()
	res.Model = model
	res.Timing = result.Timing{
		TTFT: spread(200 * time.Millisecond), TTFO: spread(250 * time.Millisecond), TPOT: spread(20 * time.Millisecond),
		MaxGap: spread(50 * time.Millisecond), Duration: spread(1500 * time.Millisecond),
	}
	for i := range res.Timing.Phases {
		res.Timing.Phases[i] = spread(5 * time.Millisecond)
	}
	at := time.Duration(0)
	for range 64 {
		res.Events = append(res.Events, result.Event{At: at})
		at += spread(20 * time.Millisecond)
	}
	for i := range res.TraceID {
		res.TraceID[i] = byte(r.Uint32())
	}
	res.Tokens.Cached, res.Tokens.Reasoning = 10, 5
	res.Server.Queue, res.Server.Prefill, res.Server.Decode = spread(time.Millisecond), spread(time.Second), spread(time.Second)
	res.RateLimit.Requests, res.RateLimit.Tokens = 100, 10000
	res.CertNotAfter = epoch.Add(time.Hour)
	return res
}

// benchResultsPerSeries is how many results each series of a benchmark has
// seen: enough that the native buckets are those of a long run.
const benchResultsPerSeries = 50

// benchStore returns a store of n series.
func benchStore(n int) *Probes {
	r := rand.New(rand.NewPCG(1, 1))
	p := NewProbes(time.Now)
	for i := range n {
		tg := benchTarget(i)
		s := p.OpenEndpoint(tg.info()).Open(tg.SeriesID, tg.options())
		for range benchResultsPerSeries {
			res := benchResult(r, tg.model)
			s.Observe(res)
			judge(s, res)
		}
	}
	return p
}

// BenchmarkWrite measures a page of the store in each format.
func BenchmarkWrite(b *testing.B) {
	sizes := []int{1000, 10_000}
	if testing.Short() {
		sizes = []int{100}
	}
	for _, n := range sizes {
		page := NewExposition(prometheus.NewRegistry(), benchStore(n))
		for _, format := range []expfmt.Format{expfmt.FmtText, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtProtoDelim} {
			b.Run(fmt.Sprintf("%s/%d", formatName(format), n), func(b *testing.B) {
				var size countingWriter
				if err := page.Write(&size, format); err != nil { // fills the buffer pool
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := page.Write(io.Discard, format); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
				b.ReportMetric(float64(size)/1e6, "MB/page")
			})
		}
	}
}

// BenchmarkWriteFindings measures a page of 1,000 endpoints with all findings that
// are derived from many probes, and a page of endpoints without any.
func BenchmarkWriteFindings(b *testing.B) {
	const n = 1000
	for _, known := range []bool{false, true} {
		p := benchStore(n)
		for i := range n {
			if tg := benchTarget(i); known {
				p.OpenFindings(tg.findings()).Set(everyFinding(tg.model))
			}
		}
		page := NewExposition(prometheus.NewRegistry(), p)
		b.Run(fmt.Sprintf("text/%d/known=%t", n, known), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := page.Write(io.Discard, expfmt.FmtText); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPeer writes the same page from the store and from client_golang's
// vectors, and prints how many times the vectors take.
func BenchmarkPeer(b *testing.B) {
	const n = 300
	page := NewExposition(prometheus.NewRegistry(), benchStore(n))
	ref := vectorsOf(b, page)
	for _, format := range []expfmt.Format{expfmt.FmtText, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtProtoDelim} {
		b.Run(fmt.Sprintf("%s/%d", formatName(format), n), func(b *testing.B) {
			var store, vectors time.Duration
			for b.Loop() {
				start := time.Now()
				if err := page.Write(io.Discard, format); err != nil {
					b.Fatal(err)
				}
				store += time.Since(start)
				start = time.Now()
				families, err := ref.Gather()
				if err != nil {
					b.Fatal(err)
				}
				if err := writeFamilies(io.Discard, format, families); err != nil {
					b.Fatal(err)
				}
				vectors += time.Since(start)
			}
			b.ReportMetric(store.Seconds()*1e3/float64(b.N), "store-ms")
			b.ReportMetric(vectors.Seconds()*1e3/float64(b.N), "vectors-ms")
			b.ReportMetric(vectors.Seconds()/store.Seconds(), "vectors/store")
		})
	}
}

// vectorsOf returns client_golang's vectors with the series of a page, and as many
// observations in each.
func vectorsOf(b *testing.B, page *Exposition) *prometheus.Registry {
	var text bytes.Buffer
	if err := page.Write(&text, expfmt.FmtProtoDelim); err != nil {
		b.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	described := map[string]Family{}
	for _, f := range Catalogue() {
		described[f.Name] = f
	}
	for _, f := range decode(b, &text) {
		d := described[f.GetName()]
		o, names := d.opts(), []string{}
		for _, l := range f.Metric[0].Label {
			names = append(names, l.GetName())
		}
		counter, gauge := prometheus.NewCounterVec(prometheus.CounterOpts(o), names), prometheus.NewGaugeVec(prometheus.GaugeOpts(o), names)
		summary := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: o.Name, Help: o.Help}, names)
		histogram := prometheus.NewHistogramVec(d.histogramOpts(ttftBounds), names)
		reg.MustRegister(map[Type]prometheus.Collector{Counter: counter, Gauge: gauge, Summary: summary, Histogram: histogram}[d.Type])
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			switch d.Type {
			case Counter:
				counter.WithLabelValues(labels...).Add(m.Counter.GetValue())
			case Gauge:
				gauge.WithLabelValues(labels...).Set(m.Gauge.GetValue())
			case Summary:
				summary.WithLabelValues(labels...).Observe(m.Summary.GetSampleSum())
			case Histogram:
				for i := range m.Histogram.GetSampleCount() {
					histogram.WithLabelValues(labels...).Observe(0.01 * float64(i%50+1))
				}
			}
		}
	}
	return reg
}

// BenchmarkObserve measures one result of 64 token events.
func BenchmarkObserve(b *testing.B) {
	tg := benchTarget(0)
	r := rand.New(rand.NewPCG(1, 1))
	results := make([]*result.Result, 256)
	for i := range results {
		results[i] = benchResult(r, tg.model)
	}
	s := NewProbes(time.Now).Open(tg.SeriesID, tg.options())
	slo := s.slo
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o := series.Observe(results[i%len(results)], slo.Objectives, false, false)
		s.Add(&o)
		slo.log.Add(&o)
	}
}

// BenchmarkHeap reports the live heap of a series with every family filled.
func BenchmarkHeap(b *testing.B) {
	const n = 1000
	for b.Loop() {
		before := liveHeap()
		p := benchStore(n)
		b.ReportMetric(float64(liveHeap()-before)/n, "B/series")
		runtime.KeepAlive(p)
	}
}

// liveHeap returns the heap in use after a full collection.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// formatName names a format in a benchmark.
func formatName(f expfmt.Format) string {
	switch f.FormatType() {
	case expfmt.TypeOpenMetrics:
		return "openmetrics"
	case expfmt.TypeProtoDelim:
		return "protobuf"
	}
	return "text"
}

// countingWriter counts bytes.
type countingWriter int64

func (w *countingWriter) Write(b []byte) (int, error) {
	*w += countingWriter(len(b))
	return len(b), nil
}

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
func vllmHistogram(bounds []float64, seed int) *page.Histogram {
	h := &page.Histogram{Bounds: bounds, Sum: float64(seed) * 12.345678}
	for i := range bounds {
		h.Count += uint64(seed * (i + 7) % 9973)
		h.Counts = append(h.Counts, h.Count)
	}
	h.Count += 3
	return h
}

// vllmStatus returns a server with everything that vLLM reports. seed makes the
// values differ.
func vllmStatus(server string, seed int) page.Status {
	at := epoch.Add(time.Duration(seed) * time.Second)
	snapshot := &page.Snapshot{
		Engine: "vllm", At: at.Add(10 * time.Millisecond),
		Values:          make(map[config.Quantity]float64),
		Histograms:      make(map[config.Quantity]*page.Histogram),
		Requests:        map[string]float64{"stop": float64(seed * 1000), "length": float64(seed * 10), "abort": 1, "error": 0},
		PrefixCacheUnit: "tokens", PrefixCacheRatio: 0.625, LastProgress: at, Role: "unified",
		Settings: map[config.Setting]string{"kv_cache_precision": "fp8", "prefix_caching": "True"},
	}
	for i, q := range append(numbers(config.ServerSoftware), config.PrefixCacheAsked, config.PrefixCacheHits) {
		if config.IsRatio(q) {
			snapshot.Values[q] = 1 / float64(seed+1)
			continue
		}
		snapshot.Values[q] = float64((seed + 1) * (i*i*i*i*i + 1))
	}
	for i, q := range distributions(config.ServerSoftware) {
		bounds := [][]float64{vllmTTFTBounds, vllmTokenBounds, vllmTokenBounds}
		if i < len(bounds) {
			snapshot.Histograms[q] = vllmHistogram(bounds[i], seed+1)
			continue
		}
		snapshot.Histograms[q] = vllmHistogram(vllmRequestBounds, seed+i)
	}
	return page.Status{
		Server: server, URL: "http://" + server + "/metrics", At: at, Duration: 12 * time.Millisecond,
		State: page.Up, Snapshot: snapshot, LastProgress: at,
	}
}

// benchServers returns a store of n servers, ten for each endpoint.
func benchServers(n int) *Servers {
	s := NewServers()
	for i := range n / 10 {
		id, statuses := benchEndpoint(i)
		s.OpenEndpoint(id).SetServers(id.Model, statuses)
	}
	return s
}

// benchEndpoint is the n-th endpoint of the benchmarks, with ten servers.
func benchEndpoint(n int) (ServersID, []page.Status) {
	tg := benchTarget(n)
	var statuses []page.Status
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
	first := servers.of(id.Endpoint)
	for _, format := range []expfmt.Format{expfmt.FmtText, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtProtoDelim} {
		b.Run(fmt.Sprintf("%s/%d", formatName(format), n), func(b *testing.B) {
			var size countingWriter
			if err := page.Write(&size, format); err != nil { // fills the buffer pool
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				first.SetServers(id.Model, statuses)
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
	first := s.of(id.Endpoint)
	b.ReportAllocs()
	for b.Loop() {
		first.SetServers(id.Model, statuses)
	}
}
