package main

// endpointDrift is whether embeddings and scores are still those of the first day.
func endpointDrift() []Panel {
	const noTexts = "no module has reference_texts"
	return []Panel{
		{
			Title: "Embeddings and ranks, against the first", Viz: TimeSeries, Width: 12, Height: 8,
			What: "The lowest cosine between the vectors of fixed texts and the first ones, and how far the scores of fixed texts are in the same order as at first (Kendall's tau-b). 1 is the same.", By: ByProbe,
			Worry: "it makes a step below 0.999: vectors that were stored before are no longer comparable with new ones.", Alerts: []string{"InferenceFingerprintChanged"},
			Queries: []Query{
				{Expr: "min by (module) (" + ofEndpoint.of("inference_probe_embedding_cosine_similarity") + ")", Legend: "cosine {{module}}"},
				{Expr: "min by (module) (" + ofEndpoint.of("inference_probe_rerank_order_correlation") + ")", Legend: "order {{module}}"},
			},
			NoValue: noTexts,
		},
		{
			Title: "Distance of embeddings and scores from the first", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Distance of the vectors or scores of fixed texts from the first ones, as a share of the norm. Unlike the cosine it also shows another norm or scale.", By: ByProbe,
			Worry: "it makes a step beyond 3 %: another model, precision, normalisation or pooling.", Alerts: []string{"InferenceFingerprintChanged"},
			Queries: []Query{{Expr: "max by (module) (" + ofEndpoint.of("inference_probe_reference_distance_ratio") + ")", Legend: "{{module}}"}},
			Min:     ptr(0.0), NoValue: noTexts,
		},
	}
}
