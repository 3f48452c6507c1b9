package simulator

import "slices"

// lmdeployMetrics is the page of LMDeploy with its PyTorch engine.
func lmdeployMetrics(o *Options) *metricsPage {
	b := boundsVLLM()
	b[interToken] = slices.Insert(b[interToken], 0, .005)
	b[perToken] = b[interToken]
	for _, q := range []quantity{promptLength, outputLength, cachedLength} {
		b[q] = oneTwoFive(o.ContextLength)
	}
	b[cachedPart] = []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}
	b[stepTokens] = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	return &metricsPage{path: "/metrics", bounds: b, groups: []group{
		{scope: eachReplica, labels: modelAndEngine, families: append(lmdeployNumbers(),
			distribution("lmdeploy:time_to_first_token_seconds", "Time to the first token.", firstToken),
			distribution("lmdeploy:time_per_output_token_seconds", "Mean time per output token of a request.", perToken),
			distribution("lmdeploy:iter_token_latency", "Time between two tokens, seconds.", interToken),
			distribution("lmdeploy:e2e_request_latency_seconds", "Time to the last token.", endToEnd),
			distribution("lmdeploy:request_queue_time_seconds", "Time in the queue.", queueTime),
			distribution("lmdeploy:request_inference_time_seconds", "Time in the batch.", inferenceTime),
			distribution("lmdeploy:request_prefill_time_seconds", "Time to the first token, in the batch.", prefillTime),
			distribution("lmdeploy:request_decode_time_seconds", "Time from the first token to the last.", decodeTime),
			distribution("lmdeploy:request_prompt_tokens", "Prompt tokens of a request.", promptLength),
			distribution("lmdeploy:request_generation_tokens", "Generated tokens of a request.", outputLength),
			distribution("lmdeploy:request_cached_tokens", "Cached prompt tokens of a request.", cachedLength),
			distribution("lmdeploy:request_cache_hit_ratio", "Cached part of a prompt, 0 to 1.", cachedPart),
			distribution("lmdeploy:iteration_tokens_total", "Tokens of a step.", stepTokens),
		)},
	}}
}

// lmdeployNumbers hold two gauges with cumulative counts, as LMDeploy has them.
func lmdeployNumbers() []family {
	return []family{
		gauge("lmdeploy:num_requests_running", "Requests in the batch.", (*view).requestsRunning),
		gauge("lmdeploy:num_requests_waiting", "Requests in the queue.", (*view).requestsWaiting),
		gauge("lmdeploy:num_api_requests_routed", "Requests given to the engine.", (*view).requestsInside),
		gauge("lmdeploy:num_api_requests_waiting", "Requests not yet given to the engine.", none),
		gauge("lmdeploy:num_requests_succeeded", "Requests ended so far.", (*view).requestsEnded),
		gauge("lmdeploy:num_requests_failed", "Requests aborted so far.", (*view).requestsAborted),
		gauge("lmdeploy:gpu_cache_usage_perc", "Part of the KV cache in use, 0 to 1.", (*view).blocksRatio),
		gauge("lmdeploy:prefix_cache_hit_rate", "Hits over queries so far, 0 to 1.", (*view).hitRatio),
		counter("lmdeploy:prompt_tokens_total", "Prompt tokens prefilled.", (*view).promptTokens),
		counter("lmdeploy:generation_tokens_total", "Tokens generated.", (*view).generatedTokens),
		counter("lmdeploy:cached_tokens_total", "Cached prompt tokens of ended requests.", (*view).endedCached),
		counters("lmdeploy:request_success_total", "Requests ended.", "finished_reason", func(v *view) map[string]float64 {
			return map[string]float64{"ResponseType.FINISH": v.requestsEnded(), "ResponseType.CANCEL": v.requestsAborted()}
		}),
	}
}
