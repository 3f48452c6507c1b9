package query

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/collector"
)

// Names are the metrics that a query may read.
type Names struct {
	families map[string]collector.Family
	recorded map[string]bool
}

// NewNames returns the names of the catalogue and those that rules record.
func NewNames(catalogue []collector.Family, recorded []string) *Names {
	n := &Names{families: map[string]collector.Family{}, recorded: map[string]bool{}}
	for _, f := range catalogue {
		n.families[f.Name] = f
	}
	for _, name := range recorded {
		n.recorded[name] = true
	}
	return n
}

// targetLabels are what Prometheus adds to what it scrapes.
func targetLabels() []string { return []string{model.JobLabel, model.InstanceLabel} }

// foreign matches metrics of Prometheus itself, and of its discovery, the Go
// runtime and the process on the exporter's page. Whether they exist shows when they are asked.
var foreign = regexp.MustCompile(`^(up|ALERTS|ALERTS_FOR_STATE|(scrape|go|process|prometheus_sd)_[a-z0-9_]+)$`)

// family returns the name of the family that a series belongs to.
func family(series string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(series, suffix); ok {
			return base
		}
	}
	return series
}

// Check returns an error for each metric in e that nobody exposes, for each
// label that its metric does not have, and for each value that is not in the
// closed set of its label.
func (n *Names) Check(e parser.Expr) error {
	var problems []error
	for _, s := range selectors(e) {
		problems = append(problems, n.checkSelector(s))
	}
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			problems = append(problems, n.checkLabels(node.Expr, node.Grouping))
		case *parser.BinaryExpr:
			if m := node.VectorMatching; m != nil && m.On {
				problems = append(problems, n.checkLabels(node.LHS, m.MatchingLabels), n.checkLabels(node.RHS, m.MatchingLabels))
			}
		}
		return nil
	})
	return errors.Join(problems...)
}

func (n *Names) checkSelector(s *parser.VectorSelector) error {
	if s.Name == "" {
		return fmt.Errorf("%s names no metric", s)
	}
	if n.recorded[s.Name] || foreign.MatchString(s.Name) {
		return nil
	}
	f, ok := n.find(s.Name)
	if !ok {
		return fmt.Errorf("no metric %s", s.Name)
	}
	var problems []error
	for _, m := range s.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if !slices.Contains(labelsOf(f, s.Name), m.Name) {
			problems = append(problems, fmt.Errorf("%s has no label %s", s.Name, m.Name))
			continue
		}
		if f.Values != nil && m.Name == f.Labels[len(f.Labels)-1] {
			problems = append(problems, checkValue(s.Name, f.Values, m))
		}
	}
	return errors.Join(problems...)
}

// find returns the family of a series.
func (n *Names) find(series string) (collector.Family, bool) {
	if f, ok := n.families[series]; ok {
		return f, f.Type != collector.Summary // has only a sum and a count
	}
	f, ok := n.families[family(series)]
	bucket := strings.HasSuffix(series, "_bucket")
	return f, ok && (f.Type == collector.Histogram || f.Type == collector.Summary && !bucket)
}

func labelsOf(f collector.Family, series string) []string {
	all := append(targetLabels(), f.Labels...)
	if strings.HasSuffix(series, "_bucket") {
		all = append(all, model.BucketLabel)
	}
	return all
}

// plainWords matches a regular expression that is a list of words.
var plainWords = regexp.MustCompile(`^[a-z0-9_|]+$`)

// checkValue says whether a matcher of a label with a closed set of values
// names values of that set.
func checkValue(series string, values []string, m *labels.Matcher) error {
	words := []string{m.Value}
	if m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp {
		if !plainWords.MatchString(m.Value) {
			return nil
		}
		words = strings.Split(m.Value, "|")
	}
	for _, w := range words {
		if w != "" && !slices.Contains(values, w) {
			return fmt.Errorf("label %s of %s is never %q", m.Name, series, w)
		}
	}
	return nil
}

// checkLabels says whether what e reads has the given labels. It knows nothing
// where e reads what rules record, or makes labels itself.
func (n *Names) checkLabels(e parser.Expr, wanted []string) error {
	known := []string{}
	for _, s := range selectors(e) {
		f, ok := n.find(s.Name)
		if !ok {
			return nil
		}
		known = append(known, labelsOf(f, s.Name)...)
	}
	if makesLabels(e) || len(known) == 0 {
		return nil
	}
	for _, l := range wanted {
		if !slices.Contains(known, l) {
			return fmt.Errorf("label %s is on nothing in %s", l, e)
		}
	}
	return nil
}

func makesLabels(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			found = found || n.Func.Name == "label_replace" || n.Func.Name == "label_join"
		case *parser.AggregateExpr:
			found = found || n.Op == parser.COUNT_VALUES
		}
		return nil
	})
	return found
}
