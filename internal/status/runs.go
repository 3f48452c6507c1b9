package status

import (
	"math"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// What a run came to, as Series.Runs writes it.
const (
	runGood   = '.'
	runLate   = 'o' // a success over an objective
	runFailed = 'x'
	runMissed = '-'
)

// runs returns the latest runs in the order of the results, those among them that
// did not start included: so many as intervals have passed without a result.
func (p *Probes) runs() string {
	var latest []byte // the latest first
	h := &p.history
	for i := len(h.at) - 1; i >= 0 && len(latest) < rowOutcomes; i-- {
		latest = append(latest, p.run(h.index(i)))
		for n := p.missedBefore(i); n > 0 && len(latest) < rowOutcomes; n-- {
			latest = append(latest, runMissed)
		}
	}
	slices.Reverse(latest)
	return string(latest)
}

// run returns what the probe at a place of the history came to.
func (p *Probes) run(place int) byte {
	h := &p.history
	switch {
	case result.Outcomes()[h.ended[place]] != result.Success:
		return runFailed
	case p.isLate(place):
		return runLate
	}
	return runGood
}

// isLate reports whether a success was over an objective. The history has no
// durations: those of the probes that are kept count.
func (p *Probes) isLate(place int) bool {
	slo, h := p.options.SLO, &p.history
	if slo == nil {
		return false
	}
	over := func(limit *float64, us uint32) bool {
		return limit != nil && us != notMeasured && float64(us)/1e6 > *limit
	}
	if over(slo.TTFT, h.ttft[place]) || over(slo.TPOT, h.tpot[place]) {
		return true
	}
	return slo.E2E != nil && slices.ContainsFunc(p.kept, func(k *keptProbe) bool {
		return tenths(ofNanoseconds(k.start))-h.began == int64(h.at[place]) && k.timed && k.timing.Duration.Seconds() > *slo.E2E
	})
}

// missedBefore returns how many runs did not start between a result and the one
// before it. Results from before the interval was changed have no such runs.
func (p *Probes) missedBefore(i int) int {
	h := &p.history
	if i == 0 || p.options.Pace.Interval <= 0 {
		return 0
	}
	before, at := h.at[h.index(i-1)], h.at[h.index(i)]
	if h.began+int64(before) < p.paced {
		return 0
	}
	return max(0, int(math.Round(float64(at-before)/10/p.options.Pace.Interval))-1)
}
