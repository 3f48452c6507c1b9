package collector

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

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
