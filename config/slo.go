package config

import (
	"fmt"

	"github.com/prometheus/common/model"
)

// SLO is what is promised of an endpoint: the share of probes that must be
// good, and how slow a good one may be. The exporter counts the bad ones
// exactly, whatever the bounds of its histograms. A probe that takes exactly as
// long as it may is good.
type SLO struct {
	// Objective is the share of probes that must be good, between 0 and 1, both
	// excluded.
	Objective float64 `yaml:"objective"`
	// TTFT is the longest time to first token of a good probe. Default: no such
	// objective.
	TTFT model.Duration `yaml:"ttft,omitempty"`
	// TPOT is the longest time per output token of a good probe. Default: no such
	// objective.
	TPOT model.Duration `yaml:"tpot,omitempty"`
	// E2E is the longest duration of a good probe, from issuing the request,
	// connection set-up included, to the end of the reply. Default: no such
	// objective.
	E2E model.Duration `yaml:"e2e,omitempty"`
}

// Format writes the SLO as printYAML does.
func (s SLO) Format(f fmt.State, _ rune) { printYAML(f, s) }

func (s *SLO) validate(r *report, p path) {
	if s.Objective <= 0 || s.Objective >= 1 {
		r.errorf(p.key("objective"), "want a share above 0 and below 1 like 0.99, got %v", s.Objective)
	}
}

// SLOWith returns the SLO of the endpoint when it is probed with m. The first
// that is written takes its place as a whole: that of the module, or of the
// endpoint; else it is that of the built-in module, or availability alone. What
// has no first token has no objective for it. Of a module that is not Judged, it
// is only what its bursts are compared with.
func (e *Endpoint) SLOWith(m *Module) SLO {
	slo := defaultSLO()
	switch {
	case m.SLO != nil:
		slo = *m.SLO
	case e.SLO != nil:
		slo = *e.SLO
	case m.PresetSLO != nil:
		slo = *m.PresetSLO
	}
	if m.ReferenceLogprob {
		slo.TTFT, slo.TPOT = 0, 0
	}
	return slo
}

// Judged tells whether the probes of the module count as good or bad: bursts do
// not, which are a load of the exporter's own making.
func (m *Module) Judged() bool { return len(m.Concurrency) == 0 }
