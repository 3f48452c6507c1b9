package simulator

// llamacppMetrics is the page of llama.cpp's server, started with --metrics: no
// labels, no histograms, and two averages that each reading resets.
func llamacppMetrics(*Options) *metricsPage {
	return &metricsPage{path: "/metrics", groups: []group{{scope: together, families: []family{
		counter("llamacpp:prompt_tokens_total", "Prompt tokens processed, without cached ones.", (*view).uncachedTokens),
		counter("llamacpp:prompt_tokens_cached_total", "Prompt tokens reused.", (*view).cachedTokens),
		counter("llamacpp:prompt_seconds_total", "Time of prompts.", func(v *view) float64 { return v.stats.prefillSeconds }),
		counter("llamacpp:tokens_predicted_total", "Tokens generated for ended requests.", (*view).endedGenerated),
		counter("llamacpp:tokens_predicted_seconds_total", "Time of generation.", func(v *view) float64 {
			return v.stats.observed[decodeTime].sum
		}),
		counter("llamacpp:n_decode_total", "Steps.", (*view).steps),
		counter("llamacpp:n_tokens_max", "Tokens of the longest sequence so far.", func(v *view) float64 {
			return float64(v.stats.longest)
		}),
		gauge("llamacpp:n_busy_slots_per_decode", "Mean size of a batch.", func(v *view) float64 {
			return rate(v.stats.observed[batchSize].sum, v.steps())
		}),
		gauge("llamacpp:prompt_tokens_seconds", "Prompt tokens per second since the last reading.", promptRate),
		gauge("llamacpp:predicted_tokens_seconds", "Generated tokens per second since the last reading.", predictedRate),
		gauge("llamacpp:requests_processing", "Requests in slots.", (*view).requestsRunning),
		gauge("llamacpp:requests_deferred", "Requests that wait for one.", (*view).requestsWaiting),
		counter("llamacpp:spec_decode_num_drafts_total", "Drafts.", none),
		counter("llamacpp:spec_decode_num_draft_tokens_total", "Tokens in drafts.", none),
		counter("llamacpp:spec_decode_num_accepted_tokens_total", "Tokens in drafts that were right.", none),
	}}}}
}

func promptRate(v *view) float64 {
	now, before := v.stats, v.before
	return rate(float64((now.prompt-now.cached)-(before.prompt-before.cached)), now.prefillSeconds-before.prefillSeconds)
}

func predictedRate(v *view) float64 {
	now, before := v.stats, v.before
	return rate(
		float64(now.ended.Generated-before.ended.Generated),
		now.observed[decodeTime].sum-before.observed[decodeTime].sum,
	)
}

// rate is n per unit of over, and 0 while there is nothing, as llama.cpp has it.
func rate(n, over float64) float64 {
	if over <= 0 {
		return 0
	}
	return n / over
}
