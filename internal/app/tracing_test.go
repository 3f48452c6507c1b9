package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// With a receiver of traces in the configuration each probe becomes a span,
// and the page reports how many were lost.
func TestTracesAreExported(t *testing.T) {
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

// What the receivers before did not take stays counted, when they are replaced and
// when the export ends and begins again: the counter never falls.
func TestDroppedSpansSurviveReloads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // nobody listens there
	settings := func(path string) config.Tracing {
		return config.Tracing{OTLPEndpoint: config.URL{URL: &url.URL{Scheme: "http", Host: l.Addr().String(), Path: path}}}
	}
	spans := newTraces(slog.New(slog.DiscardHandler))
	if _, exporting := spans.Dropped(); exporting {
		t.Error("exporting before there was a receiver")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- spans.run(ctx) }()
	use := func(s config.Tracing) {
		t.Helper()
		next, err := spans.prepare(s)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := spans.Dropped()
		spans.use(s, next)
		if after, exporting := spans.Dropped(); after < before || exporting != (next != nil) {
			t.Errorf("%d dropped after %d, exporting %t", after, before, exporting)
		}
		for range 3 {
			spans.Observe(&fleet.Observation{Observation: series.Observation{Result: new(result.Result)}, Target: fleet.Target{Endpoint: &config.Endpoint{URL: config.URL{URL: new(url.URL)}}, Rung: config.Rung{Module: new(config.Module)}}})
		}
	}
	for spans.context() == nil {
		runtime.Gosched()
	}
	use(settings("/a"))
	use(settings("/b"))
	use(config.Tracing{})
	use(settings("/a"))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n, exporting := spans.Dropped(); n != 9 || !exporting {
		t.Errorf("%d dropped, exporting %t, want the 3 of each of three receivers", n, exporting)
	}
}

func (t *traces) context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running
}
