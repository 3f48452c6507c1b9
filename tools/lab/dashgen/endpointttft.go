package main

// endpointTTFTParts divides the time to first token.
func endpointTTFTParts() []Panel {
	return []Panel{{
		Title: "TTFT in parts", Viz: TimeSeries, Unit: "s", Width: 24, Height: 8, Stacked: true,
		What: "Mean time to first token of the probes of 5 minutes, by where it went; the height of the stack is the mean. Queues and prefill are as gateway and servers report them for all their requests, the network is a round trip.", By: ByBoth,
		Worry:   "one part grows: gateway_queue or engine_queue is load, prefill longer prompts, a lost prefix cache or a slower GPU, network the path, rest anything between that reports no time.",
		Alerts:  []string{"InferenceTTFTHigh"},
		Queries: []Query{{Expr: "avg by (part) (" + ofEndpoint.of("inference_endpoint_ttft_part_seconds") + ")", Legend: "{{part}}"}},
		Min:     ptr(0.0), NoValue: "neither replies nor pages report times, or those of other requests are longer than the probes'",
	}}
}
