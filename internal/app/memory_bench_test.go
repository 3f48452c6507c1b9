//go:build linux

package app

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// BenchmarkMemory is the resident memory of a daemon with 1,000 endpoints,
// each with several results in every latency family, scraped each second: with
// the probes alone, and with a reading of a vLLM server's page for each too.
func BenchmarkMemory(b *testing.B) {
	const endpoints = 1000
	_, server := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", "--replicas=8", "--slots=64",
		"--decode-step=5ms", "--decode-step-per-sequence=-1ns", "--prefill-rate=1000000")
	_, page := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0")
	var file bytes.Buffer
	fmt.Fprintln(&file, "global: {interval: 5s, limits: {in_flight: 128, in_flight_per_host: 128}}")
	fmt.Fprintln(&file, "modules: {interactive: {input_tokens: 64, output_tokens: 8}}\nendpoints:")
	for i := range endpoints {
		fmt.Fprintf(&file, "  - {name: endpoint-%04d, url: %q, labels: {team: search}, servers: {urls: [%q]}}\n",
			i, server, page)
	}
	name := filepath.Join(b.TempDir(), "config.yml")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, pages := range []string{"--no-collector.server", "--collector.server"} {
		b.Run(strings.TrimLeft(pages, "-"), func(b *testing.B) {
			address := unusedAddress(b)
			launchProgram(b, "serve", "--config.file="+name, "--web.listen-address="+address, "--log.level=error", pages)
			for b.Loop() {
				b.ReportMetric(memoryWhenProbed(b, "http://"+address+"/metrics", 3*endpoints), "MB-RSS")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// memoryWhenProbed scrapes until that many probes have a TPOT, and returns the
// daemon's resident memory in megabytes.
func memoryWhenProbed(b *testing.B, url string, probes uint64) float64 {
	b.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		resp, err := http.Get(url)
		if err != nil {
			continue // not listening yet
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		resp.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		if samples(families["inference_probe_tpot_seconds"]) >= probes {
			return families["process_resident_memory_bytes"].Metric[0].GetGauge().GetValue() / 1e6
		}
	}
	b.Fatal("the endpoints were not probed within five minutes")
	return 0
}

// samples returns how many values the histograms of a family have observed.
func samples(f *dto.MetricFamily) (n uint64) {
	for _, m := range f.GetMetric() {
		n += m.GetHistogram().GetSampleCount()
	}
	return n
}

func unusedAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
