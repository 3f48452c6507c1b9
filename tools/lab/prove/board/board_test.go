package board

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

const sample = `{
  "uid": "ie-sample", "title": "Sample",
  "panels": [
    {"title": "Now", "fieldConfig": {"defaults": {"unit": "s"}}, "targets": [{"refId": "A", "expr": "a", "instant": true, "legendFormat": "{{x}}"}, {"refId": "B", "expr": ""}]},
    {"title": "Row", "type": "row", "panels": [{"title": "Inner", "targets": [{"refId": "C", "expr": "c"}]}]},
    {"title": "Both", "targets": [{"refId": "A", "expr": "d", "instant": true, "range": true}]}
  ],
  "annotations": {"list": [{"name": "alerts", "expr": "e"}, {"name": "built in"}, {"name": "new form", "target": {"expr": "f"}}]},
  "templating": {"list": [
    {"name": "datasource", "type": "datasource", "query": "prometheus"},
    {"name": "job", "type": "query", "query": {"query": "label_values(up, job)"}, "includeAll": true, "allValue": ".*"}
  ]}
}`

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sample.json")
	if err := os.WriteFile(file, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	want := &Board{
		UID: "ie-sample", Title: "Sample",
		Variables: []Variable{
			{Name: "datasource", Type: "datasource", Query: "prometheus"},
			{Name: "job", Type: "query", Query: "label_values(up, job)", All: true, AllValue: ".*"},
		},
		Queries: []Query{
			{Panel: "Now", Unit: "s", Ref: "A", Expr: "a", Legend: "{{x}}"},
			{Panel: "Inner", Ref: "C", Expr: "c", Range: true},
			{Panel: "Both", Ref: "A", Expr: "d", Range: true},
			{Panel: "annotation alerts", Ref: "A", Expr: "e", Range: true, Annotation: true},
			{Panel: "annotation new form", Ref: "A", Expr: "f", Range: true, Annotation: true},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestFill(t *testing.T) {
	w := Window{Step: 2 * time.Second, Range: 5 * time.Minute, Rate: 30 * time.Second}
	values := map[string]string{"endpoint": "a|b", "job": "j"}
	for query, want := range map[string]string{
		`rate(x{endpoint=~"$endpoint"}[$__rate_interval])`:         `rate(x{endpoint=~"a|b"}[30s])`,
		`x{endpoint=~"${endpoint:regex}",job="[[job]]"}`:           `x{endpoint=~"a|b",job="j"}`,
		`avg_over_time(x[$__range]) * $__range_s / $__interval_ms`: `avg_over_time(x[300s]) * 300 / 2000`,
		`label_replace(x, "y", "$1", "z", "(.*)")`:                 `label_replace(x, "y", "$1", "z", "(.*)")`,
		`x[$__interval:${__interval}]`:                             `x[2s:2s]`,
	} {
		got, err := w.Fill(query, values)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", query, got, err, want)
		}
	}
	if got, err := w.Fill(`x{a="$nobody"}`, values); err == nil {
		t.Errorf("an unknown variable is filled: %s", got)
	}
}

func TestParseListed(t *testing.T) {
	for query, want := range map[string]Listed{
		`label_values(job)`:               {Label: "job"},
		`label_values(up{job="x"}, job)`:  {Selector: `up{job="x"}`, Label: "job"},
		`label_values(up{a="b",c="d"},c)`: {Selector: `up{a="b",c="d"}`, Label: "c"},
	} {
		if got, err := ParseListed(query); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", query, got, err, want)
		}
	}
	if got, err := ParseListed("query_result(up)"); err == nil {
		t.Errorf("another call is read: %+v", got)
	}
}

func TestAllOf(t *testing.T) {
	if got, want := (Variable{}).AllOf([]string{"a.b", "c"}), `(a\\.b|c)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (Variable{AllValue: ".*"}).AllOf([]string{"a"}); got != ".*" {
		t.Errorf("%s, want .*", got)
	}
}
