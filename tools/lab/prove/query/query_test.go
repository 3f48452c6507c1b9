package query

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/collector"
)

func mustParse(t *testing.T, text string) parser.Expr {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func texts(all []parser.Expr) []string {
	out := make([]string, len(all))
	for i, e := range all {
		out[i] = e.String()
	}
	return out
}

func TestBare(t *testing.T) {
	for text, want := range map[string]string{
		`sum(a) or vector(0)`:             `sum(a)`,
		`sum(a) or on () vector(0)`:       `sum(a)`,
		`(sum(a) or vector(0)) / sum(b)`:  `(sum(a)) / sum(b)`,
		`a or b`:                          `a or b`,
		`a / a offset 1w`:                 `a / a offset 30s`,
		`rate(a[5m] offset 1d)`:           `rate(a[5m] offset 30s)`,
		`a offset 1m`:                     `a offset 1m`,
		`avg_over_time(a[30d:1d])`:        `avg_over_time(a[2m30s:5s])`,
		`avg_over_time(a[1m:5m])`:         `avg_over_time(a[10s:5s])`,
		`avg_over_time(a[1d:5m])`:         `avg_over_time(a[24m:5s])`,
		`count_over_time(a[30m:1m])`:      `count_over_time(a[30m:1m])`,
		`max_over_time(a[1h:] offset 1w)`: `max_over_time(a[1h:] offset 30s)`,
	} {
		if got := Bare(mustParse(t, text)).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestCondition(t *testing.T) {
	for text, want := range map[string][]string{
		`a > 1`:                                 {`a > bool 1`},
		`rate(a[5m]) > 1 and on (x) b == 0`:     {`rate(a[5m]) > bool 1 and on (x) b == bool 0`},
		`a > 1 unless on (x) b == 0`:            {`a > bool 1`, `b == bool 0`},
		`absent(a == 1)`:                        {`vector(1)`, `a == bool 1`},
		`absent_over_time(a[5m])`:               {`vector(1)`, `count_over_time(a[5m])`},
		`a == 0 or b == 0`:                      {`a == bool 0 or b == bool 0`, `a == bool 0`, `b == bool 0`},
		`time() - a > 5`:                        {`time() - a > bool 5`},
		`count_over_time((a > 0)[30m:1m]) >= 8`: {`count_over_time((a > bool 0)[30m:1m]) >= bool 8`},
	} {
		if got := texts(Condition(mustParse(t, text))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestBranches has the two forms of a histogram, of which one is always empty.
func TestBranches(t *testing.T) {
	for text, want := range map[string][]string{
		`a or b`: {`a`, `b`},
		`histogram_quantile(0.5, rate(h[5m])) or histogram_quantile(0.5, rate(h_bucket[5m]))`: {},
		`histogram_count(h) or h_count`: {},
		`sum(a or b)`:                   {`a`, `b`},
	} {
		if got := texts(Branches(mustParse(t, text))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	names := NewNames([]collector.Family{
		{Name: "results_total", Type: collector.Counter, Labels: []string{"endpoint", "outcome"}, Values: []string{"success", "empty"}},
		{Name: "ttft_seconds", Type: collector.Histogram, Labels: []string{"endpoint"}},
		{Name: "phase_seconds", Type: collector.Summary, Labels: []string{"endpoint"}},
	}, []string{"endpoint:bad:ratio"})
	for text, problem := range map[string]string{
		`results_total{outcome!="success",job="x"}`:                                         "",
		`results_total{outcome=~"success|empty"}`:                                           "",
		`results_total{outcome=~"succ.+"}`:                                                  "",
		`rate(ttft_seconds[5m]) or rate(ttft_seconds_bucket{le="1"}[5m])`:                   "",
		`ttft_seconds_count + phase_seconds_sum`:                                            "",
		`endpoint:bad:ratio{anything="x"}`:                                                  "",
		`up and on (job) ALERTS`:                                                            "",
		`sum by (endpoint) (results_total)`:                                                 "",
		`count_values by (endpoint) ("value", results_total)`:                               "",
		`sum by (short) (label_replace(results_total, "short", "$1", "endpoint", "(.).*"))`: "",

		`result_total`:                                          "no metric result_total",
		`results_total_bucket`:                                  "no metric results_total_bucket",
		`phase_seconds_bucket`:                                  "no metric phase_seconds_bucket",
		`phase_seconds`:                                         "no metric phase_seconds",
		`{endpoint="x"}`:                                        "names no metric",
		`results_total{model="x"}`:                              "has no label model",
		`ttft_seconds{le="1"}`:                                  "has no label le",
		`results_total{outcome="sucess"}`:                       `never "sucess"`,
		`results_total{outcome!~"success|full"}`:                `never "full"`,
		`sum by (model) (results_total)`:                        "label model is on nothing",
		`results_total / on (endpoint, model) ttft_seconds_sum`: "label model is on nothing",
	} {
		err := names.Check(mustParse(t, text))
		switch {
		case problem == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: %v, want %s", text, err, problem)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	if _, err := Parse("sum(a"); err == nil {
		t.Error("an open parenthesis is parsed")
	}
}
