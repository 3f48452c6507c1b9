package main

// endpointTraffic is how like those of users the lengths are that modules with traffic ask.
func endpointTraffic() []Panel {
	const noTraffic = "no module with traffic, or the lengths of users are unknown"
	of := func(name string) string { return "avg by (module) (" + ofEndpoint.of(name) + ")" }
	return []Panel{{
		Title: "Distance of the lengths asked from those of users", Viz: TimeSeries, Unit: "percentunit", Width: 24, Height: 7,
		What: "Wasserstein distance between the lengths from which probes were drawn in the last hour and those of users, as a share of the mean length of users.", By: ByProbe,
		Worry: "it stays high: the module's bounds cut what users ask, and its latencies are not those of users.",
		Queries: []Query{
			{Expr: of("inference_probe_traffic_input_distance_ratio"), Legend: "prompts {{module}}"},
			{Expr: of("inference_probe_traffic_output_distance_ratio"), Legend: "answers {{module}}"},
		},
		Min: ptr(0.0), NoValue: noTraffic,
	}}
}
