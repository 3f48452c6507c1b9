package alerts

// answersCorrupted repeats what the exporter has found to be no chance, as long as it
// lasts.
func answersCorrupted() alert {
	return alert{
		name: "InferenceAnswersCorrupted", severity: Warning, category: Quality,
		expr: `time() - min by ($E, module, finding) (inference_probe_integrity_raised_timestamp_seconds) >= 0` + unlessDown(soon),
		keep: "15m",
		summary: "More answers of {{ $labels.endpoint }} to {{ $labels.module }} than usual have a sign of corruption, " +
			"for {{ $value | humanizeDuration }}: {{ $labels.finding }}.",
		description: "Answers arrive complete and with a good status, but with something in them that no answer should have: letters of a foreign script, loops, " +
			"control or replacement characters, special tokens, reasoning tags, or no finish reason. The share is beyond what is usual for this endpoint and module. " +
			"Look first at what was deployed at that time, and at whether the answers come from one replica.",
		board: endpointBoard,
	}
}
