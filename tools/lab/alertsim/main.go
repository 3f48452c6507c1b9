// Command alertsim replays simulated probes through the paging alerts of this
// project and prints how often they page for nothing and how soon they page
// for an incident. The same seed gives the same tables.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// size is how much is simulated.
type size struct {
	days      int // of each steady state, for each endpoint
	steady    int // endpoints in each steady state
	incidents int // endpoints with each incident
	seed      uint64
	only      string // part of the names of the rows; "" is all
	alerts    string // part of the names of the alerts; "" is all
}

// rows leaves out what is not wanted.
func rows[T any](of size, all []T, name func(T) string) []T {
	return slices.DeleteFunc(all, func(row T) bool { return !strings.Contains(name(row), of.only) })
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var of size
	flag.IntVar(&of.days, "days", 30, "days of a steady state")
	flag.IntVar(&of.steady, "steady", 6, "endpoints in each steady state")
	flag.IntVar(&of.incidents, "incidents", 50, "endpoints with each incident")
	flag.Uint64Var(&of.seed, "seed", 1, "seed of all random numbers")
	flag.StringVar(&of.only, "only", "", "simulate only the rows whose names contain this text")
	flag.StringVar(&of.alerts, "alerts", "", "evaluate only the alerts whose names contain this text")
	details := flag.Bool("details", false, "list which alerts paged")
	flag.Parse()
	if err := run(ctx, os.Stdout, of, *details); err != nil {
		fmt.Fprintln(os.Stderr, "alertsim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, of size, details bool) error {
	byInterval := make([][]rule, len(intervals))
	for i, interval := range intervals {
		rules, err := rulesFor(interval)
		if err != nil {
			return err
		}
		byInterval[i] = paging(slices.DeleteFunc(rules, func(r rule) bool { return r.alert && !strings.Contains(r.name, of.alerts) }))
	}
	quiet := table{corner: "steady state: false pages per endpoint in 90 days (and in its first three)"}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, n := range rows(of, noises(), func(n noise) string { return n.name }) {
		quiet.rows = append(quiet.rows, n.name)
		cells := make([]cell, len(intervals))
		quiet.cells = append(quiet.cells, cells)
		for i, interval := range intervals {
			g.Go(func() error {
				length := time.Duration(of.days) * day
				pages, err := falsePages(ctx, byInterval[i], n, interval, length, of.steady, of.seed)
				cells[i] = falseCell(pages, length, of.steady)
				return err
			})
		}
	}
	loud := table{corner: "incident: minutes to the first page, median (90th percentile)"}
	for _, in := range rows(of, incidents(), func(in incident) string { return in.name }) {
		loud.rows = append(loud.rows, in.name)
		cells := make([]cell, len(intervals))
		loud.cells = append(loud.cells, cells)
		for i, interval := range intervals {
			g.Go(func() error {
				first, err := timesToPage(ctx, byInterval[i], in, interval, of.incidents, of.seed)
				cells[i] = pageCell(first, of.incidents)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, t := range []table{quiet, loud} {
		if err := t.write(w); err != nil {
			return err
		}
		if !details {
			continue
		}
		if err := t.writeDetails(w); err != nil {
			return err
		}
	}
	return nil
}

// cell is what came of one simulation: a line or two of a table.
type cell struct {
	text   string
	detail string
}

// learning is how long rules look back to know whether noise has a memory.
const learning = 3 * day

// falseCell shows how many pages an endpoint that is known for three days causes in 90
// days, how many it caused in those three, and which alerts they all were.
func falseCell(pages []page, length time.Duration, endpoints int) cell {
	byAlert := map[string]int{}
	early := 0
	for _, p := range pages {
		byAlert[p.alert]++
		if p.at < epoch+learning.Milliseconds() {
			early++
		}
	}
	text := "-" // too short a time to know
	if length > learning {
		days := (length - learning).Hours() / 24 * float64(endpoints)
		text = fmt.Sprintf("%.1f", float64(len(pages)-early)/days*90)
	}
	return cell{
		text:   fmt.Sprintf("%s (%.1f)", text, float64(early)/float64(endpoints)),
		detail: tally(byAlert),
	}
}

// pageCell shows the median and the 90th percentile of the time to the first
// page, in minutes, or the share of incidents with a page where it is less.
func pageCell(first []firstPage, endpoints int) cell {
	byAlert := map[string]int{}
	for _, f := range first {
		byAlert[f.alert]++
	}
	c := cell{detail: tally(byAlert)}
	median, ok := quantile(first, endpoints, 0.5)
	if !ok {
		c.text = fmt.Sprintf("%.0f %% paged", 100*float64(len(first))/float64(endpoints))
		return c
	}
	c.text = minutes(median)
	if most, ok := quantile(first, endpoints, 0.9); ok {
		c.text += " (" + minutes(most) + ")"
	} else {
		c.text += fmt.Sprintf(" (%.0f %% paged)", 100*float64(len(first))/float64(endpoints))
	}
	return c
}

// minutes gives a duration with a decimal where it is short.
func minutes(d time.Duration) string {
	if m := d.Minutes(); m < 10 {
		return fmt.Sprintf("%.1f", m)
	}
	return fmt.Sprintf("%.0f", math.Round(d.Minutes()))
}

// tally lists alerts with their numbers, the most frequent first.
func tally(byAlert map[string]int) string {
	names := slices.SortedFunc(maps.Keys(byAlert), func(a, b string) int {
		return cmp.Or(cmp.Compare(byAlert[b], byAlert[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, byAlert[name])
	}
	return strings.Join(names, ", ")
}

// table is a Markdown table with a row for each state or incident and a column
// for each probe interval.
type table struct {
	corner string
	rows   []string
	cells  [][]cell // by row and interval
}

func (t table) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", t.corner)
	for _, i := range intervals {
		fmt.Fprintf(&b, " %s |", shortDuration(i))
	}
	fmt.Fprintf(&b, "\n| --- |%s\n", strings.Repeat(" --- |", len(intervals)))
	for r, name := range t.rows {
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range t.cells[r] {
			fmt.Fprintf(&b, " %s |", c.text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeDetails lists which alerts made the figures of the table.
func (t table) writeDetails(w io.Writer) error {
	var b strings.Builder
	for r, name := range t.rows {
		for i, c := range t.cells[r] {
			if c.detail != "" {
				fmt.Fprintf(&b, "- %s, %s: %s\n", name, shortDuration(intervals[i]), c.detail)
			}
		}
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func shortDuration(d time.Duration) string {
	return fmt.Sprintf("%g s", d.Seconds())
}
