package app

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// With a receiver of traces in the configuration each probe becomes a span,
// and the page reports how many were lost.
func TestTracesAreExported(t *testing.T) {
	t.Parallel()
	received := make(chan string, 100)
	receiver := testlab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		received <- r.URL.Path + " " + r.Header.Get("X-Key")
	}))
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	file := writeFile(t, "traces.yml", fmt.Sprintf(`
global: {interval: 1s}
modules: {interactive: {output_tokens: 2}}
tracing: {otlp_endpoint: %q, headers: {x-key: k}}
endpoints: [{name: e, url: %q}]
`, receiver, server))
	p := start(t, "--config.file="+file, "--web.listen-address=127.0.0.1:0")
	got, _ := p.waitFor("a probe", func(got metricsPage) bool { return got.Probes("e") > 0 })
	if !got.Has("inference_exporter_spans_dropped_total") {
		t.Error("no count of lost spans")
	}
	if code := p.stop(); code != cli.ExitOK { // sends what is left
		t.Errorf("exit code %d", code)
	}
	select {
	case got := <-received:
		if got != "/v1/traces k" {
			t.Errorf("received %q", got)
		}
	default:
		t.Error("no span was received")
	}
}
