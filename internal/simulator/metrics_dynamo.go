package simulator

import "github.com/prometheus/client_golang/prometheus"

// dynamoMetrics is the page of Dynamo's front end. It does not see the engines:
// no batch, and a queue that lasts until the first token.
func dynamoMetrics(o *Options) *metricsPage {
	lengths := oneTwoFive(o.ContextLength)
	labels := func(v *view) prometheus.Labels { return prometheus.Labels{"model": v.o.Model} }
	return &metricsPage{
		path: "/metrics",
		bounds: bounds{
			firstToken:   {0, .0022, .0047, .01, .022, .047, .1, .22, .47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480},
			interToken:   {0, .0019, .0035, .0067, .013, .024, .045, .084, .16, .3, .56, 1.1, 2},
			endToEnd:     {0, 1.9, 3.4, 6.3, 12, 22, 40, 75, 140, 260},
			promptLength: lengths, outputLength: lengths, cachedLength: lengths,
		},
		groups: []group{
			{scope: together, labels: labels, families: []family{
				gauge("dynamo_frontend_active_requests", "Requests not yet ended.", (*view).requestsInside),
				gauge("dynamo_frontend_inflight_requests", "Requests not yet ended.", (*view).requestsInside),
				gauge("dynamo_frontend_queued_requests", "Requests without a token.", func(v *view) float64 {
					return float64(v.waiting + v.prefilling)
				}),
				counter("dynamo_frontend_output_tokens_total", "Tokens generated.", (*view).generatedTokens),
				gauge("dynamo_frontend_model_context_length", "Tokens that a request may have.", (*view).contextLength),
				gauge("dynamo_frontend_model_kv_cache_block_size", "Tokens in a block.", (*view).blockSize),
				gauge("dynamo_frontend_model_total_kv_blocks", "Blocks of a worker.", func(v *view) float64 {
					return float64(v.o.Blocks)
				}),
				gauge("dynamo_frontend_model_max_num_seqs", "Requests that a worker batches.", func(v *view) float64 {
					return float64(v.o.Slots)
				}),
				distribution("dynamo_frontend_time_to_first_token_seconds", "Time to the first token.", firstToken),
				distribution("dynamo_frontend_inter_token_latency_seconds", "Time between two tokens.", interToken),
				distribution("dynamo_frontend_request_duration_seconds", "Time to the last token.", endToEnd),
				distribution("dynamo_frontend_input_sequence_tokens", "Prompt tokens of a request.", promptLength),
				distribution("dynamo_frontend_output_sequence_tokens", "Generated tokens of a request.", outputLength),
				distribution("dynamo_frontend_cached_tokens", "Cached prompt tokens of a request.", cachedLength),
			}},
			{scope: eachClass, labels: dynamoRequest, families: []family{
				counters("dynamo_frontend_requests_total", "Requests.", "status", func(v *view) map[string]float64 {
					return map[string]float64{"success": v.requestsEnded(), "error": v.requestsRefused() + v.requestsAborted()}
				}),
			}},
		},
	}
}

// dynamoRequest does not tell the paths apart: all are called chat.
func dynamoRequest(v *view) prometheus.Labels {
	kind := "unary"
	if v.class == streaming {
		kind = "stream"
	}
	return prometheus.Labels{"model": v.o.Model, "endpoint": "chat_completions", "request_type": kind}
}
