package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// targetsFile is a file of targets that a test rewrites as it should be done:
// elsewhere, and then renamed.
type targetsFile struct {
	t    *testing.T
	name string
}

func (f targetsFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.name+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.name+".new", f.name); err != nil {
		f.t.Fatal(err)
	}
}

// Discovered endpoints come, go and come back like targets of Prometheus: one that
// remains continues, one that goes is off the page, and one that comes back starts
// again.
func TestDiscovered(t *testing.T) {
	t.Parallel()
	servers := map[string]*testlab.Witness{}
	target := func(name string) string {
		if servers[name] == nil {
			servers[name] = testlab.NewWitness(t, testlab.Quick())
		}
		return fmt.Sprintf("- {targets: ['%s'], labels: {__endpoint__: %s, team: search, __meta_zone: b}}\n",
			strings.TrimPrefix(servers[name].URL, "http://"), name)
	}
	targets := targetsFile{t, filepath.Join(t.TempDir(), "targets.yml")}
	targets.write(target("a") + target("b"))
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 50ms}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
discovery:
  - model: simulated-8b
    api: openai-chat
    allow: [127.0.0.1]
    file_sd_configs: [{files: [%q]}]
    relabel_configs: [{source_labels: [__meta_zone], target_label: zone}]
`, targets.name)))
	probes := func(got metricsPage, name string) float64 {
		return got.Sum("inference_probe_results_total", "endpoint", name, "team", "search", "zone", "b", "outcome", "success")
	}
	first, _ := p.waitFor("probes of what is discovered", func(got metricsPage) bool { return probes(got, "a") >= 20 && probes(got, "b") >= 20 })
	if resp, body := p.get("/api/v1/endpoints/a"); resp.StatusCode != http.StatusOK {
		t.Errorf("the page of a: status %d: %s", resp.StatusCode, body)
	}

	targets.write(target("b") + target("c") + "- {targets: ['203.0.113.1:8000'], labels: {__endpoint__: elsewhere}}\n")
	got, _ := p.waitFor("the second set", func(got metricsPage) bool { return probes(got, "c") > 0 })
	if got.Has("inference_probe_results_total", "endpoint", "a") || got.Has("inference_endpoint_info", "endpoint", "a") {
		t.Error("a is gone and still on the page")
	}
	if resp, _ := p.get("/api/v1/endpoints/a"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a is gone and has a page: status %d", resp.StatusCode)
	}
	if probes(got, "b") < probes(first, "b") {
		t.Errorf("b stayed and started again: %v successes, then %v", probes(first, "b"), probes(got, "b"))
	}
	if got.Has("inference_endpoint_info", "endpoint", "elsewhere") || got.Sum("inference_exporter_discovery_rejected_targets", "reason", "not_allowed") != 1 {
		t.Error("a host that is not allowed is not refused, or not reported")
	}

	targets.write("- {targets: [")
	p.waitFor("the log to report the broken file", func(metricsPage) bool { return len(p.stderr.lines("targets.yml")) > 0 })
	before := probes(got, "b")
	p.waitFor("probes with a broken file", func(got metricsPage) bool { return probes(got, "b") > before+20 && probes(got, "c") > 20 })

	asked := servers["a"].Requests()
	targets.write(target("a"))
	got, _ = p.waitFor("the one that comes back", func(got metricsPage) bool {
		return probes(got, "a") > 0 && !got.Has("inference_endpoint_info", "endpoint", "b")
	})
	if asked = servers["a"].Requests() - asked; probes(got, "a") > float64(asked) {
		t.Errorf("a came back with its old results: %v of %d requests", probes(got, "a"), asked)
	}
}

// A target that is an endpoint by the file's rules, and yet none that can be
// probed, is counted like all that nobody watches.
func TestDiscoveredThatCannotBeProbed(t *testing.T) {
	t.Parallel()
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", `
discovery:
  - modules: [agent]
    static_configs:
      - {targets: ['127.0.0.1:1'], labels: {__api__: openai-embeddings}}
      - {targets: ['127.0.0.1:2'], labels: {__engine__: steam}}
      - {targets: ['127.0.0.1:3']}
`))
	p.waitFor("two to be counted", func(got metricsPage) bool {
		return got.Sum("inference_exporter_discovery_rejected_targets", "reason", "invalid") == 2 && got.Sum("inference_exporter_endpoints") == 1
	})
}

// A target names its engine, and so where the page is looked for. Nothing goes to a
// port that is not allowed, and no key to another port than the endpoint's own.
func TestDiscoveredEngineAndKey(t *testing.T) {
	t.Parallel()
	asked := make(chan http.Header, 100)
	trap := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Header:
		default:
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, "# TYPE trap_running gauge\ntrap_running 1\n")
	}))
	own := make(chan http.Header, 100)
	server := strings.TrimPrefix(testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case own <- r.Header:
		default:
		}
		http.NotFound(w, r)
	})), "http://")
	_, port, _ := strings.Cut(strings.TrimPrefix(trap, "http://"), ":")
	file := func(allow string) string {
		return writeFile(t, "exporter.yml", fmt.Sprintf(`
engines: {trap: {sentinels: [trap_running], pages: [":%s/metrics", /metrics], values: {requests_running: [{series: trap_running}]}}}
discovery:
  - servers: {interval: 1s}
    http: {authorization: {credentials: secret-word}}
    allow: ['%s']
    static_configs: [{targets: ['%s'], labels: {__engine__: trap}}]
`, port, allow, server))
	}
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+file(server))
	if got := (<-own).Get("Authorization"); got != "Bearer secret-word" {
		t.Errorf("the endpoint's own page is asked with %q", got)
	}
	p.stop()
	if len(asked) > 0 {
		t.Error("a port that is not allowed is asked")
	}

	p = start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+file("127.0.0.1"))
	p.waitFor("the page at the other port", func(got metricsPage) bool { return got.Sum("inference_server_requests_running") == 1 })
	p.stop()
	for len(asked) > 0 {
		if h := <-asked; h.Get("Authorization") != "" {
			t.Errorf("another port is asked with %q", h.Get("Authorization"))
		}
	}
}
