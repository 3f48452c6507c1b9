package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// TestRulesForTheDefaults compares the output with the rules in alerts/.
func TestRulesForTheDefaults(t *testing.T) {
	f := func(args ...string) {
		t.Helper()
		got := runToEnd(t, append([]string{"rules"}, args...)...)
		if got.code != cli.ExitOK || got.stderr != "" {
			t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
		}
		var file struct{ Groups []alerts.Group }
		if err := yaml.Unmarshal([]byte(got.stdout), &file); err != nil {
			t.Fatal(err)
		}
		want := append(alerts.Recording(alerts.Default()), alerts.Alerts(alerts.Default())...)
		if d := cmp.Diff(want, file.Groups); d != "" {
			t.Errorf("%q: (-want +got):\n%s", args, d)
		}
	}
	f()
	f("--config.file=" + writeFile(t, "minimal.yml", "endpoints: [{url: http://localhost:8000}]\n"))
}

// TestRulesForAConfiguration checks what rules take from a file.
func TestRulesForAConfiguration(t *testing.T) {
	text := `
global: {interval: 15s, timeout: 40s, labels: {location: fra1}}
modules:
  long: {interval: 40m, timeout: 5m}
  unused: {interval: 12h, timeout: 1h}
endpoints:
  - {url: http://localhost:8000, modules: [interactive, long], labels: {team: search}}
  - {url: http://localhost:8001}
discovery:
  - {static_configs: [{targets: [a], labels: {zone: b, __model__: m}}], relabel_configs: [{target_label: rack, replacement: r}]}
`
	file := writeFile(t, "rules.yml", text)
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	want := alerts.Options{
		Labels:  []string{"location", "rack", "team", "zone"},
		Modules: map[string]time.Duration{"interactive": 15 * time.Second, "long": 40 * time.Minute},
	}
	if d := cmp.Diff(want, ruleOptions(cfg)); d != "" {
		t.Errorf("options (-want +got):\n%s", d)
	}
	got := runToEnd(t, "rules", "--config.file="+file)
	if got.code != cli.ExitOK || got.stderr != "" {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	// Labels, the failures of four long intervals, and which module is slow.
	for _, s := range []string{"by (endpoint, model, location, rack, team, zone)", `"success|canceled",concurrency=""}[160m]`, "\n# Interval above 15m, \"long\" (40m): "} {
		if !strings.Contains(got.stdout, s) {
			t.Errorf("the rules do not contain %q", s)
		}
	}
}

func TestRulesOfABrokenFile(t *testing.T) {
	refused(t, cli.ExitUsage, []string{`\S+/empty.yml: the file is empty; .*`}, "rules", "--config.file="+writeFile(t, "empty.yml", ""))
}
