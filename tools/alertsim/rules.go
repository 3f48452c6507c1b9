package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// defaultGroupInterval is Prometheus' evaluation_interval in the simulation,
// for groups that set none of their own.
const defaultGroupInterval = 30 * time.Second

// rule is a recording or an alerting rule as it stands in a rule file.
type rule struct {
	name       string
	alert      bool
	expr       string
	labels     labels.Labels
	hold, keep time.Duration
	group      int           // rules of one group are evaluated at the same times
	interval   time.Duration // of the group
	selects    []string      // the metrics that the expression names
}

// parseRules reads rule files in the order in which they are evaluated.
func parseRules(files ...[]byte) ([]rule, error) {
	var rules []rule
	group := 0
	p := parser.NewParser(parser.Options{})
	for _, file := range files {
		parsed, errs := rulefmt.Parse(file, false, model.UTF8Validation, p, slog.New(slog.DiscardHandler))
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("parse rules: %w", err)
		}
		for _, g := range parsed.Groups {
			group++
			for _, r := range g.Rules {
				read, err := newRule(p, r)
				if err != nil {
					return nil, err
				}
				read.group = group
				read.interval = defaultGroupInterval
				if g.Interval > 0 {
					read.interval = time.Duration(g.Interval)
				}
				rules = append(rules, read)
			}
		}
	}
	return rules, nil
}

func newRule(p parser.Parser, r rulefmt.Rule) (rule, error) {
	read := rule{
		name:   r.Record,
		expr:   r.Expr,
		labels: labels.FromMap(r.Labels),
		hold:   time.Duration(r.For),
		keep:   time.Duration(r.KeepFiringFor),
	}
	if r.Alert != "" {
		read.name, read.alert = r.Alert, true
	}
	expr, err := p.ParseExpr(r.Expr)
	if err != nil {
		return rule{}, fmt.Errorf("parse rule %s: %w", read.name, err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			read.selects = append(read.selects, s.Name)
		}
		return nil
	})
	return read, nil
}

// paging returns the alerts that page, with the recording rules that they need,
// in the order of evaluation. Alerts about what is not simulated, such as GPUs,
// find no series and stay silent.
func paging(rules []rule) []rule {
	needed := map[string]bool{}
	var chosen []rule
	// Backwards: a rule stands after those that it needs.
	for _, r := range slices.Backward(rules) {
		if r.alert && r.labels.Get("severity") != "critical" || !r.alert && !needed[r.name] {
			continue
		}
		for _, name := range r.selects {
			needed[name] = true
		}
		chosen = append(chosen, r)
	}
	slices.Reverse(chosen)
	return chosen
}
