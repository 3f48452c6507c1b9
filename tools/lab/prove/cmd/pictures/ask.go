package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/board"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// panel is what a panel shows.
type panel struct {
	title, unit string
	lines       []line
	from, to    time.Time
}

// line is one series.
type line struct {
	legend string
	// target says that it is a line to stay below, and nothing that was measured.
	target bool
	points []stand.Point
}

// ask asks the queries of the panels of a picture.
func ask(ctx context.Context, c stand.Client, b *board.Board, p picture, length time.Duration) ([]panel, error) {
	to := time.Now().Truncate(step)
	from := to.Add(-length)
	var all []panel
	for _, title := range p.panels {
		one := panel{title: title, from: from, to: to}
		for _, q := range b.Queries {
			if q.Panel != title {
				continue
			}
			one.unit = q.Unit
			expr, err := board.Window{Step: step, Range: length, Rate: rate}.Fill(q.Expr, p.values)
			if err != nil {
				return nil, fmt.Errorf("panel %s: %w", title, err)
			}
			series, err := c.Range(ctx, expr, from, to, step)
			if err != nil {
				return nil, fmt.Errorf("panel %s: %w", title, err)
			}
			one.add(q.Legend, series)
		}
		if len(one.lines) == 0 {
			return nil, fmt.Errorf("panel %s shows nothing", title)
		}
		all = append(all, one)
	}
	return all, nil
}

// add adds the lines of a query, in the order of their names. It leaves out what
// is 0 all the time where the panel counts events, and a target that is there
// already.
func (p *panel) add(legend string, series []stand.Series) {
	var lines []line
	for _, s := range series {
		if p.unit == "cpm" && !slices.ContainsFunc(s.Points, func(q stand.Point) bool { return q.Value > 0 }) {
			continue
		}
		l := line{legend: strings.TrimSpace(fill(legend, s.Labels)), points: s.Points}
		name, _, _ := strings.Cut(legend, " {{")
		if slices.Contains(targets(), name) {
			l.target, l.legend = true, name
			if slices.ContainsFunc(lines, func(other line) bool { return other.legend == name }) {
				continue
			}
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.legend, b.legend) })
	p.lines = append(p.lines, lines...)
}

// targets returns the legends of lines that nothing measured.
func targets() []string {
	return []string{"objective"}
}

var label = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// fill replaces {{label}} in a legend.
func fill(legend string, labels map[string]string) string {
	return label.ReplaceAllStringFunc(legend, func(found string) string {
		return labels[label.FindStringSubmatch(found)[1]]
	})
}
