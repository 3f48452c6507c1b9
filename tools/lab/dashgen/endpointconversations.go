package main

// endpointConversations is what the turns of conversations get of the prefix cache.
func endpointConversations() []Panel {
	const noTalks = "no module with prefix: conversation, or too few conversations"
	const legend = "turn {{turn}}, affinity {{affinity}} {{module}}"
	turn := func(name string) string {
		return "avg by (module, affinity, turn) (" + ofEndpoint.of(name) + ")"
	}
	return []Panel{
		{
			Title: "Prefix cache hits by turn", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the prompt tokens of each turn of conversations that came from the prefix cache, with the session header and without.", By: ByProbe,
			Worry:   "affinity session comes near affinity none: the balancer no longer keeps the turns of a session together.",
			Queries: []Query{{Expr: turn("inference_probe_turn_prefix_cache_hit_ratio"), Legend: legend}},
			Min:     ptr(0.0), NoValue: noTalks,
		},
		{
			Title: "TTFT by turn", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token of each turn of conversations, with the session header and without.", By: ByProbe,
			Worry:   "later turns are as slow as the first: agents wait for prompts that the servers had before.",
			Queries: []Query{{Expr: turn("inference_probe_turn_ttft_seconds"), Legend: legend}},
			Min:     ptr(0.0), NoValue: noTalks,
		},
		{
			Title: "Turns on the replica of the turn before", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the turns of conversations that the replica of the turn before answered, as a header of the replies names it.", By: ByProbe,
			Worry:   "with affinity session it is below 1: sessions are parted.",
			Queries: []Query{{Expr: turn("inference_probe_turn_same_replica_ratio"), Legend: legend}},
			Min:     ptr(0.0), NoValue: "no module with prefix: conversation, or no request.replica_header",
		},
	}
}
