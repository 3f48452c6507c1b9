package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
)

const objectivesFile = `
modules:
  long: {interval: 5m, slo: {objective: 0.95, ttft: 10s, tpot: 50ms, e2e: 2m, fluidity: 0.9}}
  burst: {concurrency: [4], interval: 10m}
endpoints:
  - {name: chat, url: "http://localhost:8000", modules: [long, burst], api: openai-chat}
  - {name: vectors, url: "http://localhost:8001", api: openai-embeddings, model: m, slo: {objective: 0.999, e2e: 500ms}}
`

// TestSLOsOfAConfiguration lists the objectives that the counters have: bursts have
// none, and embeddings no first token.
func TestSLOsOfAConfiguration(t *testing.T) {
	cfg, err := config.Load(writeFile(t, "slos.yml", objectivesFile), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []alerts.SLO{
		{Endpoint: "chat", Module: "long", SLO: "availability", Objective: 0.95, Good: "succeed"},
		{Endpoint: "chat", Module: "long", SLO: "ttft", Objective: 0.95, Good: "have their first token within 10s"},
		{Endpoint: "chat", Module: "long", SLO: "tpot", Objective: 0.95, Good: "have each further token on average within 50ms"},
		{Endpoint: "chat", Module: "long", SLO: "e2e", Objective: 0.95, Good: "end within 2m0s"},
		{Endpoint: "chat", Module: "long", SLO: "fluidity", Objective: 0.95, Good: "meet 0.9 of their token deadlines"},
		{Endpoint: "vectors", Module: "interactive", SLO: "availability", Objective: 0.999, Good: "succeed"},
		{Endpoint: "vectors", Module: "interactive", SLO: "e2e", Objective: 0.999, Good: "end within 500ms"},
	}
	if d := cmp.Diff(want, slosOf(cfg)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRulesInOtherFormats(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "slos.yml", objectivesFile)
	f := func(format, want string, count int) {
		t.Helper()
		got := runToEnd(t, "rules", "--format="+format, "--config.file="+file)
		if got.code != cli.ExitOK || got.stderr != "" || strings.Count(got.stdout, want) != count {
			t.Errorf("%s: exit code %d, stderr %q, stdout:\n%s", format, got.code, got.stderr, got.stdout)
		}
	}
	f("sloth", "error_query:", 7)
	f("pyrra", "kind: ServiceLevelObjective", 7)
	f("openslo", "kind: SLO", 7)
	f("mimir", "\nnamespace: inference_exporter\n", 1)
	none := writeFile(t, "none.yml", "discovery: [{static_configs: [{targets: [a]}]}]\n")
	for _, format := range alerts.SLOFormats() {
		refuse := func(pattern string, args ...string) {
			t.Helper()
			refused(t, cli.ExitUsage, []string{"inference_exporter: " + fmt.Sprintf(pattern, format)}, append([]string{"rules", "--format=" + format}, args...)...)
		}
		refuse("--format=%s: requires --config.file")
		refuse("--format=%s: cannot be combined with --keep-label; generate one file per cluster", "--config.file="+file, "--keep-label=cluster")
		refuse("the file has no endpoint with an objective; .*%.0s", "--config.file="+none)
	}
}
