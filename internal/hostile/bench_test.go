//go:build linux

package hostile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// cpuFloods are behaviours that cost whoever reads them much CPU.
func cpuFloods() []Behaviour {
	names := []string{
		"tokens for ever", "thoughts for ever", "no token for ever", "comments for ever", "empty events for ever",
		"endless lines without a name", "a million events", "a million comments", "gzip bomb in events", "a chunk extension for each byte",
	}
	var all []Behaviour
	for _, name := range names {
		all = append(all, Named(name), Named(name))
	}
	return all
}

// BenchmarkFloods is the TTFT of healthy endpoints by the program's own figures:
// alone, beside another process that reads floods of 20 hostile endpoints, and with
// these as endpoints of the same process. The ratios of the last to the one before
// are what hostile endpoints cost that one could not avoid by another process. An
// iteration takes some 20 s for each: run it with -benchtime 1x.
func BenchmarkFloods(b *testing.B) {
	healthy, hostile := healthyEndpoints(b), hostileEndpoints(b)
	var beside, within [2]float64
	b.Run("alone", func(b *testing.B) { benchTTFT(b, healthy) })
	b.Run("beside", func(b *testing.B) {
		other := start(b, "", hostile)
		other.wait("floods", func() bool { return len(other.scrape()["inference_probe_results_total"].GetMetric()) > 0 })
		beside = benchTTFT(b, healthy)
	})
	b.Run("within", func(b *testing.B) {
		_, more, _ := strings.Cut(hostile, "endpoints:\n")
		within = benchTTFT(b, healthy+more)
		if beside[0] > 0 {
			b.ReportMetric(within[0]/beside[0], "p50-ratio")
			b.ReportMetric(within[1]/beside[1], "p99-ratio")
		}
	})
}

const benchModules = `
global: {interval: 3s, timeout: 3s, limits: {in_flight_per_host: 100}}
modules:
  interactive: {input_tokens: 16, output_tokens: 8}
  often: {interval: 1s, timeout: 10s, input_tokens: 16, output_tokens: 8}
endpoints:
`

func healthyEndpoints(b *testing.B) string {
	b.Helper()
	text, url := new(strings.Builder), startHealthy(b)
	text.WriteString(benchModules)
	for i := range 20 {
		fmt.Fprintf(text, "  - {name: healthy-%d, url: %q, api: openai-chat, model: m, modules: [often]}\n", i, url)
	}
	return text.String()
}

func hostileEndpoints(b *testing.B) string {
	b.Helper()
	text, all := new(strings.Builder), cpuFloods()
	text.WriteString(benchModules)
	for i, s := range startAll(b, all) {
		fmt.Fprintf(text, "  - {name: %q, url: %q, api: openai-chat, model: m}\n", fmt.Sprint(i, " ", all[i].Name), s.URL)
	}
	return text.String()
}

// benchTTFT runs the program with a configuration and returns the median and the
// 99th percentile of the TTFT of its healthy endpoints, in microseconds.
func benchTTFT(b *testing.B, configuration string) [2]float64 {
	b.Helper()
	p := start(b, "", configuration)
	lasts := 20 * time.Second
	if testing.Short() {
		lasts = 3 * time.Second
	}
	var all []float64
	for b.Loop() {
		all = nil
		latest := map[string]float64{}
		for until := time.Now().Add(lasts); time.Now().Before(until); time.Sleep(400 * time.Millisecond) {
			all = append(all, p.newTTFTs(latest)...)
		}
	}
	if len(all) == 0 {
		b.Fatal("no TTFT")
	}
	slices.Sort(all)
	at := func(q float64) float64 { return 1e6 * all[min(len(all)-1, int(q*float64(len(all))))] }
	b.ReportMetric(at(0.5), "ttft-p50-us")
	b.ReportMetric(at(0.99), "ttft-p99-us")
	b.ReportMetric(float64(len(all)), "probes")
	b.ReportMetric(0, "ns/op")
	p.terminate()
	return [2]float64{at(0.5), at(0.99)}
}

// newTTFTs returns those of healthy endpoints that are not the ones in latest, which
// it brings up to date.
func (p *program) newTTFTs(latest map[string]float64) (all []float64) {
	p.tb.Helper()
	for _, m := range p.scrape()["inference_probe_last_ttft_seconds"].GetMetric() {
		for _, l := range m.GetLabel() {
			v := m.GetGauge().GetValue()
			if l.GetName() == "endpoint" && strings.HasPrefix(l.GetValue(), healthy) && latest[l.GetValue()] != v {
				latest[l.GetValue()] = v
				all = append(all, v)
			}
		}
	}
	return all
}
