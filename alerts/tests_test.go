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
	Files []string `yaml:"rule_files"`
	Order []string `yaml:"group_eval_order"`
	Tests []struct {
		Expressions []struct {
			Expr    string `yaml:"expr"`
			Samples []any  `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
		Alerts []struct {
			Name   string `yaml:"alertname"`
			Alerts []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// TestEveryAlertIsTested checks that the files for promtool have a case in which an alert fires and
// one in which it does not.
func TestEveryAlertIsTested(t *testing.T) {
	files, err := filepath.Glob("tests/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	byFile := map[string][]Group{"recording": Recording(Default()), "alerts": Alerts(Default())}
	for _, set := range Sets() {
		byFile[set] = rulesOf(Default(), set)
	}
	selector := regexp.MustCompile(`ALERTS\{.*alertname="(\w+)"`)
	type outcome struct {
		alert string
		fires bool
	}
	tested := map[outcome]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tests unitTests
		if err := yaml.Unmarshal(data, &tests); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var groups []string
		for _, name := range tests.Files {
			for _, g := range byFile[strings.TrimSuffix(filepath.Base(name), ".yml")] {
				groups = append(groups, g.Name)
			}
		}
		if d := cmp.Diff(groups, tests.Order); d != "" {
			t.Errorf("%s: group_eval_order, without which the order is random (-want +got):\n%s", file, d)
		}
		for _, u := range tests.Tests {
			for _, e := range u.Expressions {
				if m := selector.FindStringSubmatch(e.Expr); m != nil {
					tested[outcome{m[1], len(e.Samples) > 0}] = true
				}
			}
			for _, a := range u.Alerts {
				tested[outcome{a.Name, len(a.Alerts) > 0}] = true
			}
		}
	}
	for _, r := range alertRules(allSets()) {
		for _, fires := range []bool{true, false} {
			if !tested[outcome{r.Alert, fires}] {
				t.Errorf("no test of %s with fires = %t", r.Alert, fires)
			}
		}
	}
}
