package simulator

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// tritonMetrics is the page of Triton with the TensorRT-LLM backend and
// latency histograms on. Real ones have it on a port of its own. The label
// model is Triton's, not the language model.
func tritonMetrics(*Options) *metricsPage {
	seconds := []float64{.1, .5, 2, 5}
	tokens := []float64{10, 50, 100, 500, 1000}
	labels := func(*view) prometheus.Labels { return prometheus.Labels{"model": "tensorrt_llm", "version": "1"} }
	first := distribution("nv_inference_first_response_histogram_ms", "Time to the first response, ms.", firstResponse)
	first.scale = 1000
	return &metricsPage{
		path:   "/metrics",
		bounds: bounds{firstResponse: seconds, promptLength: tokens, outputLength: tokens},
		groups: []group{
			{scope: together, labels: labels, families: append(tritonBackend(), first,
				counter("nv_inference_request_success", "Requests answered.", (*view).requestsEnded),
				counters("nv_inference_request_failure", "Requests not answered.", "reason", tritonFailures),
				counter("nv_inference_count", "Inferences.", (*view).requestsEnded),
				counter("nv_inference_exec_count", "Executions.", (*view).requestsEnded),
				gauge("nv_inference_pending_request_count", "Requests not yet in a backend.", none),
				counter("nv_inference_request_duration_us", "Time of requests, µs.", microseconds(endToEnd)),
				counter("nv_inference_queue_duration_us", "Time in the queue, µs.", microseconds(queueTime)),
				counter("nv_inference_compute_input_duration_us", "Time to prepare the input, µs.", none),
				counter("nv_inference_compute_infer_duration_us", "Time in the batch, µs.", microseconds(inferenceTime)),
				counter("nv_inference_compute_output_duration_us", "Time to take the output, µs.", none),
			)},
			{scope: together, labels: withLabel(labels, "response_metric_type", "total_input_tokens"), families: []family{
				distribution("nv_llm_input_token_len", "Prompt tokens of a request.", promptLength),
			}},
			{scope: together, labels: withLabel(labels, "response_metric_type", "total_output_tokens"), families: []family{
				distribution("nv_llm_output_token_len", "Generated tokens of a request.", outputLength),
			}},
		},
	}
}

// tritonBackend is what the TensorRT-LLM backend adds: families of several
// units, told apart by a label.
func tritonBackend() []family {
	return []family{
		gauges("nv_trt_llm_request_metrics", "Requests.", "request_type", func(v *view) map[string]float64 {
			return map[string]float64{
				"waiting": v.requestsWaiting(), "scheduled": v.requestsRunning(), "active": v.requestsInside(),
				"context": float64(v.prefilling), "max": v.requestsMax(),
			}
		}),
		gauges("nv_trt_llm_kv_cache_block_metrics", "KV cache.", "kv_cache_block_type", func(v *view) map[string]float64 {
			return map[string]float64{
				"max": v.blocksTotal(), "free": v.blocksFree(), "used": v.blocksUsed(), "tokens_per": v.blockSize(),
				"reused": v.blocksReused(), "fraction": v.blocksRatio(),
			}
		}),
		gauges("nv_trt_llm_inflight_batcher_metrics", "Batcher.", "inflight_batcher_specific_metric",
			func(v *view) map[string]float64 {
				return map[string]float64{
					"total_context_tokens": float64(v.prefill), "generation_requests": float64(v.running - v.prefilling),
					"micro_batch_id": 0, "paused_requests": v.requestsPaused(),
				}
			}),
		gauges("nv_trt_llm_general_metrics", "General.", "general_type", func(v *view) map[string]float64 {
			return map[string]float64{"timestamp": float64(time.Now().UnixMicro()), "iteration_counter": v.steps()}
		}),
	}
}

func tritonFailures(v *view) map[string]float64 {
	return map[string]float64{"REJECTED": v.requestsRefused(), "CANCELED": v.requestsAborted(), "BACKEND": 0, "OTHER": 0}
}

// microseconds is the sum of a quantity that is a time, as a whole number of
// microseconds.
func microseconds(q quantity) func(*view) float64 {
	return func(v *view) float64 { return math.Round(v.stats.observed[q].sum * 1e6) }
}
