package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/collector"
)

// series is what is known of the series of one name.
type series struct {
	labels  labelSet
	counter bool
	// closed is the label with a closed set of values; empty for none.
	closed string
	values []string
	// set is that of the rule that records the series; empty for the default set
	// and for what no rule records.
	set string
}

// checker knows every series that a board may ask for. A query for any other,
// or by a label that the series do not have, would be empty for ever: it is
// an error when the boards are generated.
type checker struct {
	known  map[string]series
	parser parser.Parser
}

// newChecker knows the series of the exporter and of the recording rules in a
// folder.
func newChecker(rulesFolder string) (*checker, error) {
	c := &checker{known: foreign(), parser: parser.NewParser(parser.Options{})}
	for _, f := range collector.Catalogue() {
		c.addFamily(f)
	}
	// Sets go by the default one.
	for _, name := range append([]string{"recording", "alerts"}, alerts.Sets()...) {
		set := name
		if !slices.Contains(alerts.Sets(), name) {
			set = ""
		}
		if err := c.addRules(filepath.Join(rulesFolder, name+".yml"), set); err != nil {
			return nil, fmt.Errorf("read the recording rules: %w", err)
		}
	}
	return c, nil
}

// setsOf returns the sets of rules that queries need, in the order of their names.
func (c *checker) setsOf(queries []Query) []string {
	var sets []string
	for _, q := range queries {
		e, err := c.parser.ParseExpr(grafana.Replace(q.Expr))
		if err != nil {
			continue // which labelsOf reports
		}
		parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok && c.known[s.Name].set != "" {
				sets = append(sets, c.known[s.Name].set)
			}
			return nil
		})
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}

// foreign are the series of others: Prometheus and its discovery, and
// client_golang's collectors of the process and the runtime.
func foreign() map[string]series {
	alert := setOf("alertname", "severity", "category", "scope", "endpoint", "model", "instance", "gpu", "job")
	known := map[string]series{
		"ALERTS":           {labels: alert.with("alertstate")},
		"ALERTS_FOR_STATE": {labels: alert},
	}
	for _, name := range []string{
		"up", "scrape_duration_seconds", "scrape_samples_scraped", "go_goroutines", "process_resident_memory_bytes",
		"process_open_fds", "process_max_fds", "process_start_time_seconds",
	} {
		known[name] = series{labels: setOf("job", "instance")}
	}
	known["process_cpu_seconds_total"] = series{labels: setOf("job", "instance"), counter: true}
	for _, name := range []string{
		"prometheus_sd_file_read_errors_total", "prometheus_sd_dns_lookup_failures_total",
		"prometheus_sd_kubernetes_failures_total", "prometheus_sd_consul_rpc_failures_total",
	} {
		known[name] = series{labels: setOf("job", "instance"), counter: true}
	}
	known["prometheus_sd_refresh_failures_total"] = series{labels: setOf("job", "instance", "mechanism", "config"), counter: true}
	known["go_gc_duration_seconds"] = series{labels: setOf("job", "instance", "quantile")}
	return known
}

// addFamily adds the series of a family of the exporter.
func (c *checker) addFamily(f collector.Family) {
	own := setOf(append([]string{"job", "instance"}, f.Labels...)...)
	s := series{labels: own}
	if len(f.Values) > 0 {
		s.closed, s.values = f.Labels[len(f.Labels)-1], f.Values
	}
	s.counter = f.Type != collector.Gauge
	switch f.Type {
	case collector.Histogram:
		bucket := s
		bucket.labels = own.with("le")
		c.known[f.Name+"_bucket"] = bucket
		c.known[f.Name] = s // native
		fallthrough
	case collector.Summary:
		c.known[f.Name+"_sum"], c.known[f.Name+"_count"] = s, s
	default:
		c.known[f.Name] = s
	}
}

// addRules adds the series of the recording rules of a set, with the labels that
// their expressions leave.
func (c *checker) addRules(file, set string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Record string            `yaml:"record"`
				Expr   string            `yaml:"expr"`
				Labels map[string]string `yaml:"labels"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		return err
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Record == "" {
				continue
			}
			c.addBefore(r.Record, r.Expr)
			left, err := c.labelsOf(r.Expr)
			if err != nil {
				return fmt.Errorf("rule %s: %w", r.Record, err)
			}
			for name := range r.Labels {
				left = left.with(name)
			}
			c.known[r.Record] = series{labels: left, set: set}
		}
	}
	return nil
}

// addBefore adds what a rule recorded before, for one that keeps it where it has
// nothing new: `new or old`, or `old or new`. Both have the same labels.
func (c *checker) addBefore(name, expr string) {
	e, err := c.parser.ParseExpr(expr)
	if err != nil {
		return // which labelsOf reports
	}
	if or, ok := e.(*parser.BinaryExpr); ok && or.Op == parser.LOR {
		for _, side := range []parser.Expr{or.LHS, or.RHS} {
			if left, err := c.walk(side); err == nil {
				c.known[name] = series{labels: left}
			}
		}
	}
}

// grafana replaces Grafana's variables for durations by a duration that parses.
var grafana = strings.NewReplacer("$__rate_interval", "2m", "$__interval", "15s", "$__range", "3h")

// labelsOf returns the labels that the result of a query has. It fails where
// the query does not parse, asks for what does not exist, or joins by a label
// that one side does not have.
func (c *checker) labelsOf(expr string) (labelSet, error) {
	e, err := c.parser.ParseExpr(grafana.Replace(expr))
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", expr, err)
	}
	l, err := c.walk(e)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	return l, nil
}

// selected checks a selector and returns the labels of its series.
func (c *checker) selected(s *parser.VectorSelector) (labelSet, error) {
	known, ok := c.known[s.Name]
	if !ok {
		return nil, fmt.Errorf("series %q is neither exported nor recorded", s.Name)
	}
	for _, m := range s.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if !known.labels[m.Name] {
			return nil, fmt.Errorf("%s has no label %q", s.Name, m.Name)
		}
		if m.Name == known.closed {
			if err := closedValue(m, known.values); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	return known.labels, nil
}

// plainValue is an alternative of a matcher without special characters.
var plainValue = regexp.MustCompile(`^[a-z0-9_]+$`)

// closedValue checks the values that a matcher names against the closed set of
// its label.
func closedValue(m *labels.Matcher, values []string) error {
	for v := range strings.SplitSeq(m.Value, "|") {
		if plainValue.MatchString(v) && !slices.Contains(values, v) {
			return fmt.Errorf("label %s never has the value %q", m.Name, v)
		}
	}
	return nil
}

// overCounters are the functions that make a level of a counter.
var overCounters = []string{"rate", "increase", "resets"}

// countersAreRates fails where a query shows the value of a counter: it only
// grows, and begins again with its process.
func (c *checker) countersAreRates(expr string) error {
	e, err := c.parser.ParseExpr(grafana.Replace(expr))
	if err != nil {
		return fmt.Errorf("parse %s: %w", expr, err)
	}
	parser.Inspect(e, func(node parser.Node, path []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok || !c.known[s.Name].counter {
			return nil
		}
		if n := len(path); n >= 2 {
			if call, ok := path[n-2].(*parser.Call); ok && slices.Contains(overCounters, call.Func.Name) {
				return nil
			}
		}
		err = fmt.Errorf("query %s: counter %s without rate or increase", expr, s.Name)
		return nil
	})
	return err
}

// labelSet is the labels that series have or may have.
type labelSet map[string]bool

// setOf returns the set of names.
func setOf(names ...string) labelSet {
	s := make(labelSet, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}

// with returns the set with one name more.
func (s labelSet) with(name string) labelSet {
	out := maps.Clone(s)
	out[name] = true
	return out
}

// require fails where a name is not in the set.
func (s labelSet) require(names []string, what string) error {
	for _, n := range names {
		if !s[n] {
			return fmt.Errorf("%s the label %q, which is not there", what, n)
		}
	}
	return nil
}

// walk returns the labels of the result of an expression; none for a scalar.
func (c *checker) walk(e parser.Expr) (labelSet, error) {
	switch e := e.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
		return setOf(), nil
	case *parser.ParenExpr:
		return c.walk(e.Expr)
	case *parser.UnaryExpr:
		return c.walk(e.Expr)
	case *parser.StepInvariantExpr:
		return c.walk(e.Expr)
	case *parser.SubqueryExpr:
		return c.walk(e.Expr)
	case *parser.MatrixSelector:
		return c.walk(e.VectorSelector)
	case *parser.VectorSelector:
		return c.selected(e)
	case *parser.Call:
		return c.walkCall(e)
	case *parser.AggregateExpr:
		return c.walkAggregate(e)
	case *parser.BinaryExpr:
		return c.walkBinary(e)
	default:
		return nil, fmt.Errorf("cannot judge %T", e)
	}
}

// walkCall returns the labels that a function leaves.
func (c *checker) walkCall(e *parser.Call) (labelSet, error) {
	left := setOf()
	for _, arg := range e.Args {
		l, err := c.walk(arg)
		if err != nil {
			return nil, err
		}
		if t := arg.Type(); t == parser.ValueTypeVector || t == parser.ValueTypeMatrix {
			left = maps.Clone(l)
		}
	}
	switch e.Func.Name {
	case "histogram_quantile":
		delete(left, "le")
	case "label_replace", "label_join":
		if to, ok := e.Args[1].(*parser.StringLiteral); ok {
			left[to.Val] = true
		}
	}
	return left, nil
}

// walkAggregate returns the labels that an aggregation keeps.
func (c *checker) walkAggregate(e *parser.AggregateExpr) (labelSet, error) {
	inner, err := c.walk(e.Expr)
	if err != nil {
		return nil, err
	}
	if err := inner.require(e.Grouping, "groups by"); err != nil {
		return nil, err
	}
	if e.Without {
		left := maps.Clone(inner)
		for _, name := range e.Grouping {
			delete(left, name)
		}
		return left, nil
	}
	if e.Op == parser.TOPK || e.Op == parser.BOTTOMK {
		return inner, nil
	}
	return setOf(e.Grouping...), nil
}

// walkBinary returns the labels that an operator leaves. Vectors that are
// matched by all of their labels must have the same ones.
func (c *checker) walkBinary(e *parser.BinaryExpr) (labelSet, error) {
	left, err := c.walk(e.LHS)
	if err != nil {
		return nil, err
	}
	right, err := c.walk(e.RHS)
	if err != nil {
		return nil, err
	}
	switch m := e.VectorMatching; {
	case m == nil: // a scalar on one side
		if e.LHS.Type() == parser.ValueTypeScalar {
			return right, nil
		}
		return left, nil
	case e.Op == parser.LOR:
		out := maps.Clone(left)
		maps.Copy(out, right)
		return out, nil
	case m.On:
		return matched(e, left, right)
	case !maps.Equal(left, right) || len(m.MatchingLabels) > 0:
		return nil, fmt.Errorf("%s between vectors with different labels and no on ()", e.Op)
	default:
		return left, nil
	}
}

// matched returns the labels that an operator with on () leaves.
func matched(e *parser.BinaryExpr, left, right labelSet) (labelSet, error) {
	m := e.VectorMatching
	if err := left.require(m.MatchingLabels, "joins on"); err != nil {
		return nil, err
	}
	if err := right.require(m.MatchingLabels, "joins on"); err != nil {
		return nil, err
	}
	one, many := right, left
	switch {
	case e.Op.IsSetOperator():
		return left, nil
	case m.Card == parser.CardOneToOne:
		return setOf(m.MatchingLabels...), nil
	case m.Card == parser.CardOneToMany:
		one, many = left, right
	}
	if err := one.require(m.Include, "takes over"); err != nil {
		return nil, err
	}
	out := maps.Clone(many)
	for _, n := range m.Include {
		out[n] = true
	}
	return out, nil
}
