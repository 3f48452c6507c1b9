package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/alerts"
)

// TestQueriesOfSLOs reads the queries that are printed for other tools as Prometheus
// does: each is of one endpoint, under the name that it has.
func TestQueriesOfSLOs(t *testing.T) {
	const endpoint = `Größe "a/b" \ {{x}}`
	slos := []alerts.SLO{{Endpoint: endpoint, Module: "m", SLO: "ttft", Objective: 0.99, Good: "succeed"}}
	for name, format := range map[string]func([]alerts.SLO) ([]byte, error){"sloth": alerts.Sloth, "pyrra": alerts.Pyrra, "openslo": alerts.OpenSLO} {
		text, err := format(slos)
		if err != nil {
			t.Fatal(err)
		}
		queries := queriesIn(t, text)
		if len(queries) != 2 {
			t.Errorf("%s: queries %q", name, queries)
		}
		for _, query := range queries {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(query, "{{.window}}", "5m"))
			if err != nil {
				t.Errorf("%s: %s: %v", name, query, err)
				continue
			}
			found := map[string]string{}
			for _, matchers := range parser.ExtractSelectors(expr) {
				for _, m := range matchers {
					found[m.Name] = m.Value
				}
			}
			if found["endpoint"] != endpoint || found["module"] != "m" || found["slo"] != "ttft" || len(found) != 4 {
				t.Errorf("%s: %s selects %v", name, query, found)
			}
		}
	}
}

// queriesIn returns the values of a text that are of a counter of the exporter.
func queriesIn(t *testing.T, text []byte) []string {
	t.Helper()
	var queries []string
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if strings.Contains(n.Value, "inference_probe_slo_") {
			queries = append(queries, n.Value)
		}
		for _, inner := range n.Content {
			walk(inner)
		}
	}
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		if err := dec.Decode(&document); errors.Is(err, io.EOF) {
			return queries
		} else if err != nil {
			t.Fatal(err)
		}
		walk(&document)
	}
}
