package estimate

import "math"

const (
	// minFailuresPart is how many probes are needed on each side of a step of failures,
	// and minFailuresStep the least one, as a share.
	minFailuresPart, minFailuresStep = 20, 0.05
)

// failureLevels is what is known of failures since their latest step.
type failureLevels struct {
	n, kept int // how many of the kept probes are since then, and how many of those failed
	// failed is how many of the probes failed that are no longer kept, and weight how
	// many there were; both are scaled down together.
	failed, weight float64
}

// age takes in a probe that is no longer kept.
func (f *failureLevels) age(failed bool) {
	if f.weight >= maxOlder {
		f.failed -= f.failed / f.weight
		f.weight--
	}
	f.weight++
	if failed {
		f.failed++
		f.kept--
	}
}

// failureStep looks for a step in the share of failed probes. Between two probes that
// ended alike no split is the most likely one.
func (s *Steps) failureStep() (Step, bool) {
	f := &s.failures
	allFailed, all := f.failed+float64(f.kept), f.weight+float64(f.n)
	if allFailed == 0 || allFailed == all {
		return Step{}, false
	}
	most, after, failedAfter, so := 0.0, 0, 0.0, 0.0
	none := likelihood(allFailed, all)
	for i := range f.n - minFailuresPart {
		if s.back(i).failed() {
			so++
		}
		n := float64(i + 1)
		if i+1 < minFailuresPart || s.back(i).failed() == s.back(i+1).failed() {
			continue
		}
		if v := 2 * (likelihood(so, n) + likelihood(allFailed-so, all-n) - none); v > most {
			most, after, failedAfter = v, i+1, so
		}
	}
	if most < stepThreshold*stepThreshold {
		return Step{}, false
	}
	n := float64(after)
	share, before := failedAfter/n, (allFailed-failedAfter)/(all-n)
	latest := 0.0
	for i := range minFailuresPart {
		if s.back(i).failed() {
			latest++
		}
	}
	lasts := (latest/minFailuresPart-before)/(share-before) > 0.5
	if !lasts || math.Abs(share-before) < minFailuresStep {
		return Step{}, false
	}
	step := Step{At: s.startOf(after - 1), Metric: MetricFailures, Before: before, After: share}
	s.failures = failureLevels{n: after, kept: int(failedAfter)}
	return step, true
}

// likelihood returns the logarithm of the greatest likelihood of so many failures among
// n probes.
func likelihood(failed, n float64) float64 {
	term := func(k float64) float64 {
		if k <= 0 {
			return 0
		}
		return k * math.Log(k/n)
	}
	return term(failed) + term(n-failed)
}
