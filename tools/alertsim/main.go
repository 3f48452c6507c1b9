// Command alertsim replays simulated probes through the paging alerts of this
// project and prints how often they page for nothing and how soon they page
// for an incident. The same seed gives the same tables.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// size is how much is simulated.
type size struct {
	days      int // of each steady state, for each endpoint
	steady    int // endpoints in each steady state
	incidents int // endpoints with each incident
	seed      uint64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var of size
	flag.IntVar(&of.days, "days", 30, "days of a steady state")
	flag.IntVar(&of.steady, "steady", 6, "endpoints in each steady state")
	flag.IntVar(&of.incidents, "incidents", 50, "endpoints with each incident")
	flag.Uint64Var(&of.seed, "seed", 1, "seed of all random numbers")
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
		byInterval[i] = rules
	}
	quiet := table{corner: "steady state: false pages per endpoint in 30 days"}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, n := range noises() {
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
	for _, in := range incidents() {
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
