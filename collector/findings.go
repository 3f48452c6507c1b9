package collector

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober"
)

// FindingsSeries shows the findings of one endpoint and module: nothing until there are findings.
type FindingsSeries struct {
	store            *Probes
	endpoint, module string
	configured       map[string]string              // labels
	current          atomic.Pointer[findingsValues] // nil without findings
}

// findingsValues is the state behind the samples of findings. It is immutable.
type findingsValues struct {
	*workload.Findings
	model   string // as in block
	block   *labelBlock
	created time.Time
	series  map[int][]*labelBlock // of findings that have several, by index
}

// OpenFindings puts the series of the findings of a module on the page.
func (e *Endpoint) OpenFindings(module string) *FindingsSeries {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	s := &FindingsSeries{store: e.store, endpoint: e.info.Endpoint, module: module, configured: e.info.Labels}
	e.findings = append(e.findings, s)
	return s
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
	return s.store.labels.block(append(own, pair{"endpoint", s.endpoint}, pair{"model", model}, pair{"module", s.module}), s.configured)
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

// healthValues returns the state of an endpoint at the moment, and its cause.
type healthValues struct {
	state func() *health.Status
	cause func() explain.Cause      // nil is never known
	with  func(...pair) *labelBlock // its labels and others
	facts *workload.Facts
}

// healthFamilies returns the families of the states, in the order of the documentation.
func healthFamilies() []*familyOf[healthValues] {
	causes := explain.Causes()
	return append(factFamilies(false, func(v healthValues) *workload.Findings { return v.facts.Latest() }, func(v healthValues, more ...pair) *labelBlock {
		for i := range more { // from and to are a server's
			more[i].value = boundModel(more[i].value)
		}
		return v.with(more...)
	}), []*familyOf[healthValues]{
		newOf("endpoint_state", func(e encoder, f *family, v healthValues) {
			current := slices.Index(health.States(), v.state().State)
			for _, i := range f.order {
				e.gauge(i, workload.Number(i == current))
			}
		}),
		newOf("endpoint_state_since_timestamp_seconds", emitOne(func(v healthValues) float64 { return float64(v.state().Since.UnixMilli()) / 1e3 })),
		newOf("endpoint_objective_missed", func(e encoder, f *family, v healthValues) {
			now := v.state()
			for _, i := range f.order {
				if o := series.Objective(i); now.Objectives.Has(o) {
					e.gauge(i, workload.Number(now.Missed.Has(o)))
				}
			}
		}),
		newOf("endpoint_incident_start_timestamp_seconds", func(e encoder, _ *family, v healthValues) {
			if p := v.state().Shown(); p != nil {
				e.labels(v.with(pair{"scope", p.Scope}), time.Time{})
				e.gauge(slices.Index(health.Kinds(), p.Kind), float64(p.Start.UnixMilli())/1e3)
			}
		}),
		newOf("endpoint_incident_witness", func(e encoder, f *family, v healthValues) {
			if p := v.state().Shown(); p != nil {
				current := slices.Index(health.Witnesses(), p.Witness)
				for _, i := range f.order {
					e.gauge(i, workload.Number(i == current))
				}
			}
		}),
		newOf("endpoint_muted", emitOne(func(v healthValues) float64 { return workload.Number(v.state().Mute != nil) })),
		newOf("endpoint_cause_info", func(e encoder, f *family, v healthValues) {
			if v.cause == nil {
				return
			}
			cause := v.cause()
			if i := slices.Index(causes, cause); i >= 0 {
				title, do := cause.Say()
				e.labels(v.with(pair{"title", title}, pair{"do", do}), time.Time{})
				e.gauge(i, 1)
			}
		}),
	}...)
}

// newHealth returns the state of an endpoint with its cause.
func newHealth(info EndpointInfo, l *labeller) healthValues {
	return healthValues{info.State, info.Cause, func(more ...pair) *labelBlock {
		return l.block(append(more, pair{"endpoint", info.Endpoint}), info.Labels)
	}, info.Facts}
}

// factFamilies returns the families of the facts of endpoints: those that have the label model, or the others. facts returns what is known
// of a V, and with its labels and others, for those with several series; nil where none has any.
func factFamilies[V any](model bool, facts func(v V) *workload.Findings, with func(v V, more ...pair) *labelBlock) (all []*familyOf[V]) {
	for _, kind := range health.Facts() {
		for _, m := range kind.Metrics {
			if slices.Contains(written(m.Name).Labels, "model") != model {
				continue
			}
			all = append(all, newOf(m.Name, func(e encoder, f *family, v V) {
				fact := kind.In(facts(v))
				switch several, ok := fact.(workload.Several); {
				case fact == nil:
				case ok && m.Each != nil:
					for n, labels := range several.Series() {
						e.labels(with(v, pairsOf(labels)...), time.Time{})
						emitSamples(e, f, m, fact, n)
					}
				default:
					emitSamples(e, f, m, fact, 0)
				}
			}))
		}
	}
	return all
}

// factSets adds the closed sets of the families of facts to those of others.
func factSets(sets map[string][]string) map[string][]string {
	for _, kind := range health.Facts() {
		for _, m := range kind.Metrics {
			sets[m.Name] = m.Values
		}
	}
	return sets
}
