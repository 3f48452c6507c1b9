package alerts

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// unitTests is the part of promtool's format that the tests in tests/ use.
type unitTests struct {
	Order []string `yaml:"group_eval_order"`
	Tests []struct {
		Expressions []struct {
			Expr    string `yaml:"expr"`
			Samples []struct {
				Labels string `yaml:"labels"`
			} `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
		Alerts []struct {
			Name   string `yaml:"alertname"`
			Alerts []struct {
				Labels map[string]string `yaml:"exp_labels"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// distinct are the labels by which rules of one name differ.
var distinct = []string{"severity", "window", "cause"}

// expectation is what a test expects of the rules of an alert that have labels.
type expectation struct {
	alert  string
	labels map[string]string // of distinct, as far as the test gives them
	fires  bool
}

// isOf reports whether e is about r. An expectation that an alert fires is about a
// rule only if the test gives every label by which it differs from rules of its
// name; one that none fires is about all rules that do not contradict its labels.
func (e expectation) isOf(r Rule, rules []Rule) bool {
	if e.alert != r.Alert {
		return false
	}
	for _, name := range distinct {
		value, given := e.labels[name]
		if given && value != r.Labels[name] {
			return false
		}
		if !given && e.fires && slices.ContainsFunc(rules, func(other Rule) bool {
			return other.Alert == r.Alert && other.Labels[name] != r.Labels[name]
		}) {
			return false
		}
	}
	return true
}

// TestEveryAlertIsTested checks that the files for promtool have a case in
// which an alert fires and one in which it does not, for every rule: those of
// one name differ in severity, window or cause.
func TestEveryAlertIsTested(t *testing.T) {
	files, err := filepath.Glob("tests/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	var groups []string
	for _, g := range append(Recording(Default()), Alerts(Default())...) {
		groups = append(groups, g.Name)
	}
	var all []expectation
	for _, file := range files {
		tests := readUnitTests(t, file)
		if d := cmp.Diff(groups, tests.Order); d != "" {
			t.Errorf("%s: group_eval_order, without which the order is random (-want +got):\n%s", file, d)
		}
		all = append(all, expectations(tests)...)
	}
	rules := alertRules(Default())
	for _, r := range rules {
		for _, fires := range []bool{true, false} {
			if !slices.ContainsFunc(all, func(e expectation) bool { return e.fires == fires && e.isOf(r, rules) }) {
				t.Errorf("no test of %s %v with fires = %t", r.Alert, r.Labels, fires)
			}
		}
	}
}

// expectations returns what the tests of a file expect of alerts.
func expectations(tests unitTests) []expectation {
	var all []expectation
	selector := regexp.MustCompile(`ALERTS\{(.*alertname="(\w+)".*?)\}`)
	for _, u := range tests.Tests {
		for _, e := range u.Expressions {
			m := selector.FindStringSubmatch(e.Expr)
			if m == nil {
				continue
			}
			asked := distinctLabels(m[1])
			if len(e.Samples) == 0 {
				all = append(all, expectation{m[2], asked, false})
			}
			for _, s := range e.Samples {
				labels := distinctLabels(s.Labels)
				maps.Copy(labels, asked)
				all = append(all, expectation{m[2], labels, true})
			}
		}
		for _, a := range u.Alerts {
			if len(a.Alerts) == 0 {
				all = append(all, expectation{a.Name, nil, false})
			}
			for _, alert := range a.Alerts {
				all = append(all, expectation{a.Name, alert.Labels, true})
			}
		}
	}
	return all
}

// distinctLabels returns the labels of distinct that text has.
func distinctLabels(text string) map[string]string {
	labels := map[string]string{}
	for _, m := range regexp.MustCompile(`\b(\w+)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if slices.Contains(distinct, m[1]) {
			labels[m[1]] = m[2]
		}
	}
	return labels
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
