package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// Two exporters may probe one endpoint and read the pages of the same servers.
// What follows judges rules and panels by that alone.

const ruleTests = "../../../alerts/tests"

// The tests of servers' metrics and of the faults of GPUs, with every series a second time, as of a second
// exporter that reads the same pages: nothing changes. PROMTOOL names the
// program of Prometheus that runs them.
func TestSecondReader(t *testing.T) {
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		t.Skip("PROMTOOL is not set")
	}
	files, err := filepath.Glob(filepath.Join(ruleTests, "servers*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	files = append(files, filepath.Join(ruleTests, "gpu_faults.yml"))
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			doubled := filepath.Join(t.TempDir(), "doubled.yml")
			if err := os.WriteFile(doubled, withSecondReader(t, file), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", doubled).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// given is a series that a test of rules gives.
type given struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// ruleTest is a test of rules, of which only what is given matters here.
type ruleTest struct {
	Given []given        `yaml:"input_series"`
	Rest  map[string]any `yaml:",inline"`
}

// withSecondReader returns a file of tests with every series once more.
func withSecondReader(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Rules []string       `yaml:"rule_files"`
		Tests []ruleTest     `yaml:"tests"`
		Rest  map[string]any `yaml:",inline"`
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for i, name := range all.Rules {
		if all.Rules[i], err = filepath.Abs(filepath.Join(ruleTests, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range all.Tests {
		for _, g := range all.Tests[i].Given {
			all.Tests[i].Given = append(all.Tests[i].Given, given{secondInstance(g.Series), g.Values})
		}
	}
	out, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// secondInstance names a series as another exporter has it.
func secondInstance(series string) string {
	if strings.Contains(series, `instance="`) {
		return strings.Replace(series, `instance="`, `instance="second `, 1)
	}
	return strings.TrimSuffix(series, "}") + `,instance="second"}`
}
