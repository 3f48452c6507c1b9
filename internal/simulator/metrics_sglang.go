package simulator

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// sglangMetrics is the page of SGLang in 2026. What a scheduler knows is per
// replica; what the front end knows comes with the end of a request.
func sglangMetrics(*Options) *metricsPage {
	return &metricsPage{path: "/metrics", bounds: boundsSGLang(), groups: []group{
		{scope: eachReplica, labels: sglangScheduler, families: sglangSchedulerFamilies()},
		{scope: eachClass, labels: sglangRequest, families: []family{
			counter("sglang:prompt_tokens_total", "Prompt tokens of ended requests, cached ones included.", (*view).endedPrompt),
			counter("sglang:generation_tokens_total", "Tokens generated for ended requests.", (*view).endedGenerated),
			counters("sglang:cached_tokens_total", "Cached prompt tokens of ended requests.", "cache_source", sglangCached),
			counter("sglang:num_requests_total", "Requests ended.", (*view).requestsEnded),
			counter("sglang:num_aborted_requests_total", "Requests aborted.", (*view).requestsAborted),
			distribution("sglang:time_to_first_token_seconds", "Time to the first token.", firstToken),
			distribution("sglang:inter_token_latency_seconds", "Time between two tokens.", interToken),
			distribution("sglang:e2e_request_latency_seconds", "Time to the last token.", endToEnd),
		}},
	}}
}

func boundsSGLang() bounds {
	first := []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	return bounds{
		firstToken: first,
		interToken: {.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8},
		endToEnd:   append(first[:len(first):len(first)], 600, 1200, 1800, 2400),
		queueTime: {
			0, .001, .005, .01, .05, .1, .2, .5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100,
			200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000,
		},
	}
}

// sglangScheduler are the labels of a scheduler; dp_rank is there under data
// parallelism only.
func sglangScheduler(v *view) prometheus.Labels {
	l := prometheus.Labels{
		"model_name": v.o.Model, "engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0",
	}
	if v.o.Replicas > 1 {
		l["dp_rank"] = strconv.Itoa(v.replica)
	}
	return l
}

func sglangRequest(v *view) prometheus.Labels {
	return prometheus.Labels{
		"model_name": v.o.Model, "engine_type": "unified", "is_streaming": strconv.FormatBool(v.class == streaming),
	}
}

// sglangSchedulerFamilies hold some that mislead: cache_hit_rate and
// num_retracted_reqs, which are of the latest interval only and mostly 0, and
// fwd_occupancy, which is no number before its first measurement.
func sglangSchedulerFamilies() []family {
	return []family{
		gauge("sglang:num_running_reqs", "Requests in the batch.", (*view).requestsRunning),
		gauge("sglang:num_queue_reqs", "Requests in the queue.", (*view).requestsWaiting),
		gauge("sglang:num_grammar_queue_reqs", "Requests that wait for a grammar.", none),
		gauge("sglang:token_usage", "Part of the KV cache in use, 0 to 1.", (*view).blocksRatio),
		gauge("sglang:full_token_usage", "Part of the pool of full attention in use, 0 to 1.", (*view).blocksRatio),
		gauge("sglang:num_used_tokens", "Tokens in use.", (*view).tokensUsed),
		gauge("sglang:kv_used_tokens", "Tokens in use.", (*view).tokensUsed),
		gauge("sglang:kv_available_tokens", "Free tokens without content.", (*view).tokensEmpty),
		gauge("sglang:kv_evictable_tokens", "Free tokens whose content is kept.", (*view).tokensEvictable),
		gauge("sglang:max_total_num_tokens", "Tokens that the KV cache holds.", (*view).capacity),
		gauge("sglang:page_size", "Tokens in a page.", (*view).blockSize),
		gauge("sglang:num_pages", "Pages of the KV cache.", (*view).blocksTotal),
		gauge("sglang:context_len", "Tokens that a request may have.", (*view).contextLength),
		gauge("sglang:cache_hit_rate", "Hit rate of the last prefill batch.", none),
		gauge("sglang:num_retracted_reqs", "Requests retracted in the last interval.", none),
		gauge("sglang:fwd_occupancy", "Occupancy of the forward pass.", func(*view) float64 { return math.NaN() }),
		counter("sglang:evicted_tokens_total", "Tokens evicted.", (*view).tokensEvicted),
		counter("sglang:num_retracted_requests_total", "Requests retracted.", (*view).preemptions),
		counters("sglang:realtime_tokens_total", "Tokens as they are processed.", "mode", sglangRealtime),
		counters("sglang:prefill_effective_tokens_total", "Tokens of prompts, retracted ones once.", "mode", sglangEffective),
		distribution("sglang:queue_time_seconds", "Time in the queue.", queueTime),
	}
}

// sglangCached has no series before the first hit.
func sglangCached(v *view) map[string]float64 {
	if v.stats.ended.Cached == 0 {
		return nil
	}
	return map[string]float64{"device": v.endedCached()}
}

// sglangRealtime counts a token as decoded if a step for it was: the first of
// each request comes with its prefill.
func sglangRealtime(v *view) map[string]float64 {
	decoded := v.stats.generated - v.stats.observed[firstToken].count()
	return map[string]float64{
		"prefill_compute": float64(v.stats.computed), "prefill_cache": float64(v.stats.found), "decode": float64(decoded),
	}
}

func sglangEffective(v *view) map[string]float64 {
	return map[string]float64{"input": v.uncachedTokens(), "device_hit": v.cachedTokens()}
}
