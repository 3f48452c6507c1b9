package main

// endpointIntegrity is what answers have that no answer should have.
func endpointIntegrity() []Panel {
	const none = "no answer had a sign of corruption"
	findings := func(window string) string {
		return sumIncrease("module, finding", window, "inference_probe_integrity_findings_total", ofEndpoint)
	}
	return []Panel{
		{
			Title: "Signs of corruption in answers", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the answers of an hour that have letters of a foreign script, loops, control characters, special tokens, reasoning tags, or no finish reason. The dashed line is the usual share.", By: ByProbe,
			Worry: "it rises over the dashed line: users see garbage in answers that look good to every other measure.", Alerts: []string{"InferenceAnswersCorrupted"},
			Queries: []Query{
				{
					Expr: "(" + findings("1h") + " > 0) / on (module) group_left () " +
						sumIncrease("module", "1h", "inference_probe_integrity_answers_total", ofEndpoint), Legend: "{{finding}} {{module}}",
				},
				{Expr: "max by (module, finding) (" + ofEndpoint.of("inference_probe_integrity_usual_ratio") + ")", Legend: "usual {{finding}} {{module}}", Reference: true},
			},
			Min: ptr(0.0), NoValue: none,
		},
		{
			Title: "More signs of corruption than usual", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "1 while more answers than usual have the finding, beyond chance.", By: ByProbe,
			Worry: "it is 1.", Alerts: []string{"InferenceAnswersCorrupted"},
			Queries: []Query{{Expr: "max by (module, finding) (" + ofEndpoint.of("inference_probe_integrity_raised") + ")", Legend: "{{finding}} {{module}}"}},
			Min:     ptr(0.0), NoValue: none,
		},
	}
}
