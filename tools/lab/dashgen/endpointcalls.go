package main

// endpointCalls is how long an agent waits for a call of a tool.
func endpointCalls() []Panel {
	return []Panel{{
		Title: "Time to a tool call", Viz: TimeSeries, Unit: "s", Width: 24, Height: 7,
		What: "Median time from the start of the request to the first piece of the arguments of a tool call, and to the last, of the last 30 minutes. Of valid calls only; what the others came to is in Answers that are not right.", By: ByProbe,
		Worry: "the first argument comes late although TTFT is as ever: the server holds the call back, or the model reasons longer before it.",
		Queries: []Query{
			{Expr: quantile(0.5, "module", "30m", "inference_probe_first_argument_seconds", ofProbes), Legend: "first argument {{module}}"},
			{Expr: quantile(0.5, "module", "30m", "inference_probe_complete_call_seconds", ofProbes), Legend: "complete {{module}}"},
		},
		Min: ptr(0.0), NoValue: "no module with tool_call, or no valid call",
	}}
}
