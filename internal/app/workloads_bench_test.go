//go:build linux

package app

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/prober"
)

// workloadProber returns a prober of a server for a module with time-outs that no
// test machine runs into.
func workloadProber(b *testing.B, server string, m config.Module) *prober.Prober {
	b.Helper()
	u, err := url.Parse(server)
	if err != nil {
		b.Fatal(err)
	}
	dialer := prober.NewDialer()
	b.Cleanup(func() { dialer.Close() })
	e, err := prober.NewEndpoint(&config.Endpoint{
		Name: "workload", URL: config.URL{URL: u}, API: "openai-chat", Model: "simulated-8b",
	}, prober.Options{Dialer: dialer})
	if err != nil {
		b.Fatal(err)
	}
	minute := model.Duration(time.Minute)
	m.Timeout, m.Timeouts = minute, config.Timeouts{Connect: minute, Headers: minute, FirstToken: minute, Stall: minute}
	m.Prefix, m.Connection = config.PrefixCold, config.ConnectionNew
	p, err := e.NewProber(&m)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	return p
}

// BenchmarkPrefill is how far the two parts of TTFT are off after 30 probes of a
// server in another process, whose prefill has 10 % noise. An iteration takes
// about 3 s; of 20 the figures are medians and nineteenths of twentieths.
func BenchmarkPrefill(b *testing.B) {
	const rate, fixed, step = 40_000, 20 * time.Millisecond, 5 * time.Millisecond
	_, server := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", "--prefill-rate=40000",
		"--decode-step=5ms", "--fixed-delay=20ms", "--prefill-noise=0.1")
	var rates, fixeds []float64
	absent := 0
	for b.Loop() {
		p := workloadProber(b, server, config.Module{
			InputTokens: config.Lengths{Mix: []config.WeightedLength{{Tokens: 256, Weight: 1}, {Tokens: 4096, Weight: 1}}}, OutputTokens: config.Tokens(2),
		})
		prefill := load.Lengths().Estimate(nil, new(config.Module))
		var found *load.Finding
		for range 30 {
			results, _ := p.Run(b.Context(), time.Time{})
			prefill.Observe(results, time.Now())
			found, _ = prefill.Finding(time.Now()).(*load.Finding)
		}
		if found == nil || found.Prefill == nil {
			absent++
			continue
		}
		rates = append(rates, 100*math.Abs(found.Prefill.TokensPerSecond.Value/rate-1))
		fixeds = append(fixeds, 100*math.Abs(found.Prefill.FixedSeconds.Value/(fixed+step).Seconds()-1))
	}
	reportErrors(b, "rate", rates)
	reportErrors(b, "fixed", fixeds)
	b.ReportMetric(float64(absent), "absent")
	b.ReportMetric(0, "ns/op")
}

// reportErrors reports the median and the 95th percentile of errors in percent.
func reportErrors(b *testing.B, what string, percent []float64) {
	b.Helper()
	if len(percent) == 0 {
		return
	}
	slices.Sort(percent)
	b.ReportMetric(percent[len(percent)/2], "%"+what+"-p50")
	b.ReportMetric(percent[len(percent)*95/100], "%"+what+"-p95")
}

// BenchmarkBurstStart is how far apart 64 requests of a burst are, by our own
// stamps and by when a server in another process had read their headers.
func BenchmarkBurstStart(b *testing.B) {
	_, server := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", "--slots=64", "--prefill-rate=1000000", "--decode-step=5ms")
	p := workloadProber(b, server, config.Module{
		InputTokens: config.Tokens(64), OutputTokens: config.Tokens(4), Concurrency: []int{64},
	})
	var ours, theirs []float64 // microseconds
	for b.Loop() {
		var sent, arrived []int64
		results, _ := p.Run(b.Context(), time.Time{})
		for _, r := range results {
			if r.Outcome != result.Success {
				b.Fatalf("outcome %s: %v", r.Outcome, r.Err)
			}
			sent = append(sent, r.Sent.UnixNano())
			arrived = append(arrived, recordOf(b, server, r).Arrival.UnixNano())
		}
		ours = append(ours, float64(slices.Max(sent)-slices.Min(sent))/1e3)
		theirs = append(theirs, float64(slices.Max(arrived)-slices.Min(arrived))/1e3)
	}
	for what, spreads := range map[string][]float64{"sent": ours, "arrived": theirs} {
		slices.Sort(spreads)
		b.ReportMetric(spreads[len(spreads)/2], what+"-p50-us")
		b.ReportMetric(spreads[len(spreads)*95/100], what+"-p95-us")
	}
	b.ReportMetric(0, "ns/op")
}

// recordOf asks a server in another process for the truth about a request.
func recordOf(b *testing.B, server string, r *result.Result) (record simulator.Record) {
	b.Helper()
	resp, err := http.Get(server + "/simulator/requests/" + hex.EncodeToString(r.TraceID[:]))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&record); err != nil {
		b.Fatal(err)
	}
	return record
}
