package main

// endpointMemory is what the memory of the endpoint's GPUs holds.
func endpointMemory() []Panel {
	return []Panel{{
		Title: "Memory of the model's GPUs", Viz: TimeSeries, Unit: "bytes", Width: 8, Height: 8, Stacked: true,
		What: "Memory of the GPUs of one replica: the weights, what is set aside for the KV cache, and the rest of what is in use, such as activations, graphs and other programs. The rest needs the readings of all GPUs under hardware.uuids.", By: ByServer,
		Worry:   "the rest grows: memory leaks, or another program is on the GPU.",
		Queries: []Query{{Expr: "max by (part) (" + ofRecorded.of("endpoint:inference_gpu_memory_used_bytes:by_part") + ")", Legend: "{{part}}"}},
		Min:     ptr(0.0), NoValue: "no hardware is configured, the engine reports no memory, or the rules of the set gpu are not loaded",
	}}
}
