package simulator

import "github.com/prometheus/client_golang/prometheus"

// nimMetrics is the page of NIM for LLMs 1.x, whose names have no prefix.
func nimMetrics(o *Options) *metricsPage {
	b := boundsVLLM()
	b[promptLength], b[outputLength] = oneTwoFive(o.ContextLength), oneTwoFive(o.ContextLength)
	labels := func(v *view) prometheus.Labels { return prometheus.Labels{"model_name": v.o.Model} }
	return &metricsPage{path: "/v1/metrics", bounds: b, groups: []group{{scope: together, labels: labels, families: []family{
		gauge("num_requests_running", "Requests in the batch.", (*view).requestsRunning),
		gauge("num_requests_waiting", "Requests in the queue.", (*view).requestsWaiting),
		gauge("num_request_max", "Requests that a batch holds.", (*view).requestsMax),
		gauge("gpu_cache_usage_perc", "Part of the KV cache in use, 0 to 1.", (*view).blocksRatio),
		counter("prompt_tokens_total", "Prompt tokens prefilled.", (*view).promptTokens),
		counter("generation_tokens_total", "Tokens generated.", (*view).generatedTokens),
		counter("request_success_total", "Requests that ended by stop or length.", (*view).requestsEnded),
		counter("request_failure_total", "Requests that did not.", (*view).requestsAborted),
		counters("request_finish_total", "Requests finished.", "finished_reason", finishedBy),
		distribution("time_to_first_token_seconds", "Time to the first token.", firstToken),
		distribution("time_per_output_token_seconds", "Time between two tokens.", interToken),
		distribution("e2e_request_latency_seconds", "Time to the last token.", endToEnd),
		distribution("request_prompt_tokens", "Prompt tokens of a request.", promptLength),
		distribution("request_generation_tokens", "Generated tokens of a request.", outputLength),
	}}}}
}
