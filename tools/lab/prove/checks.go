// Package prove holds the proof that every query of the dashboards and every
// rule gives data when a real Prometheus scrapes the real exporter.
package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/board"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/query"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// check is something that has to have data.
type check struct {
	// name is what a report calls it.
	name string
	// alternatives are forms of it, one of which must have data: each of its
	// expressions.
	alternatives [][]parser.Expr
	// overTime says that it is asked for a range of time.
	overTime bool
	// rule says that it comes from a rule, and not from a dashboard.
	rule bool
}

// window is what the dashboards of the proof show. A rate is taken over what
// even an endpoint that fails often has probes in.
func window() board.Window {
	return board.Window{Step: 2 * time.Second, Range: time.Minute, Rate: 30 * time.Second}
}

// ruleChecks returns a check for each rule: a recording rule must have a result as
// it is, and an alert's condition must be able to have one.
func ruleChecks(rules []rule, names *query.Names) ([]*check, error) {
	var all []*check
	var problems []error
	for _, r := range rules {
		e, err := query.Parse(r.Expr)
		if err == nil {
			err = names.Check(e)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", r.name(), err))
			continue
		}
		c := &check{name: r.name(), rule: true}
		if r.Alert != "" {
			c.alternatives = [][]parser.Expr{query.Condition(e)}
		} else {
			c.alternatives = [][]parser.Expr{withBranches(e)}
		}
		all = append(all, c)
	}
	return all, errors.Join(problems...)
}

// withBranches returns what has to have data for e to be right.
func withBranches(e parser.Expr) []parser.Expr {
	e = query.Bare(e)
	return append([]parser.Expr{e}, query.Branches(e)...)
}

// boardChecks returns two checks for each query of a dashboard: with all values
// of its variables, and with one of each. Not every endpoint has everything, so
// that one of them will do.
func boardChecks(ctx context.Context, c stand.Client, b *board.Board, names *query.Names) ([]*check, error) {
	can, err := choose(ctx, c, b, names)
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", b.UID, err)
	}
	var checks []*check
	var problems []error
	for _, q := range b.Queries {
		all, err := forms(q, can.all, names)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", queryName(b, q), err))
			continue
		}
		one, err := forms(q, can.one, names)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", queryName(b, q), err))
			continue
		}
		if q.Annotation {
			continue // nothing to mark is fine: what it names is all that can be wrong
		}
		checks = append(
			checks,
			&check{name: queryName(b, q), overTime: q.Range, alternatives: all},
			&check{name: queryName(b, q) + oneChosen, overTime: q.Range, alternatives: one},
		)
	}
	return checks, errors.Join(problems...)
}

// forms returns what a query asks for under each choice.
func forms(q board.Query, choices []map[string]string, names *query.Names) ([][]parser.Expr, error) {
	all := make([][]parser.Expr, len(choices))
	for i, values := range choices {
		e, err := parse(q.Expr, values, names)
		if err != nil {
			return nil, err
		}
		all[i] = withBranches(e)
	}
	return all, nil
}

// oneChosen marks the check of a query with one value of each variable.
const oneChosen = " (one)"

// queryName returns what a report calls a query.
func queryName(b *board.Board, q board.Query) string {
	return fmt.Sprintf("%s: %s: %s", b.UID, q.Panel, q.Ref)
}

// parse fills in variables, reads the query, and looks the names in it up.
func parse(text string, values map[string]string, names *query.Names) (parser.Expr, error) {
	filled, err := window().Fill(text, values)
	if err != nil {
		return nil, err
	}
	e, err := query.Parse(filled)
	if err != nil {
		return nil, err
	}
	return e, names.Check(e)
}
