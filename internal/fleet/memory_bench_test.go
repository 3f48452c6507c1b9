package fleet

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// BenchmarkMemory is what a fleet of endpoints with one module holds per endpoint: before the
// first probe, after three, and with all histories full, as after 30 days of probes every
// 30 s, with answers of 64 tokens and a failure in a hundred.
func BenchmarkMemory(b *testing.B) {
	sizes := []int{1000, 10_000}
	if testing.Short() {
		sizes = []int{100}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				f := fleetOf(b, n)
				b.ReportMetric((heap()-before)/float64(n), "B/endpoint-new")
				add := func(times int, from, pause time.Duration) {
					at := time.Now().Add(-from)
					for i := range times {
						at = at.Add(pause)
						for _, m := range f.active.Load().endpoints {
							t := m.tasks[0]
							t.publish([]*result.Result{fullAnswer(at, i)}, nil, false)
						}
					}
				}
				const day, total = 24 * time.Hour, 600 * 30 * time.Second
				add(3, 31*day, 24*time.Hour)
				b.ReportMetric((heap()-before)/float64(n), "B/endpoint-3-probes")
				add(21, 28*day, day)
				add(24, 7*day, 6*time.Hour)
				add(18, day, time.Hour)
				add(600, total, 30*time.Second)
				self, err := procfs.Self()
				if err != nil {
					b.Fatal(err)
				}
				stat, err := self.Stat()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(stat.ResidentMemory())/1e6, "MB-RSS-full")
				b.ReportMetric((heap()-before)/float64(n), "B/endpoint-full")
				f.Close()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// configOf returns a configuration of n endpoints, each with more keys.
func configOf(n int, more string) string {
	var text strings.Builder
	text.WriteString("modules: {interactive: {input_tokens: 64, output_tokens: 64}}\nendpoints:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {name: endpoint-%05d, url: \"http://127.0.0.1:9/%d\", model: llama, labels: {team: search}, modules: [interactive], %s}\n", i, i, more)
	}
	return text.String()
}

// fleetOf returns a fleet of n endpoints whose tasks nobody runs.
func fleetOf(b *testing.B, n int) *Fleet {
	b.Helper()
	cfg, err := config.Parse([]byte(configOf(n, "")), "test.yml")
	if err != nil {
		b.Fatal(err)
	}
	f := New(Options{
		Probing: schedule.New(schedule.Options{}), Probes: collector.NewProbes(time.Now),
		Self: collector.NewSelf(prometheus.NewRegistry()), Board: status.NewBoard(time.Now), Logger: slog.New(slog.DiscardHandler),
		Health: health.NewShared(time.Now, slog.New(slog.DiscardHandler)),
	})
	if err := f.Apply(planOf(cfg)); err != nil {
		b.Fatal(err)
	}
	return f
}

// fullAnswer is the i-th result of a series, with all that real ones mostly have. Its latencies differ from those before
// it by up to 100 ms and 1 ms.
func fullAnswer(start time.Time, i int) *result.Result {
	ttft, tpot := 200*time.Millisecond+time.Duration(i*7919%100_000)*time.Microsecond, 20*time.Millisecond+time.Duration(i*7907%1000)*time.Microsecond
	r := &result.Result{
		Start: start, Sent: start.Add(time.Millisecond), Outcome: result.Success, Status: 200, API: "openai-chat", Kind: api.Generation,
		Engine: "vllm", Model: "llama", Prefix: "cold", Clock: result.ClockKernel, Finish: "stop", Length: 64,
		Timing:    result.Timing{TTFT: ttft, TTFO: ttft, TPOT: tpot, MaxGap: 30 * time.Millisecond, Duration: 1500 * time.Millisecond},
		Tokens:    result.Tokens{Prompt: 64, Cached: -1, Output: 64, Reasoning: -1, Source: result.TokensFromUsage},
		Decoded:   result.TokenSpan{Last: 63, Tokens: 64, FirstTokens: 1},
		Server:    api.ServerTimes{Queue: result.Absent, Prefill: result.Absent, Decode: result.Absent},
		RateLimit: api.RateLimit{Requests: -1, Tokens: -1}, RetryAfter: result.Absent,
	}
	binary.LittleEndian.PutUint64(r.TraceID[:], uint64(start.UnixNano()))
	for i := range r.Timing.Phases {
		r.Timing.Phases[i] = time.Duration(i+1) * time.Millisecond
	}
	for i := range 64 {
		r.Events = append(r.Events, result.Event{At: ttft + time.Duration(i)*tpot, Tokens: 1, ReadLag: time.Microsecond})
	}
	if i%100 == 99 {
		r.Outcome, r.Err = result.TimeoutStall, fmt.Errorf("no event for %s", 30*time.Second)
	}
	return r
}

// heap returns the bytes that are in use, and returns the others to the system, as the daemon does once it has begun.
func heap() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkReload is how long a reload of 10,000 endpoints takes that changes all of them, from
// the text of the configuration on.
func BenchmarkReload(b *testing.B) {
	n := 10_000
	if testing.Short() {
		n = 100
	}
	f := fleetOf(b, n)
	defer f.Close()
	texts := []string{configOf(n, "slo: {ttft: 5s}"), configOf(n, "slo: {ttft: 6s}")}
	i := 0
	for b.Loop() {
		cfg, err := config.Parse([]byte(texts[i%2]), "test.yml")
		if err == nil {
			err = f.Apply(planOf(cfg))
		}
		if err != nil {
			b.Fatal(err)
		}
		i++
	}
}
