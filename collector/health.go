package collector

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

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
