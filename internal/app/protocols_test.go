package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// base is the URL of a simulated server for a protocol: some need the version
// in it to know their dialect.
func base(server, name string) string {
	switch name {
	case "cohere-embed", "rerank":
		return server + "/v2"
	}
	return server
}

// Every protocol goes all the way from a line of the configuration to the
// page of metrics.
func TestEveryProtocolOnThePage(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	var file strings.Builder
	file.WriteString("global: {interval: 1s, limits: {in_flight: 64, in_flight_per_host: 64}}\n" +
		"modules: {interactive: {input_tokens: 64, output_tokens: 8, batch_size: 2}}\nendpoints:\n")
	for _, name := range api.Names() {
		fmt.Fprintf(&file, "  - {name: %s, api: %s, model: simulated-8b, url: %q}\n", name, name, base(server, name))
	}
	p := start(t, "--config.file="+writeFile(t, "all.yml", file.String()), "--web.listen-address=127.0.0.1:0")
	succeeded := func(got metricsPage, name string) bool { // with times: on a busy machine not all have them
		return got.Sum("inference_probe_results_total", "endpoint", name, "outcome", "success") > 0 &&
			got.Sum("inference_probe_duration_seconds", "endpoint", name) > 0
	}
	got, _ := p.waitFor("a success of every protocol", func(got metricsPage) bool {
		for _, name := range api.Names() {
			if !succeeded(got, name) {
				return false
			}
		}
		return true
	})
	for _, name := range api.Names() {
		protocol, _ := api.Lookup(name)
		generates := protocol.Kind == api.Generation
		if got.Has("inference_probe_ttft_seconds", "endpoint", name) != generates {
			t.Errorf("%s: TTFT on the page: %t, want %t", name, !generates, generates)
		}
		if got.Has("inference_probe_items_total", "endpoint", name) == generates {
			t.Errorf("%s: items on the page: %t, want %t", name, generates, !generates)
		}
		if got.Sum("inference_probe_duration_seconds", "endpoint", name) == 0 {
			t.Errorf("%s: no duration", name)
		}
		if !got.Has("inference_endpoint_info", "endpoint", name, "api", name, "model", "simulated-8b") {
			t.Errorf("%s: no description", name)
		}
	}
}

// The one-shot command speaks every protocol too.
func TestEveryProtocolByTheCommand(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	for _, name := range api.Names() {
		got := runToEnd(t, "probe", base(server, name), "--api="+name, "--model=simulated-8b", "--output=json")
		var report struct {
			Outcome, API string
			TTFT         *float64 `json:"ttft_seconds"`
		}
		if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
			t.Fatalf("%s: %v in %q", name, err, got.stdout)
		}
		protocol, _ := api.Lookup(name)
		if got.code != cli.ExitOK || report.Outcome != "success" || report.API != name || (report.TTFT != nil) != (protocol.Kind == api.Generation) {
			t.Errorf("%s: exit code %d, %s", name, got.code, got.stdout)
		}
	}
}

// What detect prints for each engine is what probe then needs no flags for.
func TestProbeNeedsNoFlags(t *testing.T) {
	t.Parallel()
	for _, engine := range simulator.Engines() {
		o := testlab.Quick()
		o.Engine = engine
		server := testlab.Serve(t, simulator.New(o).Handler())
		found := runToEnd(t, "detect", server)
		if found.code != cli.ExitOK {
			t.Errorf("%s: detect: exit code %d: %s", engine, found.code, found.stderr)
			continue
		}
		if got := runToEnd(t, "probe", server, "--output=json"); got.code != cli.ExitOK {
			t.Errorf("%s: probe: exit code %d: %s%s", engine, got.code, got.stdout, got.stderr)
		}
	}
}

// A server that accepts connections and never answers is down, by a URL alone,
// in the metrics and in the log.
func TestServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	silent := testlab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	l := startReloading(t, fmt.Sprintf(`
modules: {interactive: {interval: 1s, timeouts: {first_token: 300ms}}}
endpoints: [{name: e, url: %q}]
`, silent))
	l.waitFor("a judged probe", func(p metricsPage) bool {
		if p.Sum("inference_probe_results_total", "outcome", "canceled") != 0 {
			t.Fatal("a probe is canceled, though nobody canceled it")
		}
		return p.Sum("inference_probe_results_total", "outcome", "timeout_first_token") > 0 && p.Has("inference_probe_success")
	})
}

// severalModels lists two models, and answers any question in chat.
func severalModels(t *testing.T) string {
	return testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"one"},{"id":"two"}]}`)
		case "/v1/chat/completions":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"1"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
}

// Which of several models to ask is a matter of the configuration: probe and the
// daemon say what to write, and take it.
func TestSeveralModels(t *testing.T) {
	t.Parallel()
	url := severalModels(t)
	got := runToEnd(t, "probe", url)
	for _, want := range []string{"not asked", "model", `"one", "two"`} {
		if got.code == cli.ExitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("exit code %d without %q: %s", got.code, want, got.stdout)
		}
	}
	if got := runToEnd(t, "probe", "--model=two", url); got.code != cli.ExitOK || !strings.Contains(got.stdout, "model two") {
		t.Errorf("exit code %d: %s %s", got.code, got.stdout, got.stderr)
	}
	if got := runToEnd(t, "detect", url); got.code != cli.ExitOK || !strings.Contains(got.stdout, "model: one # or two") {
		t.Errorf("exit code %d: %s %s", got.code, got.stdout, got.stderr)
	}
	p := start(t, "--endpoint="+url, "--model=two", "--web.listen-address=127.0.0.1:0")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	if _, body := get(t, client, p.base+"/probe?target="+url); !strings.Contains(string(body), `model="two"`) {
		t.Errorf("the daemon with --model probes %s", body)
	}
}
