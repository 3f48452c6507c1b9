package status

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// maxPoints is how many probes a chart shows.
const maxPoints = 480

// What a run came to, as Series.Runs writes it.
const (
	runGood   = '.'
	runLate   = 'o' // a success over an objective
	runFailed = 'x'
	runMissed = '-'
)

// runsOf returns the latest runs in the order of the results, those among them that
// did not start included: so many as intervals have passed without a result. Of the latest
// result, points are what led to it.
func (p *Probes) runsOf(points []series.Point) string {
	var latest []byte // the latest first
	for i := len(points) - 1; i >= 0 && len(latest) < rowOutcomes; i-- {
		latest = append(latest, runOf(&points[i]))
		for n := p.missedBefore(points, i); n > 0 && len(latest) < rowOutcomes; n-- {
			latest = append(latest, runMissed)
		}
	}
	slices.Reverse(latest)
	return string(latest)
}

// runOf returns what a probe came to.
func runOf(p *series.Point) byte {
	switch {
	case p.Outcome != result.Success:
		return runFailed
	case p.Late:
		return runLate
	}
	return runGood
}

// missedBefore returns how many runs did not start between a result and the one
// before it. Results from before the interval was changed have no such runs.
func (p *Probes) missedBefore(points []series.Point, i int) int {
	interval := p.options.Pace.Interval
	if i == 0 || interval <= 0 || points[i-1].At.Before(p.paced) {
		return 0
	}
	return max(0, int(math.Round(points[i].At.Sub(points[i-1].At).Seconds()/interval))-1)
}

// historyOf returns probes, kept since a time, as the page shows them.
func historyOf(points []series.Point, from time.Time) *History {
	n := len(points)
	h := &History{
		From: unixSeconds(from),
		At:   make([]float64, n), TTFT: make([]*float64, n), TPOT: make([]*float64, n),
		Outcome: make([]result.Outcome, n),
	}
	for i, p := range points {
		h.At[i], h.Outcome[i] = unixSeconds(p.At), p.Outcome
		h.TTFT[i], h.TPOT[i] = result.Seconds(p.TTFT), result.Seconds(p.TPOT)
	}
	return h
}

// outcomesOf returns how probes ended.
func outcomesOf(points []series.Point) []result.Outcome {
	all := make([]result.Outcome, len(points))
	for i := range points {
		all[i] = points[i].Outcome
	}
	return all
}

// unixSeconds returns t as a Unix time in seconds, exact to a millisecond.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// timeOf returns the time that unixSeconds made s of.
func timeOf(s float64) time.Time { return time.UnixMilli(int64(math.Round(s * 1e3))) }
