package users

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// The ways in which it is known that a request failed. One may be counted in several of them.
const (
	ended    = iota // with an error
	status          // with an HTTP status of the server's errors
	rejected        // at admission
	perhaps         // by the service, or for a mistake of the client
	numFailures
)

type failures [numFailures]float64

// counted is what a server counted between two readings of its page.
type counted struct {
	good     float64 // requests
	failures failures
	ends     bool // it is known which requests failed
	prompts  float64
	latency  [series.NumObjectives]*page.Histogram // nil is not known
}

// quantityOf returns the histogram of an objective; "" is none.
func quantityOf(o series.Objective) config.Quantity {
	return [series.NumObjectives]config.Quantity{
		series.TTFT: config.TTFT, series.TPOT: config.TPOT, series.E2E: config.RequestDuration,
	}[o]
}

// between returns what a server counted from one page to a later one: after a restart, all that the later one shows.
// Where it is unclear whether it was restarted, and where a histogram has other bounds, it is nothing.
func between(before, now *page.Snapshot) (c counted) {
	same := !before.Started.IsZero() && now.Started.Equal(before.Started)
	switch {
	case now.Engine != before.Engine:
		return c
	case same, before.Started.IsZero(), now.Started.IsZero():
	case !now.Fell(before):
		return c
	default:
		before = new(page.Snapshot)
	}
	c.add(before, now, same)
	return c
}

// add adds what was counted from one page to another. Of a quantity that fell, all of it is new, unless the page says
// that it is still the same process.
func (c *counted) add(before, now *page.Snapshot, same bool) {
	grown := func(before, now float64) float64 {
		switch {
		case now >= before:
			return now - before
		case same:
			return 0
		}
		return now
	}
	finished := func(finish string) float64 { return grown(before.Requests[finish], now.Requests[finish]) }
	for _, finish := range []string{config.FinishStop, config.FinishLength, config.FinishSuccess} {
		_, shown := now.Requests[finish]
		c.good, c.ends = c.good+finished(finish), c.ends || shown
	}
	_, vague := now.Requests[config.FinishUnknown]
	_, failed := now.Requests[config.FinishError]
	c.ends = c.ends || failed && !vague
	c.failures = failures{
		ended:    grown(before.Errors.Certain, now.Errors.Certain),
		status:   grown(before.Errors.Again, now.Errors.Again),
		perhaps:  grown(before.Errors.Maybe, now.Errors.Maybe),
		rejected: grown(before.Values[config.Rejections], now.Values[config.Rejections]),
	}
	c.prompts = grown(before.Values[config.PromptTokens], now.Values[config.PromptTokens])
	for o := range series.NumObjectives {
		if h := now.Histograms[quantityOf(o)]; h != nil && len(h.Bounds) > 0 {
			c.latency[o] = growth(before.Histograms[quantityOf(o)], h, same)
		}
	}
}

// growth returns what a histogram counted since before; nil where that is not known.
func growth(before, now *page.Histogram, same bool) *page.Histogram {
	if before == nil {
		return now
	}
	if !slices.Equal(before.Bounds, now.Bounds) {
		return nil
	}
	d := &page.Histogram{Bounds: now.Bounds, Counts: make([]uint64, len(now.Counts))}
	fell := now.Count < before.Count
	for i := range now.Counts {
		fell = fell || now.Counts[i] < before.Counts[i]
		d.Counts[i] = now.Counts[i] - before.Counts[i]
	}
	switch {
	case fell && same:
		return nil
	case fell:
		return now
	}
	d.Count = now.Count - before.Count
	return d
}

func (c *counted) count(o series.Objective, limit time.Duration) Count {
	if o == series.Availability {
		return c.available()
	}
	if h := c.latency[o]; h != nil && limit > 0 {
		return Over(h, limit.Seconds())
	}
	return Count{}
}

// available counts requests by whether they failed. As a request may be counted as several failures, so many failed for
// certain as the largest of the counts says.
func (c *counted) available() Count {
	if !c.ends {
		return Count{}
	}
	f := &c.failures
	possible := uint64(math.Round(f[ended] + f[status] + f[rejected] + f[perhaps]))
	bad := uint64(math.Round(max(f[ended], f[status], f[rejected])))
	return Count{Eligible: uint64(math.Round(c.good)) + possible, Bad: min(bad, possible), Possible: possible}
}

// Over counts the requests of a histogram by whether they took longer than a limit in seconds.
func Over(h *page.Histogram, limit float64) Count {
	i := slices.IndexFunc(h.Bounds, func(bound float64) bool { return bound > limit || isBound(bound, limit) })
	above := func(i int) uint64 { return h.Count - min(h.Count, h.Counts[i]) }
	c := Count{Eligible: h.Count, Possible: h.Count}
	switch {
	case i < 0:
		c.Possible = above(len(h.Bounds) - 1)
		return c
	case isBound(h.Bounds[i], limit):
		c.Bad, c.Possible = above(i), above(i)
		return c
	case i > 0:
		c.Possible = above(i - 1)
	}
	c.Bad = min(above(i), c.Possible)
	return c
}

// isBound reports whether a bound is the limit but for how it is written or scaled.
func isBound(bound, limit float64) bool { return math.Abs(bound-limit) <= 1e-9*limit }
