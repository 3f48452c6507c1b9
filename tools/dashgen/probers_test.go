package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

// Two exporters may probe one endpoint and read the pages of the same servers.
// What follows judges rules and panels by that alone.

// shared matches series that each exporter has of one and the same thing: a
// server, or what is configured of an endpoint.
var shared = regexp.MustCompile(`^inference_(server|endpoint|slo)_`)

// events are series of that kind which are the exporter's own doing all the same.
var events = []string{"inference_server_scrape_failures_total"}

// nature is what becomes of a result where there are two exporters.
type nature struct {
	// each says that there is a series of each of them.
	each bool
	// times is how often a factor two is in it: 0 for what stays as it was.
	times int
}

// natureOf returns the nature of a result. The error says what would fail.
func natureOf(e parser.Expr) (nature, error) {
	switch e := e.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nature{}, nil
	case *parser.ParenExpr:
		return natureOf(e.Expr)
	case *parser.UnaryExpr:
		return natureOf(e.Expr)
	case *parser.StepInvariantExpr:
		return natureOf(e.Expr)
	case *parser.SubqueryExpr:
		return natureOf(e.Expr)
	case *parser.MatrixSelector:
		return natureOf(e.VectorSelector)
	case *parser.VectorSelector:
		level, _, recorded := strings.Cut(e.Name, ":")
		return nature{each: !recorded || level == "instance"}, nil
	case *parser.Call:
		return natureOfCall(e)
	case *parser.AggregateExpr:
		return natureOfAggregate(e)
	case *parser.BinaryExpr:
		return natureOfBinary(e)
	default:
		return nature{}, fmt.Errorf("cannot judge %T", e)
	}
}

func natureOfCall(e *parser.Call) (nature, error) {
	result := nature{}
	for _, arg := range e.Args {
		n, err := natureOf(arg)
		if err != nil {
			return nature{}, err
		}
		result.each = result.each || n.each
		result.times = max(result.times, n.times)
	}
	switch e.Func.Name {
	case "absent":
		return nature{}, nil
	case "histogram_quantile", "histogram_avg":
		result.times = 0 // of all buckets alike
	}
	return result, nil
}

func natureOfAggregate(e *parser.AggregateExpr) (nature, error) {
	n, err := natureOf(e.Expr)
	if err != nil {
		return nature{}, err
	}
	kept := slices.Contains(e.Grouping, "instance")
	if e.Op == parser.TOPK || e.Op == parser.BOTTOMK {
		if one, ok := e.Param.(*parser.NumberLiteral); ok && one.Val == 1 && len(e.Grouping) > 0 {
			n.each = n.each && kept
		}
		return n, nil
	}
	switch e.Op {
	case parser.COUNT:
		n.times = 0
		fallthrough
	case parser.SUM:
		if n.each && !kept && readsShared(e) {
			n.times++
		}
	case parser.GROUP:
		n.times = 0
	}
	n.each = n.each && kept
	return n, nil
}

func readsShared(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		found = found || ok && shared.MatchString(s.Name) && !slices.Contains(events, s.Name)
		return nil
	})
	return found
}

func natureOfBinary(e *parser.BinaryExpr) (nature, error) {
	left, err := natureOf(e.LHS)
	if err != nil {
		return nature{}, err
	}
	right, err := natureOf(e.RHS)
	if err != nil {
		return nature{}, err
	}
	m := e.VectorMatching
	if m != nil && e.Op.IsSetOperator() {
		if e.Op == parser.LOR {
			return nature{left.each || right.each, max(left.times, right.times)}, nil
		}
		return left, nil
	}
	byInstance := m != nil && (!m.On && left.each == right.each || slices.Contains(m.MatchingLabels, "instance"))
	if m != nil && !byInstance && (left.each && m.Card != parser.CardManyToOne || right.each && m.Card != parser.CardOneToMany) {
		return nature{}, fmt.Errorf("two exporters have no single partner: %s", e)
	}
	result := nature{left.each || right.each, left.times}
	switch {
	case e.Op == parser.MUL:
		result.times += right.times
	case e.Op == parser.DIV:
		result.times -= right.times
	case left.times != right.times && !isZero(e.LHS) && !isZero(e.RHS):
		return nature{}, fmt.Errorf("one side is as many times more as there are exporters: %s", e)
	}
	if e.ReturnBool {
		result.times = 0
	}
	return result, nil
}

func isZero(e parser.Expr) bool {
	n, ok := e.(*parser.NumberLiteral)
	return ok && n.Val == 0
}

// judgeProbers parses an expression and fails where two exporters make of it something
// else than one would.
func judgeProbers(expr string) (nature, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(grafana.Replace(expr))
	if err != nil {
		return nature{}, err
	}
	n, err := natureOf(e)
	if err == nil && n.times != 0 {
		err = fmt.Errorf("two exporters of one server count it twice: %s", expr)
	}
	return n, err
}

// Nothing that two exporters read of one server is counted twice on a board, and
// no query fails for them.
func TestProbersOnBoards(t *testing.T) {
	for uid, b := range readBoards(t) {
		for _, p := range b.every() {
			for _, q := range p.Targets {
				if _, err := judgeProbers(q.Expr); err != nil {
					t.Errorf("%s: %s: %v", uid, p.Title, err)
				}
			}
		}
	}
}

// The same is true of the rules. An alert, and what is recorded, is of one
// exporter where its text or its name says so, and nowhere else.
func TestProbersInRules(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Record, Alert, Expr string
				Annotations         map[string]string
			}
		}
	}
	for _, name := range []string{"recording.yml", "alerts.yml"} {
		text, err := os.ReadFile("../../alerts/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				n, err := judgeProbers(r.Expr)
				if err != nil {
					t.Errorf("%s%s: %v", r.Alert, r.Record, err)
				}
				says := strings.HasPrefix(r.Record, "instance:") || strings.Contains(r.Annotations["summary"], "$labels.instance")
				if n.each != says {
					t.Errorf("%s%s has a series of each exporter: %t; it says so: %t\n%s", r.Alert, r.Record, n.each, says, r.Expr)
				}
			}
		}
	}
}

// What the judgement goes by.
func TestNature(t *testing.T) {
	f := func(expr string, each, wrong bool) {
		t.Helper()
		n, err := judgeProbers(expr)
		if (err != nil) != wrong || err == nil && n.each != each {
			t.Errorf("%s: of each exporter %t (want %t), error %v (want %t)", expr, n.each, each, err, wrong)
		}
	}
	f(`vector(1)`, false, false)
	f(`absent(up)`, false, false)
	f(`up == 0`, true, false)
	f(`module:x:y > 1`, false, false)
	f(`instance:x:y and on (endpoint) module:x:y`, true, false)
	f(`module:x:y unless on (endpoint) instance:x:y`, false, false)
	f(`sum by (endpoint) (rate(inference_probe_results_total[5m]))`, false, false)
	f(`sum by (job, instance) (rate(inference_probe_results_total[5m]))`, true, false)
	f(`sum by (endpoint) (max by (endpoint, server) (inference_server_requests_running))`, false, false)
	f(`max by (endpoint) (sum by (endpoint, server, job, instance) (inference_server_requests_total))`, false, false)
	f(`sum by (endpoint) (inference_server_requests_running)`, false, true)
	f(`sum by (endpoint) (inference_server_requests_running) > 0`, false, true)
	f(`2 * sum by (endpoint) (inference_server_requests_running)`, false, true)
	f(`sum by (endpoint) (inference_server_requests_running) > bool 0`, false, false)
	f(`sum by (endpoint) (inference_server_requests_running) > bool 2`, false, true)
	f(`sum by (endpoint) (inference_server_ttft_seconds_sum) / sum by (endpoint) (inference_server_ttft_seconds_count)`, false, false)
	f(`sum by (endpoint) (inference_server_requests_waiting) / max by (endpoint) (inference_server_requests_total)`, false, true)
	f(`histogram_quantile(0.5, sum by (le) (rate(inference_server_ttft_seconds_bucket[5m])))`, false, false)
	f(`count by (endpoint) (inference_server_up == 1)`, false, true)
	f(`sum by (endpoint) (inference_endpoint_servers)`, false, true)
	f(`sum by (reason) (rate(inference_server_scrape_failures_total[5m]))`, false, false)
	f(`max by (endpoint) (inference_slo_objective_ratio) / on (endpoint) inference_probe_success`, false, true)
	f(`inference_probe_success > on (endpoint) module:x:y`, false, true)
	f(`inference_probe_success * on (endpoint) group_left module:x:y`, true, false)
	f(`module:x:y * on (uuid) group_left (instance) max by (uuid, instance) (inference_gpu_info)`, false, true)
	f(`module:x:y * on (uuid) group_left (instance) topk by (uuid) (1, max by (uuid, instance) (inference_gpu_info))`, false, false)
	f(`inference_probe_success - inference_probe_success offset 1m`, true, false)
	f(`inference_probe_success - module:x:y`, false, true)
}

const ruleTests = "../../alerts/tests"

// The tests of servers' metrics, with every series a second time, as of a second
// exporter that reads the same pages: nothing changes. PROMTOOL names the
// program of Prometheus that runs them.
func TestSecondReader(t *testing.T) {
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		t.Skip("PROMTOOL is not set")
	}
	files, err := filepath.Glob(filepath.Join(ruleTests, "servers*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			doubled := filepath.Join(t.TempDir(), "doubled.yml")
			if err := os.WriteFile(doubled, withSecondReader(t, file), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", doubled).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// ruleTest is a test of rules, of which only what is given matters here.
type ruleTest struct {
	Given []given        `yaml:"input_series"`
	Rest  map[string]any `yaml:",inline"`
}

// withSecondReader returns a file of tests with every series once more.
func withSecondReader(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Rules []string       `yaml:"rule_files"`
		Tests []ruleTest     `yaml:"tests"`
		Rest  map[string]any `yaml:",inline"`
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for i, name := range all.Rules {
		if all.Rules[i], err = filepath.Abs(filepath.Join(ruleTests, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range all.Tests {
		for _, g := range all.Tests[i].Given {
			all.Tests[i].Given = append(all.Tests[i].Given, given{secondInstance(g.Series), g.Values})
		}
	}
	out, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// secondInstance names a series as another exporter has it.
func secondInstance(series string) string {
	if strings.Contains(series, `instance="`) {
		return strings.Replace(series, `instance="`, `instance="second `, 1)
	}
	return strings.TrimSuffix(series, "}") + `,instance="second"}`
}
