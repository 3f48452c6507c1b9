package config

import (
	"fmt"

	"github.com/prometheus/common/model"
)

// SLO is what is promised of an endpoint: the share of probes that must be
// good, and how slow a good one may be. The exporter counts the bad ones
// exactly, whatever the bounds of its histograms. A probe that takes exactly as
// long as it may is good. An objective that no probe can count against is a
// mistake: one for tokens where nothing answers with tokens, for example.
type SLO struct {
	// Objective is the share of probes that must be good.
	Objective float64 `yaml:"objective" default:"0.99" range:"(0,1)"`
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
	// Fluidity is the smallest share of its deadlines that a good answer meets: its
	// first token is due after `ttft`, each further one a `tpot` later. 0.9 is a usual one. Default: no such
	// objective.
	Fluidity float64 `yaml:"fluidity,omitempty" range:"(0,1]" requires:"ttft,tpot"`
	// CountWaiting counts a probe that was due while the one before still waited for its
	// first token, and was left out, as a user who waited until that token came: for
	// `ttft`, and wherever percentiles of the time to first
	// token are read. Without it, a server that freezes for a minute has one slow
	// probe.
	CountWaiting bool `yaml:"count_waiting,omitempty" requires:"ttft"`
}

// Format writes the SLO as printYAML does.
func (s SLO) Format(f fmt.State, _ rune) { printYAML(f, s) }

// defaultObjective is that of an SLO that says none.
const defaultObjective = 0.99

// uncounted returns with which setting of the module the objective under a key of
// `slo` means nothing, as no probe can count against it; "" where probes do.
func (m *Module) uncounted(key string) string {
	switch {
	case m.Ask().NoAnswer && key != "e2e" && key != "objective":
		return m.Ask().Key + ", which asks for no answer"
	case m.Arrivals != nil:
		return "arrivals, which have no knee"
	case !m.Judged() && key != "ttft":
		return "concurrency: bursts are compared with ttft alone"
	case (key == "tpot" || key == "fluidity") && m.MaxOutput() == 1:
		return "output_tokens: 1, as the first token has no TPOT"
	}
	return ""
}

// writtenKeys lists the limits that the file gives the SLO, or the objective where
// it gives none.
func (s *SLO) writtenKeys(r *report, p path) []string {
	var keys []string
	for _, key := range []string{"ttft", "tpot", "e2e", "fluidity", "count_waiting"} {
		if r.written(p.key(key)) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return []string{"objective"}
	}
	return keys
}

// checkSLO rejects objectives that no probe of the module counts against.
func (m *Module) checkSLO(r *report, p path) {
	if m.SLO == nil {
		return
	}
	for _, key := range m.SLO.writtenKeys(r, p) {
		if why := m.uncounted(key); why != "" {
			r.errorf(p.key(key), "has no effect with %s", why)
		}
	}
}

// checkSLO rejects objectives that none of the modules counts against, unless
// all of them have an SLO of their own.
func (e *Endpoint) checkSLO(r *report, p path, modules map[string]*Module) {
	if e.SLO == nil {
		return
	}
	for _, key := range e.SLO.writtenKeys(r, p) {
		why := ""
		for _, name := range e.Modules {
			m := modules[name]
			if m == nil || m.SLO != nil {
				continue
			}
			if why = m.uncounted(key); why == "" {
				break
			}
		}
		if why != "" {
			r.errorf(p.key(key), "no module of the endpoint counts it: it has no effect with %s", why)
		}
	}
}

// SLOWith returns the SLO of the endpoint when it is probed with m. The first
// that is written takes its place as a whole: that of the module, or of the
// endpoint; else it is that of the built-in module, or availability alone. What
// has no first token, or arrivals that are not at once, has no objective for it. Of a module that is not Judged, it
// is only what its bursts are compared with.
func (e *Endpoint) SLOWith(m *Module) SLO {
	slo := SLO{Objective: defaultObjective}
	switch {
	case m.SLO != nil:
		slo = *m.SLO
	case e.SLO != nil:
		slo = *e.SLO
	case m.PresetSLO != nil:
		slo = *m.PresetSLO
	}
	if m.Ask().NoAnswer || m.Arrivals != nil {
		slo.TTFT, slo.TPOT, slo.Fluidity, slo.CountWaiting = 0, 0, 0, false
	}
	return slo
}

// Judged reports whether the probes of the module count as good or bad: bursts do
// not, which are a load of the exporter's own making.
func (m *Module) Judged() bool { return len(m.Concurrency) == 0 }
