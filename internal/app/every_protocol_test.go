package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
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
	server := serveHTTP(t, simulator.New(quick()).Handler())
	var file strings.Builder
	file.WriteString("global: {interval: 1s, limits: {in_flight: 64, in_flight_per_host: 64}}\n" +
		"modules: {interactive: {input_tokens: 64, output_tokens: 8, batch_size: 2}}\nendpoints:\n")
	for _, name := range api.Names() {
		fmt.Fprintf(&file, "  - {name: %s, api: %s, model: simulated-8b, url: %q}\n", name, name, base(server, name))
	}
	p := start(t, "--config.file="+writeFile(t, "all.yml", file.String()), "--web.listen-address=127.0.0.1:0")
	succeeded := func(got page, name string) bool { // with times: on a busy machine not all have them
		return got.sum("inference_probe_results_total", "endpoint", name, "outcome", "success") > 0 &&
			got.sum("inference_probe_duration_seconds", "endpoint", name) > 0
	}
	got, _ := p.waitFor("a success of every protocol", func(got page) bool {
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
		if got.has("inference_probe_ttft_seconds", "endpoint", name) != generates {
			t.Errorf("%s: TTFT on the page: %t, want %t", name, !generates, generates)
		}
		if got.has("inference_probe_items_total", "endpoint", name) == generates {
			t.Errorf("%s: items on the page: %t, want %t", name, generates, !generates)
		}
		if got.sum("inference_probe_duration_seconds", "endpoint", name) == 0 {
			t.Errorf("%s: no duration", name)
		}
		if !got.has("inference_endpoint_info", "endpoint", name, "api", name, "model", "simulated-8b") {
			t.Errorf("%s: no description", name)
		}
	}
}

// The one-shot command speaks every protocol too.
func TestEveryProtocolByTheCommand(t *testing.T) {
	server := serveHTTP(t, simulator.New(quick()).Handler())
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
	for _, engine := range simulator.Engines() {
		o := quick()
		o.Engine = engine
		server := serveHTTP(t, simulator.New(o).Handler())
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
