package health

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

const (
	// defaultAllowed is the share of bad probes without an objective, and defaultInterval the
	// time between probes without one.
	defaultAllowed  = 0.01
	defaultInterval = 30 * time.Second
	// smallestFirst is how many bad probes a verdict has at least where hardly any was good since the
	// beginning, which chance makes once for each module at most: firstTimes as many are bad.
	smallestFirst = 6
	firstTimes    = 3
)

// module is what an endpoint knows of one of its modules.
type module struct {
	Name     string                          `json:"name"`
	Begin    time.Time                       `json:"begin"` // since when it has been watched
	Evidence [series.NumObjectives]*evidence `json:"evidence"`
	// Good counts the eligible probes that were good, up to 255.
	Good     [series.NumObjectives]uint8 `json:"good"`
	allowed  float64
	promised bool          // by an objective that is configured
	interval time.Duration // between two probes, of all its series
}

// isSane reports whether the evidence may be of this machine's past.
func (m *module) isSane(now time.Time) bool {
	if m == nil || m.Begin.After(now) {
		return false
	}
	for _, e := range m.Evidence {
		if e != nil && (e.Size < 0 || e.First.After(e.Last) || e.Last.After(now) || slices.ContainsFunc(e.Days, func(of clusters) bool { return !of.isSane() })) {
			return false
		}
	}
	return true
}

func (m *module) clone() *module {
	m = copyOf(m)
	for i, e := range m.Evidence {
		if e = copyOf(e); e != nil {
			e.Days, m.Evidence[i] = slices.Clone(e.Days), e
		}
	}
	return m
}

// relate takes the objective and the time between probes from the series of the module.
func (m *module) relate(all []*Series) {
	m.allowed, m.promised, m.interval = defaultAllowed, false, defaultInterval
	var perSecond float64
	for _, s := range all {
		if s.module != m || !s.counts {
			continue
		}
		if s.objectives != nil && s.objectives.Share > 0 {
			m.allowed, m.promised = 1-s.objectives.Share, true
		}
		if s.interval > 0 {
			perSecond += 1 / s.interval.Seconds()
		}
	}
	if perSecond > 0 {
		m.interval = time.Duration(float64(time.Second) / perSecond)
	}
}

// late takes an answer, and returns the objectives by which the late ones are a verdict.
func (m *module) late(o *series.Observation) (missed series.Set) {
	for i := series.TTFT; i < series.NumObjectives; i++ {
		if o.Judgement.Eligible.Has(i) && m.observe(i, o.Start, o.Judgement.Bad.Has(i)) {
			missed |= 1 << i
		}
	}
	return missed
}

// end ends the clusters of failures that are a verdict, or those of late answers. Failures that came in a row by chance may be
// the first of more.
func (m *module) end(late bool) {
	for i, e := range m.Evidence {
		if c := m.chance(series.Objective(i)); e != nil && c.late == late && (late || e.Raised) {
			e.end(c)
		}
	}
}

func (m *module) gap() time.Duration { return m.chance(series.Availability).gap() }

func (m *module) chance(i series.Objective) chance {
	return chance{m.allowed, m.interval, i != series.Availability}
}

// observe takes an eligible probe, and reports whether the bad ones are a verdict.
func (m *module) observe(i series.Objective, start time.Time, bad bool) bool {
	if !bad && m.Good[i] < math.MaxUint8 {
		m.Good[i]++
	}
	if m.Evidence[i] == nil {
		if !bad {
			return false
		}
		m.Evidence[i] = &evidence{}
	}
	e := m.Evidence[i]
	if e.observe(m.chance(i), m.Begin, start, bad) {
		return true
	}
	e.Raised = e.Size >= smallestFirst && e.Size >= firstTimes*int(m.Good[i])
	return e.Raised
}
