package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-jsonnet"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/alerts"
)

// evaluated returns what an expression about the mixin is.
func evaluated(t *testing.T, expression string) any {
	t.Helper()
	vm := jsonnet.MakeVM()
	vm.Importer(&jsonnet.FileImporter{JPaths: []string{"../../../mixin"}})
	text, err := vm.EvaluateAnonymousSnippet("test.jsonnet", "local mixin = import 'mixin.libsonnet'; "+expression)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, []byte(text))
}

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMixin checks that the mixin has all rules and dashboards as they are in the files,
// by the reader of YAML that Prometheus uses, and adds to those of another mixin.
func TestMixin(t *testing.T) {
	for expression, names := range map[string][]string{"mixin.prometheusRules": {"recording"}, "mixin.prometheusAlerts": append([]string{"alerts"}, alerts.Sets()...)} {
		var want struct {
			Groups []any `json:"groups" yaml:"groups"`
		}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(rulesFolder, name+".yml"))
			if err != nil {
				t.Fatal(err)
			}
			before := want.Groups
			if err := yaml.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			want.Groups = append(before, want.Groups...)
		}
		asJSON, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(decoded(t, asJSON), evaluated(t, expression)); d != "" {
			t.Errorf("%s is not %v (-want +got):\n%s", expression, names, d)
		}
	}
	boards := evaluated(t, "mixin.grafanaDashboards").(map[string]any)
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 || len(boards) != len(files) {
		t.Errorf("%d dashboards for %d files", len(boards), len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(decoded(t, text), boards["inference-"+filepath.Base(file)]); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
	const other = "{ grafanaDashboards+:: { 'a.json': {} }, prometheusAlerts+:: { groups+: [{ name: 'a' }] } }"
	for _, both := range []string{"(mixin + " + other + ")", "(" + other + " + mixin)"} {
		if got := evaluated(t, "std.length("+both+".grafanaDashboards)"); got != float64(len(files)+1) {
			t.Errorf("%s: %v dashboards", both, got)
		}
		if got := evaluated(t, "std.length("+both+".prometheusAlerts.groups) - std.length(mixin.prometheusAlerts.groups)"); got != 1.0 {
			t.Errorf("%s: %v groups more", both, got)
		}
	}
}
