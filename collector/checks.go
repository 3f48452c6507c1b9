package collector

import (
	"slices"

	"github.com/inference-exporter/inference_exporter/prober/check"
)

// newChecks returns the counters by index in check.Verdicts.
func newChecks() []uint64 { return make([]uint64, len(check.Verdicts())) }

// countVerdict counts an answer that was checked.
func (v *values) countVerdict(verdict check.Verdict) {
	if v.checks == nil {
		return
	}
	if i := slices.Index(check.Verdicts(), verdict); i >= 0 {
		v.checks[i]++
	}
}

// checksFamily is what the checked answers came to.
func checksFamily() *probeFamily {
	set := labelValues(check.Verdicts())
	return newProbeFamily(Family{
		Name: "probe_checks_total", Type: Counter, Labels: []string{"verdict"}, Values: set,
		Help: "Answers by what their check came to: as expected (correct), in the right form with other content (wrong), in another form, length or language or ended for another reason (wrong_format), declined (refused), or running in a loop (repetition). Probes without an answer have no verdict. Absent for modules that check nothing.",
	}, nil, func(e encoder, f *family, v *values) {
		if v.checks == nil {
			return
		}
		for _, i := range f.order {
			e.counter(i, float64(v.checks[i]))
		}
	})
}
