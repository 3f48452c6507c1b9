package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

const (
	// epoch is when every simulation begins, milliseconds: a Monday at 00:00.
	epoch = 1_767_571_200_000
	day   = 24 * time.Hour
	// span is how much is evaluated at once.
	span = 6 * time.Hour
)

// random returns a source of its own for a part of the simulation, so that
// parts give the same in whatever order they run.
func random(seed uint64, part ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, part...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// falsePages simulates endpoints in a steady state for a time and returns the
// pages.
func falsePages(ctx context.Context, rules []rule, n noise, interval, length time.Duration, endpoints int, seed uint64) ([]page, error) {
	var pages []page
	// One endpoint at a time keeps the memory small.
	for i := range endpoints {
		r := random(seed, n.name, interval, i)
		s := newStore()
		to := epoch + length.Milliseconds()
		of := endpoint{name: strconv.Itoa(i), interval: interval, pauses: n.pauses(epoch, to), questions: n.wrong > 0}
		addEndpoint(s, of, r, epoch, to, func(int64) behavior { return n.behavior })
		e := newEvaluator(newEngine(), s, rules, r.Int64N)
		for from := int64(epoch); from < to; from += span.Milliseconds() {
			found, err := e.advance(ctx, from, min(to, from+span.Milliseconds()))
			if err != nil {
				return nil, err
			}
			pages = append(pages, found...)
		}
	}
	sortPages(pages)
	return pages, nil
}

// endpoint is a simulated endpoint and how it is probed.
type endpoint struct {
	name     string
	interval time.Duration // of the probes
	pauses   []pause       // of the exporter
	// questions says that probes ask questions with known answers.
	questions bool
}

// addEndpoint simulates an endpoint from a time to another, and puts what a
// Prometheus would have of it into the store. Its probes and scrapes have
// phases of their own.
func addEndpoint(s *store, e endpoint, r *rand.Rand, from, to int64, behaviorAt func(start int64) behavior) {
	phase, scrapePhase := r.Int64N(e.interval.Milliseconds()), r.Int64N(scrapeInterval.Milliseconds())
	results := schedule(&target{random: r, interval: e.interval}, from, to, phase, behaviorAt)
	scrape(s, e, results, from+scrapePhase, to)
}

func sortPages(pages []page) {
	slices.SortFunc(pages, func(a, b page) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.endpoint, b.endpoint), cmp.Compare(a.alert, b.alert))
	})
}

const (
	// calm is how long an endpoint is well before an incident: the windows of
	// all paging alerts fit into it.
	calm = 6 * time.Hour
	// patience is how long an incident is watched.
	patience = 24 * time.Hour
	// spread is the time within which incidents begin, each at another moment
	// of the evaluations.
	spread = 5 * time.Minute
)

// timesToPage simulates an incident at endpoints and returns for each how long
// it took until the first page, and by which alert. An endpoint without a page
// within patience is absent; pages from before the incident do not count, and
// an alert that fires already does not count again.
func timesToPage(ctx context.Context, rules []rule, in incident, interval time.Duration, endpoints int, seed uint64) ([]firstPage, error) {
	s := newStore()
	onsets := map[string]int64{}
	from := int64(epoch)
	to := from + (calm + patience).Milliseconds()
	for i := range endpoints {
		r := random(seed, in.name, interval, i)
		onset := from + calm.Milliseconds() + r.Int64N(spread.Milliseconds())
		name := strconv.Itoa(i)
		onsets[name] = onset
		addEndpoint(s, endpoint{name: name, interval: interval, pauses: in.pauses(onset, to), questions: in.before.wrong > 0}, r, from, to, func(start int64) behavior {
			if start < onset {
				return in.before
			}
			return in.after
		})
	}
	e := newEvaluator(newEngine(), s, rules, random(seed, in.name, interval).Int64N)
	first := map[string]firstPage{}
	for at := from; at < to && len(first) < endpoints; {
		end := min(to, at+time.Hour.Milliseconds())
		pages, err := e.advance(ctx, at, end)
		if err != nil {
			return nil, err
		}
		at = end
		sortPages(pages)
		for _, p := range pages {
			if _, ok := first[p.endpoint]; !ok && p.at >= onsets[p.endpoint] {
				first[p.endpoint] = firstPage{time.Duration(p.at-onsets[p.endpoint]) * time.Millisecond, p.alert}
			}
		}
	}
	return sortedFirst(first), nil
}

// firstPage is the first page of an incident.
type firstPage struct {
	after time.Duration
	alert string
}

func sortedFirst(first map[string]firstPage) []firstPage {
	return slices.SortedFunc(maps.Values(first), func(a, b firstPage) int {
		return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(a.alert, b.alert))
	})
}

// quantile returns the q-th smallest part of n times, of which those that are
// not listed never came. It reports whether it did.
func quantile(sorted []firstPage, n int, q float64) (time.Duration, bool) {
	i := int(q * float64(n-1))
	if i >= len(sorted) {
		return 0, false
	}
	return sorted[i].after, true
}

// The rules of the exporter's scheduler for confirmations, see package
// schedule.
const (
	maxConfirmDelay = 5 * time.Second
	minConfirmGap   = time.Second
	maxConfirms     = 2
)

// result is a probe that ended.
type result struct {
	start, end int64 // milliseconds
	verdict    verdict
	confirm    bool // an early repetition after a failure
}

// schedule returns the results of the probes of one endpoint that start in
// [from, to), milliseconds, in the order in which they end. Probes start at
// phase, phase+interval and so on; one that is due while another runs is left
// out, a first failure is confirmed soon, and a second timeout in a row is
// followed by a pause. behaviorAt returns how the endpoint answers a probe that
// starts at a time.
func schedule(t *target, from, to, phase int64, behaviorAt func(start int64) behavior) []result {
	step := t.interval.Milliseconds()
	var results []result
	failed, timeouts, pauseEnd := false, 0, int64(0)
	for due := from + phase; due < to; due += step {
		if due < pauseEnd {
			continue
		}
		run := result{start: due, verdict: t.probe(behaviorAt(due), due)}
		run.end = due + run.verdict.duration.Milliseconds()
		results = append(results, run)
		for due+step < run.end {
			due += step // an overrun
		}
		if run.verdict.outcome == outcomeTimeoutFirstToken {
			timeouts++
		} else {
			timeouts = 0
		}
		if timeouts > 1 {
			pauseEnd = run.end + min(run.end-run.start, 2*step)
		}
		if !run.verdict.failed() {
			failed = false
			continue
		}
		if failed {
			continue // known to be down
		}
		var confirms []result
		confirms, failed = confirm(t, run, due+step, behaviorAt)
		results = append(results, confirms...)
	}
	return results
}

// confirm repeats a probe that failed, while there is room before the next one for
// a run as long as the one before, until it succeeds. It returns whether the last
// repetition failed.
func confirm(t *target, last result, next int64, behaviorAt func(start int64) behavior) ([]result, bool) {
	var results []result
	delay := min(maxConfirmDelay, t.interval/3).Milliseconds()
	for range maxConfirms {
		start := last.end + delay
		if next-start-(last.end-last.start) <= minConfirmGap.Milliseconds() {
			break
		}
		run := result{start: start, verdict: t.probe(behaviorAt(start), start), confirm: true}
		run.end = start + run.verdict.duration.Milliseconds()
		if run.end > next {
			// The next probe does not wait for it.
			run.verdict = verdict{outcome: outcomeCanceled}
			run.end = next
			return append(results, run), true
		}
		results = append(results, run)
		last = run
		if !run.verdict.failed() {
			return results, false
		}
	}
	return results, true
}
