package collector

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober"
)

// FindingsID identifies the findings of one endpoint and module.
type FindingsID struct {
	// Endpoint and Module are the values of the labels of that name.
	Endpoint, Module string
	// Labels are the configured labels, as in SeriesOptions. They must not be changed afterwards.
	Labels map[string]string
}

// FindingsSeries shows the findings of one endpoint and module: nothing until there are findings.
type FindingsSeries struct {
	store   *Probes
	id      FindingsID
	current atomic.Pointer[findingsValues] // nil without findings
}

// findingsValues is the state behind the samples of findings. It is immutable.
type findingsValues struct {
	*workload.Findings
	model   string // as in block
	block   *labelBlock
	created time.Time
	series  map[int][]*labelBlock // of findings that have several, by index
}

// OpenFindings puts the series of id on the page.
func (p *Probes) OpenFindings(id FindingsID) *FindingsSeries {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &FindingsSeries{store: p, id: id}
	p.findings[s] = struct{}{}
	return s
}

// Close takes the series off the page. What is set in it later is lost.
func (s *FindingsSeries) Close() {
	p := s.store
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.findings, s)
	p.changed()
}

// Set shows findings, which must not be changed afterwards; nil shows none. Its calls must come one after the other, in
// the order in which the findings were made: with older ones the counters would fall. The counters of another model
// start again.
func (s *FindingsSeries) Set(f *workload.Findings) {
	if f == nil {
		if s.current.Swap(nil) != nil {
			s.store.stale.Store(true)
		}
		return
	}
	next := &findingsValues{Findings: f, series: map[int][]*labelBlock{}, model: boundModel(f.Model), created: s.store.now()}
	before := s.current.Load()
	same := before != nil && before.model == next.model
	if same || before != nil && before.model == "" {
		next.created = before.created
	}
	if same {
		next.block = before.block
	} else {
		next.block = s.labels(next.model)
	}
	for i, found := range f.All {
		if several, ok := found.(workload.Several); ok {
			for _, labels := range several.Series() {
				next.series[i] = append(next.series[i], s.labels(next.model, pairsOf(labels)...))
			}
		}
	}
	s.current.Store(next)
	if !same {
		s.store.stale.Store(true)
	}
}

// labels renders the labels of the series, or those of one that the findings of a workload have besides.
func (s *FindingsSeries) labels(model string, own ...pair) *labelBlock {
	return s.store.labels.block(append(own, pair{"endpoint", s.id.Endpoint}, pair{"model", model}, pair{"module", s.id.Module}), s.id.Labels)
}

// latest returns what the series show now. All families of a page come from the same findings.
func latest(all []labelled[*FindingsSeries]) []labelled[*findingsValues] {
	out := make([]labelled[*findingsValues], 0, len(all))
	for _, s := range all {
		if v := s.value.current.Load(); v != nil {
			out = append(out, labelled[*findingsValues]{v.block, v})
		}
	}
	return out
}

func findingsFamilies() []*familyOf[*findingsValues] {
	var all []*familyOf[*findingsValues]
	for i, w := range prober.Workloads() {
		for _, m := range w.Metrics() {
			all = append(all, newFindingsFamily(i, m))
		}
	}
	return all
}

// newFindingsFamily returns the family of a metric of the findings of a workload, given by its index.
func newFindingsFamily(index int, m workload.Metric) *familyOf[*findingsValues] {
	f := Family{
		Name: namePrefix + "probe_" + m.Name, Group: GroupProbe, Unit: m.Unit, Values: m.Values, Help: m.Help,
		Labels: append([]string{"endpoint", "model", "module"}, m.Each...),
	}
	if m.Label != "" {
		f.Labels = append(f.Labels, m.Label)
	}
	return &familyOf[*findingsValues]{newFamily(f, nil), func(e encoder, f *family, v *findingsValues) {
		found := v.All[index]
		switch {
		case found == nil:
		case m.Each != nil:
			for i, block := range v.series[index] {
				e.labels(block, v.created)
				emitSamples(e, f, m, found, i)
			}
		default:
			e.labels(v.block, v.created)
			emitSamples(e, f, m, found, 0)
		}
	}}
}

// emitSamples emits the samples of a metric in a series of a finding, given by its index.
func emitSamples(e encoder, f *family, m workload.Metric, found workload.Finding, series int) {
	for _, own := range f.order {
		if v := m.Value(found, series*len(f.order)+own); !math.IsInf(v, 0) { // a bound may be open
			emitValue(e, f.Type, own, v)
		}
	}
}

func pairsOf(labels []workload.Label) (all []pair) {
	for _, l := range labels {
		all = append(all, pair{l.Name, l.Value})
	}
	return all
}
