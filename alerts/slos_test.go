package alerts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// someSLOs are objectives with names that no format takes as they are.
func someSLOs() []SLO {
	return []SLO{
		{Endpoint: "chat", Module: "interactive", SLO: "ttft", Objective: 0.57, Good: "have their first token within 2s"},
		{Endpoint: `Größe "a/b" \ {{x}}`, Module: "long_context", SLO: "availability", Objective: 0.999, Good: "succeed"},
		{Endpoint: "a-b", Module: "c", SLO: "e2e", Objective: 0.99, Good: "end within 1m0s"},
		{Endpoint: "a", Module: "b-c", SLO: "e2e", Objective: 0.99, Good: "end within 1m0s"},
		{Endpoint: strings.Repeat("x", 80), Module: "interactive", SLO: "tpot", Objective: 0.99, Good: "x"},
		{Endpoint: strings.Repeat("x", 80), Module: "interactive", SLO: "ttft", Objective: 0.99, Good: "x"},
		{Endpoint: "模型", Module: "interactive", SLO: "ttft", Objective: 0.99, Good: "x"},
	}
}

// read returns the documents of a text, as JSON has them.
func read(t *testing.T, text []byte, err error) []map[string]any {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document map[string]any
		if err := dec.Decode(&document); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, asJSON(t, document))
	}
}

// asJSON returns v with the types that encoding/json gives.
func asJSON[T any](t *testing.T, v T) T {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// crdSchema is the schema of the objects that a CustomResourceDefinition of its owner
// describes. Unlike Kubernetes, it refuses keys that it does not have.
func crdSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPI any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	schema := asJSON(t, crd.Spec.Versions[0].Schema.OpenAPI)
	closeObjects(schema)
	return compiled(t, map[string]any{name: schema}, name)
}

func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range v {
			closeObjects(inner)
		}
	}
}

func compiled(t *testing.T, schemas map[string]any, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for id, schema := range schemas {
		if err := c.AddResource(id, schema); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// wantValid checks documents, and that the schema refuses one without a key of spec.
func wantValid(t *testing.T, schema *jsonschema.Schema, key string, documents ...map[string]any) {
	t.Helper()
	for _, d := range documents {
		if err := schema.Validate(d); err != nil {
			t.Errorf("%v: %v", d["metadata"], err)
		}
	}
	last := documents[len(documents)-1]
	spec := maps.Clone(last["spec"].(map[string]any))
	delete(spec, key)
	broken := maps.Clone(last)
	broken["spec"] = spec
	if schema.Validate(broken) == nil {
		t.Errorf("an object without %s is valid", key)
	}
}

// wantQuery checks a query of a counter of an SLO; what surrounds the selector is in
// the format. bySLO are the matchers of the label slo.
func wantQuery(t *testing.T, s SLO, counter, bySLO, format, query string) {
	t.Helper()
	endpoint := fmt.Sprintf("%q", s.Endpoint)
	if s.Endpoint == someSLOs()[1].Endpoint { // by the escapes of Go, which PromQL has too
		endpoint = `"Größe \"a/b\" \\ {\x7bx}}"`
	}
	want := fmt.Sprintf(format, fmt.Sprintf(`%s{endpoint=%s,module="%s",%s}`, counter, endpoint, s.Module, bySLO))
	if query != want {
		t.Errorf("got  %s\nwant %s", query, want)
	}
}

func equalSLO(s SLO) string { return fmt.Sprintf("slo=%q", s.SLO) }

const badProbes, allProbes = "inference_probe_slo_bad_total", "inference_probe_slo_eligible_total"

// TestSLONames checks names as Kubernetes and OpenSLO want them.
func TestSLONames(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) // RFC 1123
	seen := map[string]bool{}
	for _, s := range someSLOs() {
		name := s.name()
		if !label.MatchString(name) || seen[name] {
			t.Errorf("%+v: name %q", s, name)
		}
		seen[name] = true
	}
	if !seen["chat-interactive-ttft"] || !seen["a-b-c-e2e"] {
		t.Errorf("names %v", seen)
	}
}

// TestSloth checks the specification by the schema of Sloth's object in Kubernetes,
// whose keys are the same but for how they are spelled.
func TestSloth(t *testing.T) {
	text, err := SLOs("sloth", someSLOs())
	spec := read(t, text, err)[0]
	// The version is how Sloth knows the file: slok/sloth, internal/storage/io/sloth.go.
	if !regexp.MustCompile(`(?m)^version: +['"]?prometheus/v1['"]?\r?\n? *$`).Match(text) {
		t.Errorf("Sloth does not know\n%s", text)
	}
	delete(spec, "version")
	for i, slo := range spec["slos"].([]any) {
		slo := slo.(map[string]any)
		events := slo["sli"].(map[string]any)["events"].(map[string]any)
		wantQuery(t, someSLOs()[i], badProbes, equalSLO(someSLOs()[i]), "sum(rate(%s[{{.window}}]))", events["error_query"].(string))
		wantQuery(t, someSLOs()[i], allProbes, equalSLO(someSLOs()[i]), "sum(rate(%s[{{.window}}])) > 0", events["total_query"].(string))
	}
	first := spec["slos"].([]any)[0].(map[string]any)
	if first["objective"] != 57.0 || first["description"] != "57 % of the probes of chat with interactive have their first token within 2s." {
		t.Errorf("got %v", first)
	}
	wantValid(t, crdSchema(t, "sloth.yaml"), "service", map[string]any{
		"apiVersion": "sloth.slok.dev/v1", "kind": "PrometheusServiceLevel", "metadata": map[string]any{"name": "x"}, "spec": camelCase(spec),
	})
}

// camelCase returns v with keys as error_query spelled as errorQuery.
func camelCase(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			words := strings.Split(key, "_")
			for i := range words[1:] {
				words[i+1] = strings.ToUpper(words[i+1][:1]) + words[i+1][1:]
			}
			out[strings.Join(words, "")] = camelCase(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = camelCase(v[i])
		}
		return out
	}
	return v
}

func TestPyrra(t *testing.T) {
	text, err := SLOs("pyrra", someSLOs())
	documents := read(t, text, err)
	wantValid(t, crdSchema(t, "pyrra.yaml"), "indicator", documents...)
	others := map[string]string{
		"availability": `slo!="ttft",slo!="tpot",slo!="e2e",slo!="fluidity"`,
		"ttft":         `slo!="availability",slo!="tpot",slo!="e2e",slo!="fluidity"`,
		"tpot":         `slo!="availability",slo!="ttft",slo!="e2e",slo!="fluidity"`,
		"e2e":          `slo!="availability",slo!="ttft",slo!="tpot",slo!="fluidity"`,
	}
	for i, d := range documents {
		spec := d["spec"].(map[string]any)
		ratio := spec["indicator"].(map[string]any)["ratio"].(map[string]any)
		wantQuery(t, someSLOs()[i], badProbes, others[someSLOs()[i].SLO], "%s", ratio["errors"].(map[string]any)["metric"].(string))
		wantQuery(t, someSLOs()[i], allProbes, others[someSLOs()[i].SLO], "%s", ratio["total"].(map[string]any)["metric"].(string))
		if d["apiVersion"] != "pyrra.dev/v1alpha1" || d["kind"] != "ServiceLevelObjective" {
			t.Errorf("got %v", d)
		}
	}
	if got := documents[1]["spec"].(map[string]any)["target"]; got != "99.9" {
		t.Errorf("target %v", got)
	}
}

func TestOpenSLO(t *testing.T) {
	text, err := SLOs("openslo", someSLOs())
	documents := read(t, text, err)
	const parts = "https://openslo.com/schemas/v1/parts/"
	schemas := map[string]any{}
	files, err := filepath.Glob("testdata/openslo/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if schemas[parts+filepath.Base(file)], err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	both := func(spec string) *jsonschema.Schema {
		schemas["both"] = map[string]any{"allOf": []any{
			map[string]any{"$ref": parts + "general.schema.json"}, map[string]any{"$ref": parts + spec},
		}}
		return compiled(t, schemas, "both")
	}
	if service := both("service-spec.schema.json"); service.Validate(documents[0]) != nil || documents[0]["kind"] != "Service" {
		t.Errorf("got %v", documents[0])
	}
	wantValid(t, both("slo-spec.schema.json"), "objectives", documents[1:]...)
	for i, d := range documents[1:] {
		spec := d["spec"].(map[string]any)
		metric := spec["indicator"].(map[string]any)["spec"].(map[string]any)["ratioMetric"].(map[string]any)
		query := func(key string) string {
			return metric[key].(map[string]any)["metricSource"].(map[string]any)["spec"].(map[string]any)["query"].(string)
		}
		wantQuery(t, someSLOs()[i], badProbes, equalSLO(someSLOs()[i]), "sum(%s)", query("bad"))
		wantQuery(t, someSLOs()[i], allProbes, equalSLO(someSLOs()[i]), "sum(%s)", query("total"))
		// oslo 0.13.0 refuses longer ones, for which the schema has no limit.
		if display, ok := d["metadata"].(map[string]any)["displayName"].(string); utf8.RuneCountInString(display) > 63 || !ok && i < 4 {
			t.Errorf("displayed name %q", display)
		}
		if d["kind"] != "SLO" || spec["service"] != documents[0]["metadata"].(map[string]any)["name"] {
			t.Errorf("got %v", d)
		}
	}
	target := documents[1]["spec"].(map[string]any)["objectives"].([]any)[0].(map[string]any)["target"]
	if target != 0.57 {
		t.Errorf("target %v", target)
	}
}

// TestMimir checks that the file has the keys that mimirtool has and no other, and the
// groups of the rules for Prometheus.
func TestMimir(t *testing.T) {
	groups := append(Recording(allSets()), Alerts(allSets())...)
	text, err := Mimir(groups)
	if err != nil {
		t.Fatal(err)
	}
	var file struct { // of grafana/mimir, pkg/mimirtool/rules, which decodes strictly
		Namespace string
		Groups    []Group
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(groups, file.Groups); d != "" || file.Namespace != "inference_exporter" {
		t.Errorf("namespace %q, groups (-want +got):\n%s", file.Namespace, d)
	}
	// What Mimir takes by default: ruler_max_rule_groups_per_tenant, ruler_max_rules_per_rule_group.
	if len(groups) > 70 {
		t.Errorf("%d groups", len(groups))
	}
	for _, g := range groups {
		if len(g.Rules) > 20 {
			t.Errorf("group %s has %d rules", g.Name, len(g.Rules))
		}
	}
}
