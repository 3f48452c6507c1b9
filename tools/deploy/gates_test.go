package deploy

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

const gatesDir = "../../examples/gates"

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
	known := readFile(t, "../../collector/testdata/names.golden")
	for _, name := range ruleFiles {
		known += strings.ReplaceAll(readFile(t, name), "- record: ", "")
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && !regexp.MustCompile(`(?m)^\s*`+regexp.QuoteMeta(s.Name)+`( |$)`).MatchString(known) {
			t.Errorf("%s: unknown metric %s", where, s.Name)
		}
		return nil
	})
}

// TestGates holds that the manifests of gates are valid, ask Prometheus for what exists, and
// the exporter for a verdict.
func TestGates(t *testing.T) {
	verdict := regexp.MustCompile(`^(curl -sf http://\S+:10115|\{\{args\.exporter\}\})/api/v1/endpoints/[^/]+/verdict$`)
	for _, name := range []string{"argo-rollouts.yml", "flagger.yml", "hpa.yml", "keda.yml"} {
		text := readFile(t, gatesDir, name)
		found := 1
		if name != "keda.yml" { // its Go types import its whole operator
			found = len(of[*corev1.ConfigMap](mustDecode(t, []byte(text))))
		}
		queries := valuesOf(t, text, "query", "seriesQuery", "metricsQuery")
		for _, query := range queries {
			checkQuery(t, name, strings.NewReplacer("<<.LabelMatchers>>", `endpoint="llama"`, "<<.GroupBy>>", "endpoint").Replace(query))
		}
		for _, url := range append(valuesOf(t, text, "cmd"), valuesOf(t, text, "url")...) {
			if verdict.MatchString(url) {
				found++
			} else if !strings.HasPrefix(url, "http://flagger-loadtester") {
				t.Errorf("%s: %s", name, url)
			}
		}
		if len(queries) < 2 || found != 1 {
			t.Errorf("%s: %d queries, %d verdicts or rules of an adapter", name, len(queries), found)
		}
	}
}

// valuesOf returns the scalars of documents under any of the keys, also in a configuration that
// a document holds.
func valuesOf(t *testing.T, text string, keys ...string) []string {
	t.Helper()
	var all []string
	var walk func(n *yamlv3.Node)
	walk = func(n *yamlv3.Node) {
		for i, value := range n.Content {
			walk(value)
			if n.Kind != yamlv3.MappingNode || i%2 == 0 {
				continue
			}
			switch key := n.Content[i-1].Value; {
			case slices.Contains(keys, key):
				all = append(all, value.Value)
			case key == "config.yaml":
				all = append(all, valuesOf(t, value.Value, keys...)...)
			}
		}
	}
	for d := yamlv3.NewDecoder(strings.NewReader(text)); ; {
		var document yamlv3.Node
		if err := d.Decode(&document); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		walk(&document)
	}
}
