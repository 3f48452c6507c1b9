// Package query takes the PromQL of dashboards and rules apart: which metrics
// and labels it names, and what has to have data for it to give something.
package query

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// A test has minutes of data. Offsets longer than longestOffset compare with
// an earlier day or week, and subqueries with steps longer than longestStep look
// at days; they are shortened, which leaves the shape of the query, and its
// joins, as they are.
const (
	longestOffset = 10 * time.Minute
	shortOffset   = 30 * time.Second
	longestStep   = time.Minute
	shortStep     = 5 * time.Second
)

// Parse reads a PromQL expression.
func Parse(text string) (parser.Expr, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", text, err)
	}
	return e, nil
}

// Bare returns e without what would hide that it gives nothing (`or vector(0)`
// and the like), and with long offsets and steps shortened. It changes e.
func Bare(e parser.Expr) parser.Expr {
	return rewrite(e, func(e parser.Expr) parser.Expr {
		switch e := e.(type) {
		case *parser.VectorSelector:
			shorten(&e.OriginalOffset)
		case *parser.SubqueryExpr:
			shorten(&e.OriginalOffset)
			if e.Step > longestStep {
				e.Range = max(e.Range/(e.Step/shortStep), 2*shortStep)
				e.Step = shortStep
			}
		case *parser.BinaryExpr:
			if e.Op == parser.LOR && constant(e.RHS) {
				return e.LHS
			}
		}
		return e
	})
}

func shorten(offset *time.Duration) {
	if *offset > longestOffset {
		*offset = shortOffset
	}
}

// constant says that e is a vector that is there whatever was scraped.
func constant(e parser.Expr) bool {
	return len(parser.ExtractSelectors(e)) == 0 && e.Type() == parser.ValueTypeVector
}

// Branches returns the operands of every `or` in e, for a dead one does not
// show in the result. It leaves out operands that read the same metric, such as
// the two forms of a histogram, of which a Prometheus stores one.
func Branches(e parser.Expr) []parser.Expr {
	var all []parser.Expr
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.LOR && !sameMetric(b.LHS, b.RHS) {
			all = append(all, b.LHS, b.RHS)
		}
		return nil
	})
	return all
}

// sameMetric says that a and b read the same metrics, in whatever form.
func sameMetric(a, b parser.Expr) bool {
	names := func(e parser.Expr) map[string]bool {
		set := map[string]bool{}
		for _, s := range selectors(e) {
			set[family(s.Name)] = true
		}
		return set
	}
	first, second := names(a), names(b)
	for name := range first {
		if second[name] {
			return true
		}
	}
	return false
}

// selectors returns every selector in e.
func selectors(e parser.Node) []*parser.VectorSelector {
	var all []*parser.VectorSelector
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			all = append(all, s)
		}
		return nil
	})
	return all
}

// Reads returns the names of the series that e reads.
func Reads(e parser.Expr) []string {
	var names []string
	for _, s := range selectors(e) {
		names = append(names, s.Name)
	}
	return names
}
