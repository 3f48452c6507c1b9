// Command alertsim judges simulated probes by the exporter's own code, and prints how often
// an endpoint pages for nothing and how soon it pages for an incident. The same seed gives the
// same tables.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/inference-exporter/inference_exporter/internal/health"
)

// size is how much is simulated.
type size struct {
	days      int // of each steady state, for each endpoint
	steady    int // endpoints in each steady state
	incidents int // endpoints with each incident
	seed      uint64
	only      string // part of the names of the rows; "" is all
}

func main() {
	var of size
	flag.IntVar(&of.days, "days", 90, "days of a steady state")
	flag.IntVar(&of.steady, "steady", 20, "endpoints in each steady state")
	flag.IntVar(&of.incidents, "incidents", 201, "endpoints with each incident")
	flag.Uint64Var(&of.seed, "seed", 1, "seed of all random numbers")
	flag.StringVar(&of.only, "only", "", "simulate only the rows whose names contain this text")
	details := flag.Bool("details", false, "list which kinds of incident paged")
	flag.Parse()
	if err := run(os.Stdout, of, *details); err != nil {
		fmt.Fprintln(os.Stderr, "alertsim:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, of size, details bool) error {
	quiet := table{corner: "steady state: false pages of an endpoint in 90 days (in its first three)"}
	loud := table{corner: "incident: minutes to the first page, median (90th percentile)"}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range states() {
		if !strings.Contains(s.name, of.only) {
			continue
		}
		quiet.add(&g, s.name, func(interval time.Duration) cell {
			length := time.Duration(of.days) * day
			return falseCell(falsePages(s, interval, length, of.steady, of.seed), length, of.steady)
		})
	}
	for _, in := range incidents() {
		if !strings.Contains(in.name, of.only) {
			continue
		}
		loud.add(&g, in.name, func(interval time.Duration) cell {
			return pageCell(firstPages(in, interval, of.incidents, of.seed), of.incidents)
		})
	}
	for _, s := range usersStates() {
		if strings.Contains(s.name, of.only) {
			quiet.add(&g, s.name, func(interval time.Duration) cell {
				length := time.Duration(of.days) * day
				return falseCell(falseUsers(s, interval, length, of.steady, of.seed), length, of.steady)
			})
		}
	}
	for _, in := range usersIncidents() {
		if strings.Contains(in.name, of.only) {
			loud.add(&g, in.name, func(interval time.Duration) cell {
				return pageCell(firstUsers(in, interval, of.incidents, of.seed), of.incidents)
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, t := range []table{quiet, loud} {
		if err := t.write(w, details); err != nil {
			return err
		}
	}
	return nil
}

// begin is when every simulation begins: a Monday.
func begin() time.Time { return time.Unix(1_767_571_200, 0) }

// random returns a source of its own for a part of the simulation, so that parts give the same
// in whatever order they run.
func random(seed uint64, part ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, part...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// newcomer returns an endpoint that is probed from a time near the beginning on.
func newcomer(r *rand.Rand, interval time.Duration) (e *endpoint, first time.Time) {
	first = begin().Add(time.Duration(r.Int64N(int64(interval))))
	return newEndpoint(interval, begin(), begin().Add(time.Duration(r.Int64N(int64(scrapeInterval))))), first
}

// falsePages simulates endpoints in a steady state for a time, and returns all pages.
func falsePages(s state, interval, length time.Duration, endpoints int, seed uint64) (pages []page) {
	for i := range endpoints {
		r := random(seed, s.name, interval, i)
		e, first := newcomer(r, interval)
		restart := begin().Add(day / 2)
		newSource(r, func(time.Time) behavior { return s.behavior }).schedule(interval, first, begin().Add(length), func(p *probe) bool {
			if s.restarts && p.start.After(restart) {
				e.restart()
				restart = restart.Add(day)
			}
			e.observe(p)
			return true
		})
		pages = append(pages, e.pages...)
	}
	return pages
}

const (
	// calm is how long an endpoint is well before an incident, and patience how long an
	// incident is watched.
	calm, patience = 6 * time.Hour, 8 * time.Hour
	// spread is the time within which incidents begin, each at another moment of the probes.
	spread = 4 * time.Minute
)

// firstPage is the first page of an incident.
type firstPage struct {
	after time.Duration
	kind  health.Kind
}

// firstPages simulates an incident at endpoints and returns how long it took until each
// paged, the quickest first. One without a page within patience is absent; one that pages
// already before does not count again.
func firstPages(in incident, interval time.Duration, endpoints int, seed uint64) (all []firstPage) {
	for i := range endpoints {
		r := random(seed, in.name, interval, i)
		e, first := newcomer(r, interval)
		onset := begin().Add(calm + time.Duration(r.Int64N(int64(spread))))
		newSource(r, func(at time.Time) behavior {
			if at.Before(onset) {
				return in.before
			}
			return in.after(at.Sub(onset))
		}).schedule(interval, first, onset.Add(patience), func(p *probe) bool {
			e.observe(p)
			return len(e.pages) == 0 || e.pages[len(e.pages)-1].at.Before(onset)
		})
		if n := len(e.pages); n > 0 && e.pages[n-1].at.After(onset) {
			all = append(all, firstPage{e.pages[n-1].at.Sub(onset), e.pages[n-1].kind})
		}
	}
	return sortPages(all)
}

func sortPages(all []firstPage) []firstPage {
	slices.SortFunc(all, func(a, b firstPage) int { return cmp.Compare(a.after, b.after) })
	return all
}

// quantile returns the q-th smallest part of n times, of which those that are not listed
// never came. It reports whether it did.
func quantile(sorted []firstPage, n int, q float64) (time.Duration, bool) {
	i := int(q * float64(n-1))
	if i >= len(sorted) {
		return 0, false
	}
	return sorted[i].after, true
}

// cell is what came of one simulation.
type cell struct{ text, detail string }

// early is how long an endpoint is a new one.
const early = 3 * day

// falseCell shows how many pages an endpoint causes in 90 days, how many of them in its
// first three, and which they all were.
func falseCell(pages []page, length time.Duration, endpoints int) cell {
	kinds := map[health.Kind]int{}
	young := 0
	for _, p := range pages {
		kinds[p.kind]++
		if p.at.Before(begin().Add(early)) {
			young++
		}
	}
	n := float64(endpoints)
	return cell{fmt.Sprintf("%.2f (%.2f)", float64(len(pages))/n*(90*day).Hours()/length.Hours(), float64(young)/n), tally(kinds)}
}

// pageCell shows the median and the 90th percentile of the time to the first page, or the share
// of incidents with a page where it is less.
func pageCell(first []firstPage, endpoints int) cell {
	kinds := map[health.Kind]int{}
	for _, f := range first {
		kinds[f.kind]++
	}
	share := fmt.Sprintf("%.3g %% page", 100*float64(len(first))/float64(endpoints))
	median, ok := quantile(first, endpoints, 0.5)
	if !ok {
		return cell{share, tally(kinds)}
	}
	text := share
	if most, ok := quantile(first, endpoints, 0.9); ok {
		text = minutes(most)
	}
	return cell{minutes(median) + " (" + text + ")", tally(kinds)}
}

// minutes gives a duration with a decimal where it is short.
func minutes(d time.Duration) string {
	if m := d.Minutes(); m < 10 {
		return fmt.Sprintf("%.1f", m)
	}
	return fmt.Sprintf("%.0f", d.Minutes())
}

// tally lists kinds with their numbers, the most frequent first.
func tally(kinds map[health.Kind]int) string {
	all := slices.SortedFunc(maps.Keys(kinds), func(a, b health.Kind) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b))
	})
	texts := make([]string, len(all))
	for i, kind := range all {
		texts[i] = fmt.Sprintf("%s %d", kind, kinds[kind])
	}
	return strings.Join(texts, ", ")
}

// table is a Markdown table with a row for each state or incident and a column for each
// interval between probes.
type table struct {
	corner string
	rows   []string
	cells  [][]cell // by row and interval
}

// add adds a row, whose cells a group computes.
func (t *table) add(g *errgroup.Group, name string, of func(interval time.Duration) cell) {
	cells := make([]cell, len(intervals()))
	t.rows, t.cells = append(t.rows, name), append(t.cells, cells)
	for i, interval := range intervals() {
		g.Go(func() error {
			cells[i] = of(interval)
			return nil
		})
	}
}

// write writes the table, and which kinds of incident made its figures.
func (t *table) write(w io.Writer, details bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", t.corner)
	for _, i := range intervals() {
		fmt.Fprintf(&b, " %s |", shortDuration(i))
	}
	fmt.Fprintf(&b, "\n| --- |%s\n", strings.Repeat(" --- |", len(intervals())))
	for r, name := range t.rows {
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range t.cells[r] {
			fmt.Fprintf(&b, " %s |", c.text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for r, name := range t.rows {
		for i, c := range t.cells[r] {
			if details && c.detail != "" {
				fmt.Fprintf(&b, "- %s, %s: %s\n", name, shortDuration(intervals()[i]), c.detail)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shortDuration is as in "15 s" and "5 min".
func shortDuration(d time.Duration) string {
	if d > time.Minute {
		return fmt.Sprintf("%g min", d.Minutes())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}
