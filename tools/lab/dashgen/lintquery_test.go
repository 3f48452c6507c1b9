package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/collector"
)

// Every query parses, asks for what exists, takes counters as rates and hides
// no lack of data.
func TestQueries(t *testing.T) {
	c := newTestChecker(t)
	check := func(where, expr string) {
		if _, err := c.labelsOf(expr); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if err := c.countersAreRates(expr); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if regexp.MustCompile(`\bvector\(`).MatchString(expr) {
			t.Errorf("%s: vector() hides that there is no data: %s", where, expr)
		}
		checkForms(t, c, where, expr)
	}
	for uid, b := range readBoards(t) {
		for _, p := range b.every() {
			for _, q := range p.Targets {
				check(uid+": "+p.Title, q.Expr)
			}
		}
		for _, m := range b.Annotations.List {
			check(uid+": "+m.Name, m.Expr)
		}
	}
}

// selectors calls f for each selector of a query and the window around it; 0
// for none.
func selectors(t *testing.T, c *checker, expr string, f func(s *parser.VectorSelector, window string)) {
	t.Helper()
	e, err := c.parser.ParseExpr(grafana.Replace(expr))
	if err != nil {
		t.Fatal(err)
	}
	parser.Inspect(e, func(node parser.Node, path []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			window := ""
			if n := len(path); n > 0 {
				if m, ok := path[n-1].(*parser.MatrixSelector); ok {
					window = m.Range.String()
				}
			}
			f(s, window)
		}
		return nil
	})
}

// checkForms checks that what has a classic and a native form is asked for in
// both, and that windows of rates are those of Grafana or long enough to hold
// samples at any usual interval.
func checkForms(t *testing.T, c *checker, where, expr string) {
	t.Helper()
	native := map[string]bool{}
	for _, f := range collector.Catalogue() {
		if f.Type == collector.Histogram && f.Group != collector.GroupServer && f.Group != collector.GroupGateway {
			native[f.Name] = true
		}
	}
	classic, asked := map[string]bool{}, map[string]bool{}
	selectors(t, c, expr, func(s *parser.VectorSelector, window string) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(s.Name, suffix); ok && native[base] {
				classic[base] = true
			}
		}
		if native[s.Name] {
			asked[s.Name] = true
		}
		if c.known[s.Name].counter && !slices.Contains([]string{"2m0s", "3h0m0s", "5m0s", "15m0s", "30m0s", "1h0m0s", "24h0m0s"}, window) {
			t.Errorf("%s: %s over %s", where, s.Name, window)
		}
	})
	for name := range native {
		if classic[name] != asked[name] {
			t.Errorf("%s: %s is asked for in one form only: %s", where, name, expr)
		}
	}
}

// Links lead to boards and variables that exist, and carry the time range.
func TestLinks(t *testing.T) {
	all := readBoards(t)
	reached := map[string][]string{}
	for uid, b := range all {
		for _, p := range b.every() {
			found := slices.Clone(p.FieldConfig.Defaults.Links)
			for _, o := range p.FieldConfig.Overrides {
				for _, property := range o.Properties {
					if property.ID == "links" {
						var more []lintLink
						if err := json.Unmarshal(property.Value, &more); err != nil {
							t.Fatal(err)
						}
						found = append(found, more...)
					}
				}
			}
			for _, l := range found {
				if to := checkLink(t, all, uid+": "+p.Title, l.URL); to != "" {
					reached[uid] = append(reached[uid], to)
				}
			}
		}
	}
	for from, to := range map[string]string{"ie-fleet": "ie-endpoint", "ie-endpoint": "ie-engine", "ie-engine": "ie-gpu", "ie-gpu": "ie-endpoint"} {
		if !slices.Contains(reached[from], to) {
			t.Errorf("no link from %s to %s", from, to)
		}
	}
}

// checkLink checks one link and returns the board that it leads to; none for
// a runbook.
func checkLink(t *testing.T, all map[string]lintBoard, where, url string) string {
	t.Helper()
	if strings.HasPrefix(url, "https://github.com/inference-exporter/inference_exporter/blob/main/docs/runbooks/") {
		return ""
	}
	m := regexp.MustCompile(`^/d/([a-z-]+)\?(.+)$`).FindStringSubmatch(url)
	if m == nil || all[m[1]].UID == "" {
		t.Errorf("%s: link %s leads to no board", where, url)
		return ""
	}
	variables := []string{}
	for _, v := range all[m[1]].Templating.List {
		variables = append(variables, v.Name)
	}
	for part := range strings.SplitSeq(m[2], "&") {
		name := regexp.MustCompile(`^(?:\$\{(\w+):queryparam\}|var-(\w+)=.+|\$\{__url_time_range\})$`).FindStringSubmatch(part)
		if name == nil || name[1]+name[2] != "" && !slices.Contains(variables, name[1]+name[2]) {
			t.Errorf("%s: link %s carries %s, which %s does not have", where, url, part, m[1])
		}
	}
	if !strings.Contains(m[2], "${__url_time_range}") || !strings.Contains(m[2], "${datasource:queryparam}") {
		t.Errorf("%s: link %s loses the time range or the data source", where, url)
	}
	return m[1]
}
