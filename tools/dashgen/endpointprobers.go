package main

// bestProber is whether the latest probe of each module succeeded, by the prober
// that gets on best: an endpoint that one of them reaches is not down.
func bestProber() string {
	return "max by (endpoint, model, " + byModule + ") (" + ofProbes.of("inference_probe_success") + ")"
}

// failedByProber is the share of failed probes over a window. by holds instance.
func failedByProber(by, window string) string {
	const name = "inference_probe_results_total"
	return "(" + sumIncrease(by, window, name, ofProbes, `outcome!~"success|canceled"`) +
		" / (" + sumIncrease(by, window, name, ofProbes, `outcome!="canceled"`) + " > 0))"
}

// endpointProbers tells the probers of one endpoint apart, which all other
// panels add up.
func endpointProbers() []Panel {
	const (
		by     = byModule + ", instance"
		legend = "{{instance}} " + module
	)
	return []Panel{
		{
			Title: "State by prober", Viz: StateTimeline, Width: 8, Height: 8,
			What: "Whether the latest probe of each prober succeeded, for each module.", By: ByProbe,
			Worry: "one prober is failed and another one is not.", Alerts: []string{"InferenceProbersDisagree"},
			Queries: []Query{{Expr: "min by (" + by + ") (" + ofProbes.of("inference_probe_success") + ")", Legend: legend}},
			States:  upStates, NoValue: noProber,
		},
		{
			Title: "Failed probes by prober", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of failed probes over 30 minutes, of each prober.", By: ByProbe,
			Worry: "one prober is far above the others: it is its own path, or that of the users at its place.", Alerts: []string{"InferenceProbersDisagree"},
			Queries: []Query{{Expr: failedByProber("module, instance", "30m"), Legend: "{{instance}} {{module}}"}},
			Min:     ptr(0.0), Max: ptr(1.0), NoValue: noProber,
		},
		{
			Title: "TTFT by prober", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Median time to first token over 30 minutes, of each prober, and the objective.", By: ByRules,
			Worry: "they part by more than they used to: one of them measures badly, or the way from its place has become longer.", Alerts: []string{"InferenceMeasurementSuspect", "InferenceLatencyRegression"},
			Queries: []Query{
				{Expr: "max by (" + by + ") (" + ofEndpoint.of("instance:inference_probe_ttft_seconds:median30m") + ")", Legend: legend},
				threshold("ttft"),
			},
			Min: ptr(0.0), NoValue: noProber,
		},
	}
}
