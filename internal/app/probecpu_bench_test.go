//go:build linux

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// BenchmarkProbeCPU is what a probe of 64 tokens at 50 tokens/s costs the prober, set-up of
// the connection included, with 100 of them at once: CPU time, and what it allocates. Beside it
// is what the same answers cost those who only read them and measure nothing: Go's HTTP client,
// and a loop of reads of a plain connection. No Go program that looks at each token when it
// comes costs less than the loop.
func BenchmarkProbeCPU(b *testing.B) {
	const streams, tokens = 100, 64
	server := startPacedServer(b, streams)
	b.Run("probe", func(b *testing.B) {
		probers := benchProbers(b, server, streams, tokens, config.ConnectionNew)
		reportCPU(b, streams, func() { probeAll(b, probers) })
	})
	request := fmt.Sprintf(`{"model":"simulated-8b","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`,
		tokens, strings.Repeat("word ", tokens))
	reading := func(read func(ctx context.Context, server, request string) ([]byte, error)) func(*testing.B) {
		return func(b *testing.B) {
			reportCPU(b, streams, func() {
				spread(streams, time.Second, func(int) {
					answer, err := read(b.Context(), server, request)
					if events := bytes.Count(answer, []byte("data: {")); err != nil || events < tokens {
						b.Errorf("%d events: %v", events, err)
					}
				})
			})
		}
	}
	b.Run("client", reading(readByClient))
	b.Run("connection", reading(readByConnection))
}

// reportCPU reports what an answer costs this process where run reads n of them.
func reportCPU(b *testing.B, n int, run func()) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, answers := processCPU(b), 0
	for b.Loop() {
		run()
		answers += n
	}
	b.ReportMetric(float64((processCPU(b)-cpu).Microseconds())/float64(answers), "cpu-us/probe")
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(answers), "B/probe")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(answers), "allocs/probe")
	b.ReportMetric(0, "ns/op")
}

// readByClient reads an answer by a client of its own, so on a connection of its own.
func readByClient(ctx context.Context, server, request string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/v1/chat/completions", strings.NewReader(request))
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// readByConnection reads an answer, head included, with nothing between it and the connection.
func readByConnection(ctx context.Context, server, request string) ([]byte, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(server, "http://"))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(request), request); err != nil {
		return nil, err
	}
	return io.ReadAll(c)
}
