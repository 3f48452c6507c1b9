package status

import (
	"math/bits"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// paceAnswers is how many of the latest answers tell whether a series is slow,
	// and slowAnswers how many of them must be over an objective: one slow answer is
	// noise, and a change shows after three.
	paceAnswers = 5
	slowAnswers = 3
)

// slowness tells of the latest answers which were over an objective: a bit for each,
// the latest one the lowest.
type slowness uint8

// add takes in a successful result.
func (s *slowness) add(slo *SLO, r *result.Result) {
	*s <<= 1
	if overObjective(slo, &r.Timing) {
		*s |= 1
	}
}

func (s slowness) isSlow() bool { return bits.OnesCount8(uint8(s)&(1<<paceAnswers-1)) >= slowAnswers }

// overObjective tells whether an answer took longer than is promised.
func overObjective(slo *SLO, t *result.Timing) bool {
	if slo == nil {
		return false
	}
	over := func(limit *float64, d time.Duration) bool { return limit != nil && d.Seconds() > *limit }
	return over(slo.TTFT, t.TTFT) || over(slo.TPOT, t.TPOT) || over(slo.E2E, t.Duration)
}

// slow names the series whose answers are over an objective.
func (e *endpoint) slow() []string {
	var names []string
	for _, p := range e.series {
		if len(names) < maxFailing && p.tells() && !p.failed() && p.slowness.isSlow() && (e.state == Stale || !p.isOld(e.judged.now)) {
			names = append(names, p.title)
		}
	}
	return names
}
