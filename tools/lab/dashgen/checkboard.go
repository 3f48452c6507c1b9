package main

import (
	"errors"
	"fmt"
	"regexp"
)

// checkBoard returns every error that would leave part of a board empty.
func (c *checker) checkBoard(b Board) error {
	var all []error
	for _, r := range b.Rows {
		for _, p := range r.Panels {
			for _, err := range c.checkPanel(p) {
				all = append(all, fmt.Errorf("board %s, panel %q: %w", b.UID, p.Title, err))
			}
		}
	}
	for _, m := range b.Marks {
		left, err := c.labelsOf(m.Expr)
		if err == nil {
			err = left.require(named(m.Title+m.Text), "shows")
		}
		if err != nil {
			all = append(all, fmt.Errorf("board %s, mark %q: %w", b.UID, m.Name, err))
		}
	}
	for _, v := range b.Variables {
		if err := c.checkVariable(v); err != nil {
			all = append(all, fmt.Errorf("board %s, variable %q: %w", b.UID, v.Name, err))
		}
	}
	return errors.Join(all...)
}

// checkPanel returns what is wrong with a panel.
func (c *checker) checkPanel(p Panel) (wrong []error) {
	union := setOf()
	for _, q := range p.Queries {
		left, err := c.labelsOf(q.Expr)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if err := c.countersAreRates(q.Expr); err != nil {
			wrong = append(wrong, err)
		}
		for l := range left {
			union[l] = true
		}
		if p.Spark && len(left) > 0 {
			wrong = append(wrong, fmt.Errorf("query %s: the course of a figure is one series without labels", q.Expr))
		}
		shown := named(q.Legend)
		if !q.Limit {
			shown = append(shown, linked(p.Links, seriesField)...)
		}
		if err := left.require(shown, "shows"); err != nil {
			wrong = append(wrong, fmt.Errorf("query %s: %w", q.Expr, err))
		}
	}
	var shown []string
	for _, col := range p.Columns {
		if col.Label != "" {
			shown = append(shown, col.Label)
		}
		if col.Query >= len(p.Queries) {
			wrong = append(wrong, fmt.Errorf("column %q shows a query that is not there", col.Title))
		}
		shown = append(shown, linked(col.Links, rowField)...)
	}
	if title := nullsFirst(p); title != "" {
		wrong = append(wrong, fmt.Errorf("ascending by %q, rows for which its query has nothing come first", title))
	}
	if p.Matrix != nil {
		shown = append(shown, p.Matrix.Row, p.Matrix.Column)
	}
	if err := union.require(shown, "shows"); err != nil {
		wrong = append(wrong, err)
	}
	return wrong
}

// nullsFirst is the heading of a value by which a table of several queries is sorted
// in ascending order: Grafana takes what a query does not have for the lowest.
func nullsFirst(p Panel) string {
	for _, o := range p.Sort {
		for _, col := range p.Columns {
			if col.Title == o.Title && !o.Desc && col.Label == "" && len(p.Queries) > 1 {
				return o.Title
			}
		}
	}
	return ""
}

var (
	legendField = regexp.MustCompile(`\{\{(\w+)\}\}`)
	seriesField = regexp.MustCompile(`\$\{__field\.labels\.(\w+)\}`)
	rowField    = regexp.MustCompile(`\$\{__data\.fields\.(\w+)\}`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// named are the labels that a legend shows; le is that of a heatmap, which a
// native histogram does not have.
func named(legend string) (names []string) {
	for _, m := range legendField.FindAllStringSubmatch(legend, -1) {
		names = append(names, m[1])
	}
	return names
}

// linked are the labels that links carry on.
func linked(list []Link, field *regexp.Regexp) (names []string) {
	for _, l := range list {
		for _, m := range field.FindAllStringSubmatch(l.URL, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// checkVariable checks the query of a variable.
func (c *checker) checkVariable(v Variable) error {
	if v.Query == "" {
		return nil
	}
	m := labelValues.FindStringSubmatch(v.Query)
	if m == nil {
		return fmt.Errorf("cannot read the query %s", v.Query)
	}
	left, err := c.labelsOf(m[1])
	if err != nil {
		return err
	}
	return left.require(m[2:], "lists")
}
