package simulator

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// boundsVLLM are the bounds of vLLM's V1 engine, in seconds, which several
// others have taken over.
func boundsVLLM() bounds {
	first := []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	token := []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	phase := []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	return bounds{
		firstToken: first, interToken: token, perToken: token,
		endToEnd: phase, queueTime: phase, inferenceTime: phase, prefillTime: phase, decodeTime: phase,
	}
}

// modelAndEngine are the labels of vLLM and LMDeploy: the served name, and the
// replica.
func modelAndEngine(v *view) prometheus.Labels {
	return prometheus.Labels{"model_name": v.o.Model, "engine": strconv.Itoa(v.replica)}
}

// finishedBy counts ended requests by vLLM's finished_reason.
func finishedBy(v *view) map[string]float64 {
	by := make(map[string]float64)
	for reason, n := range v.stats.finished {
		by[string(reason)] = float64(n)
	}
	return by
}

// vllmMetrics is the page of vLLM's V1 engine.
func vllmMetrics(*Options) *metricsPage {
	return &metricsPage{path: "/metrics", bounds: boundsVLLM(), groups: []group{
		{scope: eachReplica, labels: modelAndEngine, families: []family{
			gauge("vllm:num_requests_running", "Requests in the batch.", (*view).requestsRunning),
			gauge("vllm:num_requests_waiting", "Requests in the queue.", (*view).requestsWaiting),
			gauge("vllm:kv_cache_usage_perc", "Part of the KV cache in use, 0 to 1.", (*view).blocksRatio),
			counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", (*view).queryTokens),
			counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", (*view).hitTokens),
			counter("vllm:prompt_tokens_total", "Prompt tokens prefilled, cached ones included.", (*view).promptTokens),
			counter("vllm:prompt_tokens_cached_total", "Prompt tokens that came from the prefix cache.", (*view).cachedTokens),
			counter("vllm:generation_tokens_total", "Tokens generated.", (*view).generatedTokens),
			counter("vllm:num_preemptions_total", "Requests preempted.", (*view).preemptions),
			counters("vllm:request_success_total", "Requests finished.", "finished_reason", finishedBy),
			distribution("vllm:time_to_first_token_seconds", "Time from arrival to the first token.", firstToken),
			distribution("vllm:inter_token_latency_seconds", "Time between two tokens of a request.", interToken),
			distribution("vllm:request_time_per_output_token_seconds", "Mean time per output token of a request.", perToken),
			distribution("vllm:e2e_request_latency_seconds", "Time from arrival to the last token.", endToEnd),
			distribution("vllm:request_queue_time_seconds", "Time in the queue.", queueTime),
			distribution("vllm:request_inference_time_seconds", "Time in the batch.", inferenceTime),
			distribution("vllm:request_prefill_time_seconds", "Time from entering the batch to the first token.", prefillTime),
			distribution("vllm:request_decode_time_seconds", "Time from the first token to the last.", decodeTime),
		}},
		{scope: eachReplica, labels: cacheConfig, families: []family{
			gauge("vllm:cache_config_info", "Configuration of the KV cache.", one),
		}},
	}}
}

func cacheConfig(v *view) prometheus.Labels {
	return prometheus.Labels{
		"engine": strconv.Itoa(v.replica), "block_size": strconv.Itoa(v.o.BlockSize),
		"num_gpu_blocks": strconv.Itoa(v.o.Blocks), "enable_prefix_caching": "True",
	}
}
