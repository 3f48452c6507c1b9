package simulator

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// trtllmMetrics is the page of trtllm-serve, beside /metrics, which is JSON.
func trtllmMetrics(*Options) *metricsPage {
	b := boundsVLLM()
	b[prefillTime] = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560}
	labels := func(v *view) prometheus.Labels {
		return prometheus.Labels{"model_name": v.o.Model, "engine_type": "pytorch"}
	}
	return &metricsPage{path: "/prometheus/metrics", bounds: b, groups: []group{
		{scope: together, labels: withLabel(labels, "pid", "41"), families: trtllmGauges()},
		{scope: together, labels: labels, families: []family{
			counters("trtllm_request_success_total", "Requests ended.", "finished_reason", trtllmFinished),
			counters("trtllm_request_error_total", "Requests refused.", "http_code", trtllmErrors),
			counter("trtllm_prompt_tokens_total", "Prompt tokens of ended requests, cached ones included.", (*view).endedPrompt),
			counter("trtllm_generation_tokens_total", "Tokens generated for ended requests.", (*view).endedGenerated),
			counter("trtllm_prompt_cached_tokens_total", "Cached prompt tokens of ended requests.", (*view).endedCached),
			counter("trtllm_kv_cache_reused_blocks_total", "Blocks found in the cache.", (*view).blocksReused),
			counter("trtllm_kv_cache_missed_blocks_total", "Blocks not found in the cache.", (*view).blocksMissed),
			distribution("trtllm_time_to_first_token_seconds", "Time to the first token.", firstToken),
			distribution("trtllm_time_per_output_token_seconds", "Mean time per output token of a request.", perToken),
			distribution("trtllm_e2e_request_latency_seconds", "Time to the last token.", endToEnd),
			distribution("trtllm_request_queue_time_seconds", "Time in the queue.", queueTime),
			distribution("trtllm_request_prefill_time_seconds", "Time to the first token, in the batch.", prefillTime),
			distribution("trtllm_request_decode_time_seconds", "Time from the first token to the last.", decodeTime),
			distribution("trtllm_request_inference_time_seconds", "Time in the batch.", inferenceTime),
		}},
		{scope: together, labels: trtllmModel, families: []family{gauge("trtllm_model_config_info", "Model.", one)}},
		{scope: together, labels: trtllmCache, families: []family{gauge("trtllm_kv_cache_config_info", "KV cache.", one)}},
	}}
}

// trtllmGauges are of one process each, as the label pid tells.
func trtllmGauges() []family {
	return []family{
		gauge("trtllm_num_requests_running", "Requests in the batch.", (*view).requestsRunning),
		gauge("trtllm_num_requests_waiting", "Requests in the queue.", (*view).requestsWaiting),
		gauge("trtllm_num_paused_requests", "Requests paused.", (*view).requestsPaused),
		gauge("trtllm_kv_cache_utilization", "Part of the KV cache in use, 0 to 1.", (*view).blocksRatio),
		gauge("trtllm_kv_cache_max_blocks", "Blocks of the KV cache.", (*view).blocksTotal),
		gauge("trtllm_kv_cache_free_blocks", "Free blocks.", (*view).blocksFree),
		gauge("trtllm_kv_cache_used_blocks", "Blocks in use.", (*view).blocksUsed),
		gauge("trtllm_kv_cache_tokens_per_block", "Tokens in a block.", (*view).blockSize),
		gauge("trtllm_kv_cache_hit_rate", "Blocks found over blocks looked up.", func(v *view) float64 {
			return ratio(v.stats.reusedBlocks, v.stats.reusedBlocks+v.stats.missedBlocks)
		}),
	}
}

func trtllmFinished(v *view) map[string]float64 {
	return map[string]float64{
		"stop": float64(v.stats.finished[finishStop]), "length": float64(v.stats.finished[finishLength]),
		"cancelled": v.requestsAborted(), "timeout": 0,
	}
}

func trtllmErrors(v *view) map[string]float64 {
	return happened(map[string]float64{strconv.Itoa(http.StatusServiceUnavailable): v.requestsRefused()})
}

func trtllmModel(v *view) prometheus.Labels {
	return prometheus.Labels{
		"model": v.o.Model, "served_model_name": v.o.Model, "dtype": "bfloat16", "quantization": "none",
		"max_model_len": strconv.Itoa(v.o.ContextLength), "gpu_type": "simulated",
	}
}

func trtllmCache(v *view) prometheus.Labels {
	return prometheus.Labels{"page_size": strconv.Itoa(v.o.BlockSize), "enable_block_reuse": "True", "cache_dtype": "auto"}
}

// iterations is GET /metrics of trtllm-serve: statistics of iterations as a
// JSON array. Reading it takes them away from the Prometheus page in some
// versions, which is why readings are counted.
func (s *Server) iterations(w http.ResponseWriter, _ *http.Request) {
	s.iterationReads.Add(1)
	v := together(s.views())[0]
	writeJSON(w, http.StatusOK, []jsonMap{{
		"iter": v.steps(), "numActiveRequests": v.requestsInside(), "numQueuedRequests": v.requestsWaiting(),
		"kvCacheStats": jsonMap{
			"maxNumBlocks": v.blocksTotal(), "freeNumBlocks": v.blocksFree(), "usedNumBlocks": v.blocksUsed(),
			"tokensPerBlock": v.blockSize(), "reusedBlocks": v.blocksReused(), "missedBlocks": v.blocksMissed(),
		},
	}})
}

// IterationReads is how often the JSON statistics of trtllm-serve were read,
// which a reader of metrics must never do.
func (s *Server) IterationReads() uint64 { return s.iterationReads.Load() }
