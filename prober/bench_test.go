//go:build unix

package prober

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// BenchmarkProbe is a probe of 64 tokens over a new connection, each token a
// write of its own as fast as the server can. The server shares the process:
// its CPU is in the figure, so that the probe's own is less.
func BenchmarkProbe(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1795246794,` +
		`"model":"simulated-8b","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token"},` +
		`"logprobs":null,"finish_reason":null}]}` + "\n\n")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 64 {
			_, _ = w.Write(event)
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write([]byte("data: " + stop + "\n\ndata: [DONE]\n\n"))
	}))
	defer s.Close()
	base, err := url.Parse(s.URL)
	if err != nil {
		b.Fatal(err)
	}
	dialer := NewDialer()
	defer dialer.Close()
	e, err := NewEndpoint(&config.Endpoint{Name: "bench", URL: config.URL{URL: base}, API: "openai-chat", Model: "m"}, Options{Dialer: dialer})
	if err != nil {
		b.Fatal(err)
	}
	minute := model.Duration(time.Minute)
	p, err := e.NewProber(&config.Module{
		Timeout: minute, Timeouts: config.Timeouts{Connect: minute, Headers: minute, FirstToken: minute, Stall: minute},
		InputTokens: config.Tokens(256), OutputTokens: config.Tokens(64), Prefix: config.PrefixCold, Connection: config.ConnectionNew,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	before := cpuTime(b)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if r := p.one(b.Context(), time.Time{}); r.Outcome != result.Success {
			b.Fatalf("outcome %s: %v", r.Outcome, r.Err)
		}
		n++
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(n), "cpu-us/probe")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
