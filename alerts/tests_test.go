package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// unitTests is the part of promtool's format that the tests in tests/ use.
type unitTests struct {
	Order []string `yaml:"group_eval_order"`
	Tests []struct {
		Expressions []struct {
			Expr    string           `yaml:"expr"`
			Samples []map[string]any `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
		Alerts []struct {
			Name   string           `yaml:"alertname"`
			Alerts []map[string]any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// TestEveryAlertIsTested checks that the files for promtool have a case in
// which an alert fires and one in which it does not, for every one.
func TestEveryAlertIsTested(t *testing.T) {
	files, err := filepath.Glob("tests/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	name := regexp.MustCompile(`alertname="(\w+)"`)
	for _, file := range files {
		tests := readUnitTests(t, file)
		if d := cmp.Diff(groupNames(), tests.Order); d != "" {
			t.Errorf("%s: group_eval_order, without which the order is random (-want +got):\n%s", file, d)
		}
		for _, u := range tests.Tests {
			for _, e := range u.Expressions {
				m := name.FindStringSubmatch(e.Expr)
				if m == nil || !strings.Contains(e.Expr, "ALERTS{") {
					t.Errorf("%s: %q does not ask for one alert", file, e.Expr)
					continue
				}
				fires[m[1]] = fires[m[1]] || len(e.Samples) > 0
				quiet[m[1]] = quiet[m[1]] || len(e.Samples) == 0
			}
			for _, a := range u.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Alerts) > 0
				quiet[a.Name] = quiet[a.Name] || len(a.Alerts) == 0
			}
		}
	}
	for _, r := range alertRules(Default()) {
		if !fires[r.Alert] {
			t.Errorf("no test in which %s fires", r.Alert)
		}
		if !quiet[r.Alert] {
			t.Errorf("no test in which %s is quiet", r.Alert)
		}
	}
}

func readUnitTests(t *testing.T, file string) unitTests {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var u unitTests
	if err := yaml.Unmarshal(data, &u); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return u
}
