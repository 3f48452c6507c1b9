package main

import (
	"fmt"
	"maps"

	"github.com/prometheus/prometheus/promql/parser"
)

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
	if e.Func.Name == "histogram_quantile" {
		delete(left, "le")
	}
	return left, nil
}

// walkAggregate returns the labels that an aggregation keeps.
func (c *checker) walkAggregate(e *parser.AggregateExpr) (labelSet, error) {
	inner, err := c.walk(e.Expr)
	if err != nil {
		return nil, err
	}
	if e.Without {
		return nil, fmt.Errorf("%s without: say by which labels", e.Op)
	}
	if err := inner.require(e.Grouping, "groups by"); err != nil {
		return nil, err
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
