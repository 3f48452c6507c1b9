package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// A reload that changes where endpoints are found takes none of them away that is
// still found.
func TestReloadKeepsWhatIsStillFound(t *testing.T) {
	server := strings.TrimPrefix(serveHTTP(t, simulator.New(quick()).Handler()), "http://")
	target := func(name string) string {
		return fmt.Sprintf("{targets: ['%s'], labels: {__endpoint__: %s}}", server, name)
	}
	targets := targetsFile{t, filepath.Join(t.TempDir(), "targets.yml")}
	targets.write("- " + target("in-file"))
	text := func(static, interval string) string {
		return reloadModules + fmt.Sprintf(`
discovery:
  - {model: simulated-8b, api: openai-chat, static_configs: [%s]}
  - {model: simulated-8b, api: openai-chat, file_sd_configs: [{files: [%q], refresh_interval: %s}]}
`, static, targets.name, interval)
	}
	r := startReloading(t, text(target("listed"), "1m"))
	probes := func(got page, name string) float64 {
		return got.sum("inference_probe_results_total", "endpoint", name, "outcome", "success")
	}
	first, _ := r.waitFor("20 probes of each", func(got page) bool { return probes(got, "listed") >= 20 && probes(got, "in-file") >= 20 })

	if status, body := r.reload(text(target("listed")+", "+target("new"), "2m")); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	_, raw := r.get("/metrics")
	for _, name := range []string{"listed", "in-file"} {
		if got := probes(parsePage(t, raw), name); got < probes(first, name) {
			t.Errorf("%s: %v successes before the reload, %v after", name, probes(first, name), got)
		}
	}
	got, _ := r.waitFor("probes of the new one", func(got page) bool { return probes(got, "new") > 0 })
	for _, name := range []string{"listed", "in-file"} {
		if got := probes(got, name); got < probes(first, name) {
			t.Errorf("%s: %v successes before the reload, %v a while after", name, probes(first, name), got)
		}
	}
	if status, body := r.reload(text(target("new"), "2m")); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	r.waitFor("the end of what is no longer found", func(got page) bool {
		return probes(got, "new") > 0 && !got.has("inference_endpoint_info", "endpoint", "listed")
	})
}
