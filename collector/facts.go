package collector

import (
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// factFamilies returns the families of the facts of endpoints: those that have the label model, or the others. facts returns what is known
// of a V.
func factFamilies[V any](model bool, facts func(v V) *workload.Findings) (all []*familyOf[V]) {
	for _, kind := range health.Facts() {
		for _, m := range kind.Metrics {
			if slices.Contains(written(m.Name).Labels, "model") == model {
				all = append(all, newOf(m.Name, func(e encoder, f *family, v V) {
					if fact := kind.In(facts(v)); fact != nil {
						emitEach(func(_ V, i int) float64 { return m.Value(fact, i) })(e, f, v)
					}
				}))
			}
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
