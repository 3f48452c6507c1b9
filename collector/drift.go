package collector

import "github.com/inference-exporter/inference_exporter/internal/estimate"

// driftFamilies compare the answers to the reference texts with the first ones.
func driftFamilies() []*findingsFamily {
	of := func(get func(d *estimate.Drift) *float64) func(f *estimate.Findings) gauge {
		return func(f *estimate.Findings) gauge {
			if f.Drift == nil {
				return gauge{}
			}
			return known(get(f.Drift))
		}
	}
	return []*findingsFamily{
		findingsGauge("embedding_cosine_similarity", "",
			"Cosine similarity between the vectors that the endpoint returns for the reference texts and those it returned at first; the lowest of the texts. 1 is the same direction. Absent after a failure and if the vectors have another length than at first. Only for modules with reference_texts at endpoints that embed.",
			of(func(d *estimate.Drift) *float64 { return d.Similarity })),
		findingsGauge("rerank_order_correlation", "",
			"Rank correlation (Kendall's tau-b) between the scores of the reference texts and the first ones: 1 is the same order, -1 the reverse. Absent after a failure. Only for modules with reference_texts at endpoints that rank.",
			of(func(d *estimate.Drift) *float64 { return d.Order })),
		findingsGauge("reference_distance_ratio", "ratio",
			"Euclidean distance of the vectors of the reference texts, or of the list of their scores, from the first ones, divided by the norm of the first; the largest of the texts. Unlike the cosine it grows with another norm. Absent after a failure and if the vectors have another length than at first. Only for modules with reference_texts.",
			of(func(d *estimate.Drift) *float64 { return d.Distance })),
	}
}
