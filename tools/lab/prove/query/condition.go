package query

import "github.com/prometheus/prometheus/promql/parser"

// Condition returns what has to give something for the condition of an alert to
// be able to become true. While all is well an alert has no result, so that
// comparisons are made to answer 0 or 1 instead of to filter: what is then still
// empty misses a metric, a label or the partner of a join. The right side of an
// `unless` and the argument of an absent() are proven by themselves. It changes
// e.
func Condition(e parser.Expr) []parser.Expr {
	var apart []parser.Expr
	whole := rewrite(Bare(e), func(e parser.Expr) parser.Expr {
		switch e := e.(type) {
		case *parser.Call:
			if e.Func.Name == "absent" || e.Func.Name == "absent_over_time" {
				apart = append(apart, vector(e.Args[0]))
				return present()
			}
		case *parser.BinaryExpr:
			if e.Op.IsComparisonOperator() {
				e.ReturnBool = true
			}
			if e.Op == parser.LUNLESS {
				apart = append(apart, e.RHS)
				return e.LHS
			}
		}
		return e
	})
	return append(append([]parser.Expr{whole}, Branches(whole)...), apart...)
}

// vector makes of a range of samples a vector of those that have some.
func vector(e parser.Expr) parser.Expr {
	if e.Type() != parser.ValueTypeMatrix {
		return e
	}
	return &parser.Call{Func: parser.Functions["count_over_time"], Args: parser.Expressions{e}}
}

// present is a vector that is always there.
func present() parser.Expr {
	return &parser.Call{
		Func: parser.Functions["vector"],
		Args: parser.Expressions{&parser.NumberLiteral{Val: 1}},
	}
}

// rewrite replaces each part of e, from the inside out, by what f makes of it.
func rewrite(e parser.Expr, f func(parser.Expr) parser.Expr) parser.Expr {
	switch e := e.(type) {
	case *parser.AggregateExpr:
		e.Expr = rewrite(e.Expr, f)
		if e.Param != nil {
			e.Param = rewrite(e.Param, f)
		}
	case *parser.BinaryExpr:
		e.LHS, e.RHS = rewrite(e.LHS, f), rewrite(e.RHS, f)
	case *parser.Call:
		for i := range e.Args {
			e.Args[i] = rewrite(e.Args[i], f)
		}
	case *parser.MatrixSelector:
		e.VectorSelector = rewrite(e.VectorSelector, f)
	case *parser.ParenExpr:
		e.Expr = rewrite(e.Expr, f)
	case *parser.SubqueryExpr:
		e.Expr = rewrite(e.Expr, f)
	case *parser.UnaryExpr:
		e.Expr = rewrite(e.Expr, f)
	}
	return f(e)
}
