package collector

import (
	"slices"

	"github.com/inference-exporter/inference_exporter/prober/check"
)

// newChecks returns the counters by index in check.Verdicts.
func newChecks() []uint64 { return make([]uint64, len(check.Verdicts())) }

// SetChecks tells whether the answers of the series are checked, which gives it
// counters of the verdicts.
func (s *Series) SetChecks(checked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch v := s.values; {
	case !checked:
		v.checks = nil
	case v.checks == nil:
		v.checks = newChecks()
	}
}

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
