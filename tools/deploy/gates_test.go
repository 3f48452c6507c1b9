package deploy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	rollouts "github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	flagger "github.com/fluxcd/flagger/pkg/apis/flagger/v1beta1"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/santhosh-tekuri/jsonschema/v6"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const gatesDir = "../../examples/gates"

// verdictPath is the path of the API that gates ask.
var verdictPath = regexp.MustCompile(`:10115/api/v1/endpoints/[^/]+/verdict$`)

// gate decodes the manifests of a gate.
func gate(t *testing.T, name string) objects {
	t.Helper()
	return mustDecode(t, []byte(readFile(t, gatesDir, name)))
}

// checkQuery holds that Prometheus can parse a query, and that each of its metrics is one
// of the exporter or a recorded one. Placeholders are replaced by what fits.
func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	query = regexp.MustCompile(`\{\{ interval \}\}`).ReplaceAllString(query, "10m")
	query = regexp.MustCompile(`\{\{.*?\}\}`).ReplaceAllString(query, "llama")
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v in\n%s", where, err, query)
		return
	}
	known := readFile(t, "../../collector/testdata/names.golden") + strings.ReplaceAll(readFile(t, ruleFiles[0]), "- record: ", "")
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && !regexp.MustCompile(`(?m)^\s*`+regexp.QuoteMeta(s.Name)+`( |$)`).MatchString(known) {
			t.Errorf("%s: unknown metric %s", where, s.Name)
		}
		return nil
	})
}

// declared checks that the placeholders of a text are declared arguments.
func declared(t *testing.T, template *rollouts.AnalysisTemplate, text string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\{\{args\.([^}]+)\}\}`).FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(template.Spec.Args, func(a rollouts.Argument) bool { return a.Name == m[1] }) {
			t.Errorf("%s: no argument %s", template.Name, m[1])
		}
	}
}

func TestGateOfArgoRollouts(t *testing.T) {
	all := gate(t, "argo-rollouts.yml")
	templates := map[string]*rollouts.AnalysisTemplate{}
	for _, template := range of[*rollouts.AnalysisTemplate](all) {
		templates[template.Name] = template
		for _, m := range template.Spec.Metrics {
			where := template.Name + ": " + m.Name
			switch p := m.Provider; {
			case p.Web != nil:
				declared(t, template, p.Web.URL)
				if !verdictPath.MatchString(strings.ReplaceAll(p.Web.URL, "{{args.exporter}}", argument(template, "exporter"))) {
					t.Errorf("%s: URL %s", where, p.Web.URL)
				}
			case p.Prometheus != nil:
				declared(t, template, p.Prometheus.Query+p.Prometheus.Address)
				checkQuery(t, where, p.Prometheus.Query)
			default:
				t.Errorf("%s: no provider", where)
			}
		}
	}
	steps := 0
	for _, r := range of[*rollouts.Rollout](all) {
		for _, step := range r.Spec.Strategy.Canary.Steps {
			if step.Analysis == nil {
				continue
			}
			steps++
			given := map[string]bool{}
			for _, a := range step.Analysis.Args {
				given[a.Name] = true
			}
			for _, ref := range step.Analysis.Templates {
				template, ok := templates[ref.TemplateName]
				if !ok {
					t.Fatalf("%s: no template %s", r.Name, ref.TemplateName)
				}
				for _, a := range template.Spec.Args {
					if a.Value == nil && !given[a.Name] {
						t.Errorf("%s: argument %s of %s is not given", r.Name, a.Name, ref.TemplateName)
					}
				}
			}
		}
	}
	if len(templates) != 2 || steps == 0 {
		t.Errorf("%d templates, %d steps", len(templates), steps)
	}
}

// argument returns the default of an argument.
func argument(template *rollouts.AnalysisTemplate, name string) string {
	for _, a := range template.Spec.Args {
		if a.Name == name && a.Value != nil {
			return *a.Value
		}
	}
	return ""
}

func TestGateOfFlagger(t *testing.T) {
	all := gate(t, "flagger.yml")
	templates := of[*flagger.MetricTemplate](all)
	for _, m := range templates {
		checkQuery(t, m.Name, m.Spec.Query)
	}
	for _, c := range of[*flagger.Canary](all) {
		for _, m := range c.Spec.Analysis.Metrics {
			if _, ok := named[*flagger.MetricTemplate](all, c.Namespace, m.TemplateRef.Name); !ok {
				t.Errorf("%s: no template %s", c.Name, m.TemplateRef.Name)
			}
		}
		for _, w := range c.Spec.Analysis.Webhooks {
			if cmd := (*w.Metadata)["cmd"]; !verdictPath.MatchString(cmd) || !strings.HasPrefix(cmd, "curl -sf http://") {
				t.Errorf("%s: %s", w.Name, cmd)
			}
		}
	}
	if len(templates) != 2 || len(of[*flagger.Canary](all)) != 1 {
		t.Errorf("%d objects", len(all))
	}
}

func TestGateOfHPA(t *testing.T) {
	all := gate(t, "hpa.yml")
	var config struct {
		ExternalRules []struct {
			SeriesQuery, MetricsQuery string
			Name                      struct{ As string }
			Resources                 struct{ Namespaced bool }
		}
	}
	for _, m := range of[*corev1.ConfigMap](all) {
		if err := yaml.UnmarshalStrict([]byte(m.Data["config.yaml"]), &config); err != nil {
			t.Fatal(err)
		}
	}
	served := map[string]bool{}
	for _, rule := range config.ExternalRules {
		served[rule.Name.As] = true
		checkQuery(t, rule.Name.As, rule.SeriesQuery)
		checkQuery(t, rule.Name.As, strings.NewReplacer("<<.LabelMatchers>>", `endpoint="llama"`, "<<.GroupBy>>", "endpoint").Replace(rule.MetricsQuery))
	}
	scalers := of[*autoscalingv2.HorizontalPodAutoscaler](all)
	for _, s := range scalers {
		for _, m := range s.Spec.Metrics {
			if !served[m.External.Metric.Name] {
				t.Errorf("%s: no rule for %s", s.Name, m.External.Metric.Name)
			}
		}
	}
	if len(scalers) != 1 || len(served) != 1 {
		t.Errorf("%d scalers, %d rules", len(scalers), len(served))
	}
}

// KEDA's Go types import its whole operator. The schema is that of its CRD, release 2.20.2,
// closed: a field that it does not have is an error.
func TestGateOfKEDA(t *testing.T) {
	schema := scaledObjectSchema(t)
	var object struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
		Spec             struct {
			Triggers []struct {
				Type, Name string
				Metadata   map[string]string
			}
		}
	}
	text := []byte(readFile(t, gatesDir, "keda.yml"))
	if err := validate(schema, text); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	// The settings of the Prometheus scaler, from its documentation: the CRD takes any.
	settings := []string{"serverAddress", "query", "threshold", "activationThreshold", "ignoreNullValues"}
	for _, trigger := range object.Spec.Triggers {
		checkQuery(t, trigger.Name, trigger.Metadata["query"])
		for _, name := range slices.Sorted(maps.Keys(trigger.Metadata)) {
			if trigger.Type != "prometheus" || !slices.Contains(settings, name) {
				t.Errorf("%s: setting %s of %s", trigger.Name, name, trigger.Type)
			}
		}
	}
	if object.APIVersion != "keda.sh/v1alpha1" || object.Kind != "ScaledObject" || len(object.Spec.Triggers) != 2 {
		t.Errorf("%+v", object)
	}
	for _, bad := range []string{
		strings.Replace(string(text), "maxReplicaCount: 8", "maxReplicas: 8", 1),
		strings.Replace(string(text), "maxReplicaCount: 8", "maxReplicaCount: many", 1),
		strings.Replace(string(text), "type: prometheus", "kind: prometheus", 1),
		strings.Replace(string(text), "metricType: Value", "metricTyp: Value", 1),
	} {
		if bad == string(text) || validate(schema, []byte(bad)) == nil {
			t.Error("a mistake is accepted")
		}
	}
}

func scaledObjectSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "testdata/keda.sh_scaledobjects.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	closeObjects(schema)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scaledobject.json", schema); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("scaledobject.json")
}

// closeObjects refuses fields that a schema does not name, as a strict API server does.
func closeObjects(node any) {
	switch n := node.(type) {
	case map[string]any:
		_, named := n["properties"].(map[string]any)
		if _, open := n["additionalProperties"]; named && !open && n["x-kubernetes-preserve-unknown-fields"] != true {
			n["additionalProperties"] = false
		}
		for _, v := range n {
			closeObjects(v)
		}
	case []any:
		for _, v := range n {
			closeObjects(v)
		}
	}
}

func validate(schema *jsonschema.Schema, text []byte) error {
	var v any
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		return fmt.Errorf("parse manifest: %w", err)
	}
	return schema.Validate(v)
}

// TestGatesInCI holds that the jobs run compare with flags that it has.
func TestGatesInCI(t *testing.T) {
	flags := reference(t, "compare")
	for _, name := range []string{"github-actions.yml", "gitlab-ci.yml"} {
		text := readFile(t, gatesDir, name)
		var content map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &content); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, line, ok := strings.Cut(strings.ReplaceAll(text, "\\\n", " "), "inference_exporter compare ")
		line, _, _ = strings.Cut(line, "\n")
		if !ok || len(regexp.MustCompile(`https://\S+`).FindAllString(line, -1)) != 2 {
			t.Errorf("%s: no comparison of two: %s", name, line)
		}
		for _, flag := range regexp.MustCompile(`--[a-z]\S*`).FindAllString(line, -1) {
			if !isFlag(flags, flag) {
				t.Errorf("%s: %s is no flag of compare", name, flag)
			}
		}
	}
}
