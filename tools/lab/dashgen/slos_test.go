package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
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
			for _, matchers := range parser.ExtractSelectors(expr) {
				for _, slo := range []string{"availability", "ttft", "tpot", "e2e", "fluidity"} {
					series := labels.FromStrings("endpoint", endpoint, "module", "m", "slo", slo)
					selected := !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
						return m.Name != model.MetricNameLabel && !m.Matches(series.Get(m.Name))
					})
					if selected != (slo == "ttft") {
						t.Errorf("%s: %s selects %s: %v", name, query, series, selected)
					}
				}
				for _, name := range []string{"endpoint", "module"} {
					if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == name && !m.Matches("other") }) {
						t.Errorf("%s selects every %s", query, name)
					}
				}
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
