//go:build linux

package app

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/prober"
)

// BenchmarkAccuracy compares what probes measure with the instants at which a
// simulated server in another process wrote each token: 50 tokens/s in each
// stream, all streams at once. An iteration takes about 4 s, so run it with
// -benchtime 1x. Figures are microseconds; "process" is what the fallback
// clock would have said of the same tokens.
func BenchmarkAccuracy(b *testing.B) {
	sizes := []int{1, 100, 500}
	if testing.Short() {
		sizes = []int{20}
	}
	for _, streams := range sizes {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { benchAccuracy(b, streams, false) })
		b.Run(fmt.Sprintf("streams=%d/scraped", streams), func(b *testing.B) { benchAccuracy(b, streams, true) })
	}
}

const accuracyTokens = 150

// startPacedServer starts a simulated server that writes 50 tokens/s in each
// stream, the streams out of step with each other.
func startPacedServer(b *testing.B, streams int) (url string) {
	b.Helper()
	_, url = startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0",
		fmt.Sprintf("--replicas=%d", min(50, streams)), "--slots=64", "--decode-step=20ms", "--decode-step-per-sequence=-1ns")
	return url
}

func benchAccuracy(b *testing.B, streams int, scraped bool) {
	server := startPacedServer(b, streams)
	probers := benchProbers(b, server, streams, accuracyTokens, config.ConnectionNew)
	if scraped {
		stop := scrapeEachSecond(b)
		defer stop()
	}
	var all errorSums
	var cpu time.Duration
	for b.Loop() {
		before := processCPU(b)
		results := probeAll(b, probers)
		cpu += processCPU(b) - before
		for _, r := range results {
			all.add(b, r, truth(b, server, r))
		}
	}
	all.report(b)
	b.ReportMetric(float64(cpu.Microseconds())/float64(all.tokens), "cpu-us/token")
}

// BenchmarkUsersAccuracy is BenchmarkAccuracy for the users of a load test: 20 tokens/s in each stream. Each user asks
// twice over the same connection: at a planned time, as in an open loop, and when the answer came, as in a closed one.
// The planned times are spread over 5 s, as while a load rises. Beside the errors it reports what it takes of both
// processes, and how long it takes to end in the middle. An iteration takes about 40 s.
func BenchmarkUsersAccuracy(b *testing.B) {
	sizes := []int{256, 512, 1024, 2048}
	if testing.Short() {
		sizes = []int{20}
	}
	for _, streams := range sizes {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { benchUsersAccuracy(b, streams) })
	}
}

func benchUsersAccuracy(b *testing.B, streams int) {
	const tokens, rise = 200, 5 * time.Second
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // as main.go has it
	server, u := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", fmt.Sprintf("--replicas=%d", min(50, streams)),
		"--slots=64", "--decode-step=50ms", "--decode-step-per-sequence=-1ns")
	users, why, err := benchProbers(b, u, 1, tokens, config.ConnectionReuse)[0].Users(b.Context())
	if why != nil || err != nil {
		b.Fatal(why, err)
	}
	defer users.Close()
	var all errorSums
	var lags []float64
	var own, servers, took time.Duration
	idle := residentMemory(b, os.Getpid())
	memory, reused := 0.0, 0
	for b.Loop() {
		results := make([]*result.Result, 2*streams)
		start, before, beforeServer := time.Now(), processCPU(b), cpuOf(b, server.Pid)
		midway := time.AfterFunc(rise+tokens*50*time.Millisecond/4, func() { memory = residentMemory(b, os.Getpid()) - idle })
		spread(streams, rise, func(i int) {
			results[2*i] = users.Ask(b.Context(), i, start.Add(time.Duration(i)*rise/time.Duration(streams)), nil)
			results[2*i+1] = users.Ask(b.Context(), i, time.Time{}, nil)
		})
		midway.Stop()
		own, servers, took = own+processCPU(b)-before, servers+cpuOf(b, server.Pid)-beforeServer, took+time.Since(start)
		for _, r := range results {
			if r.Outcome != result.Success {
				b.Fatalf("outcome %s: %v", r.Outcome, r.Err)
			}
			if r.Reused {
				reused++
			}
			all.add(b, r, truth(b, u, r))
			if r.StartLag >= 0 {
				lags = append(lags, float64(r.StartLag.Microseconds()))
			}
		}
	}
	all.report(b)
	slices.Sort(lags)
	b.ReportMetric(lags[len(lags)*99/100], "start-lag-p99-us")
	b.ReportMetric(100*float64(reused)/float64(all.probes), "reused-%")
	b.ReportMetric(100*float64(all.imprecise)/float64(all.probes), "imprecise-%")
	b.ReportMetric(float64(own.Microseconds())/float64(all.tokens), "cpu-us/token")
	b.ReportMetric(own.Seconds()/took.Seconds(), "cores")
	b.ReportMetric(servers.Seconds()/took.Seconds(), "server-cores")
	b.ReportMetric(memory*1e3/float64(streams), "kB/stream")
	b.ReportMetric(float64(endOf(b, users, streams, rise).Milliseconds()), "end-ms")
}

// endOf is how long it takes until no request of a load is left once it ends.
func endOf(b *testing.B, users *prober.Users, streams int, rise time.Duration) time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var ended time.Time
	time.AfterFunc(rise+2*time.Second, func() {
		ended = time.Now()
		cancel()
	})
	spread(streams, rise, func(i int) {
		if r := users.Ask(ctx, i, time.Time{}, nil); r.Outcome != result.Canceled {
			b.Errorf("outcome %s: %v", r.Outcome, r.Err)
		}
	})
	return time.Since(ended)
}

// cpuOf is the processor time of another process.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	return time.Duration(statOf(b, pid).CPUTime() * float64(time.Second))
}

// benchProbers returns n probers of one endpoint, with time-outs that no test
// machine runs into.
func benchProbers(b *testing.B, server string, n, tokens int, connection config.Connection) []*prober.Prober {
	b.Helper()
	u, err := url.Parse(server)
	if err != nil {
		b.Fatal(err)
	}
	dialer := prober.NewDialer()
	b.Cleanup(func() { dialer.Close() })
	e, err := prober.NewEndpoint(&config.Endpoint{
		Name: "accuracy", URL: config.URL{URL: u}, API: "openai-chat",
	}, prober.Options{Dialer: dialer})
	if err != nil {
		b.Fatal(err)
	}
	minute := model.Duration(time.Minute)
	m := &config.Module{
		Timeout: minute, Timeouts: config.Timeouts{Connect: minute, Headers: minute, FirstToken: minute, Stall: minute},
		InputTokens: config.Tokens(64), OutputTokens: config.Tokens(tokens), Prefix: config.PrefixCold, Connection: connection,
	}
	probers := make([]*prober.Prober, n)
	for i := range probers {
		if probers[i], err = e.NewProber(m); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(probers[i].Close)
	}
	return probers
}

// probeAll runs all probers at once, their starts spread over a second.
func probeAll(b *testing.B, probers []*prober.Prober) []*result.Result {
	b.Helper()
	results := make([]*result.Result, len(probers))
	spread(len(probers), time.Second, func(i int) {
		all, _ := probers[i].Run(b.Context(), time.Time{})
		results[i] = all[0]
	})
	for _, r := range results {
		if r.Outcome != result.Success {
			b.Fatalf("outcome %s: %v", r.Outcome, r.Err)
		}
	}
	return results
}

// spread calls f n times beside each other, the starts spread over some time.
func spread(n int, over time.Duration, f func(i int)) {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			time.Sleep(time.Until(start.Add(time.Duration(i) * over / time.Duration(n))))
			f(i)
		})
	}
	wg.Wait()
}

// truth asks the simulated server when it wrote the tokens of a probe.
func truth(b *testing.B, server string, r *result.Result) []int64 {
	b.Helper()
	resp, err := http.Get(server + "/simulator/requests/" + hex.EncodeToString(r.TraceID[:]))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var rec simulator.Record
	if err := json.NewDecoder(resp.Body).Decode(&rec); err != nil {
		b.Fatal(err)
	}
	var at []int64
	for _, e := range rec.Events {
		if e.Tokens > 0 {
			at = append(at, e.At.UnixNano())
		}
	}
	return at
}

// errorSums collects errors in microseconds.
type errorSums struct {
	ttft, gap, ttftProcess, gapProcess []float64
	ttftWorst                          float64 // worst error of a TTFT that nothing marks, in percent of it
	unmarked                           float64 // worst error of a gap that nothing marks
	tokens, merged, imprecise          int
	probes, otherClock                 int // those stamped by the process's clock, as when the wall clock is set
}

func (s *errorSums) add(b *testing.B, r *result.Result, written []int64) {
	b.Helper()
	if len(written) != len(r.Events) {
		b.Fatalf("%d events, the server wrote %d", len(r.Events), len(written))
	}
	s.probes++
	s.tokens += len(r.Events)
	if r.Clock != result.ClockKernel {
		s.otherClock++
		return
	}
	us := func(ns int64) float64 { return max(float64(ns), -float64(ns)) / 1e3 }
	at := func(i int) int64 { return r.Start.UnixNano() + int64(r.Events[i].At) }
	process := func(i int) int64 { return at(i) + int64(r.Events[i].ReadLag) }
	s.merged += r.MergedEvents()
	if r.Imprecise {
		s.imprecise++
	} else {
		e := us(at(0) - written[0])
		s.ttft = append(s.ttft, e)
		s.ttftWorst = max(s.ttftWorst, 100*e/us(int64(r.Timing.TTFT)))
	}
	s.ttftProcess = append(s.ttftProcess, us(process(0)-written[0]))
	for i := 1; i < len(written); i++ {
		want := written[i] - written[i-1]
		s.gapProcess = append(s.gapProcess, us(process(i)-process(i-1)-want))
		if r.Events[i].Merged || r.Events[i-1].Merged {
			continue
		}
		e := us(at(i) - at(i-1) - want)
		s.gap = append(s.gap, e)
		s.unmarked = max(s.unmarked, e)
	}
}

func (s *errorSums) report(b *testing.B) {
	b.Helper()
	if s.otherClock > s.probes/100 {
		b.Fatalf("%d of %d probes were not stamped by the kernel", s.otherClock, s.probes)
	}
	quantiles := func(name string, v []float64) {
		slices.Sort(v)
		at := func(q float64) float64 { return v[min(len(v)-1, int(q*float64(len(v))))] }
		b.ReportMetric(at(0.5), name+"-p50-us")
		b.ReportMetric(at(0.99), name+"-p99-us")
		b.ReportMetric(v[len(v)-1], name+"-max-us")
	}
	quantiles("ttft", s.ttft)
	quantiles("gap", s.gap)
	quantiles("process-ttft", s.ttftProcess)
	quantiles("process-gap", s.gapProcess)
	b.ReportMetric(100*float64(s.merged)/float64(s.tokens), "merged-%")
	b.ReportMetric(float64(s.imprecise), "imprecise-probes")
	b.ReportMetric(s.ttftWorst, "ttft-max-%")
	b.ReportMetric(0, "ns/op")
}

// scrapeEachSecond scrapes a store of 1,000 endpoints once a second, compressed
// as the web server does it.
func scrapeEachSecond(b *testing.B) (stop func()) {
	b.Helper()
	probes := collector.NewProbes(time.Now)
	filled := filledResult()
	for i := range 1000 {
		id := result.SeriesID{Endpoint: fmt.Sprintf("endpoint-%d", i), Module: "interactive", Prefix: "cold"}
		probes.OpenEndpoint(collector.EndpointInfo{Endpoint: id.Endpoint}).Open(id, collector.SeriesOptions{}).Add(&series.Observation{Result: filled})
	}
	exposition := collector.NewExposition(prometheus.NewRegistry(), probes)
	compressor, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				compressor.Reset(io.Discard)
				if err := exposition.Write(compressor, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
					b.Error(err)
				}
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// filledResult is a success that has something for every family.
func filledResult() *result.Result {
	const ms = time.Millisecond
	r := &result.Result{
		Scheduled: time.Now(), Start: time.Now(), Outcome: result.Success, Status: 200,
		API: "openai-chat", Model: "simulated-8b", Prefix: "cold", TraceID: [16]byte{1}, Clock: result.ClockKernel,
		Timing: result.Timing{TTFT: 200 * ms, TTFO: 210 * ms, TPOT: 20 * ms, MaxGap: 30 * ms, Duration: 1500 * ms},
		Tokens: result.Tokens{Prompt: 256, Cached: 16, Output: 64, Reasoning: 8, Source: result.TokensFromUsage},
		Finish: "length", CertNotAfter: time.Now().Add(time.Hour),
	}
	r.Server.Queue, r.Server.Prefill, r.Server.Decode = 10*ms, 100*ms, 1200*ms
	r.RateLimit.Requests, r.RateLimit.Tokens = 100, 10000
	for i := range 64 {
		r.Events = append(r.Events, result.Event{At: 200*ms + time.Duration(i)*20*ms + time.Duration(i*i)*10*time.Microsecond})
	}
	return r
}

func processCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
