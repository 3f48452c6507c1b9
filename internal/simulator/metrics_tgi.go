package simulator

// tgiMetrics is the page of TGI: no labels for the model, no unit in the names.
func tgiMetrics(o *Options) *metricsPage {
	seconds := geometric(.00015, 1.5, 35)
	return &metricsPage{
		path: "/metrics",
		bounds: bounds{
			endToEnd: seconds, queueTime: seconds, inferenceTime: seconds, meanToken: seconds,
			arrivedLength: linear(float64(o.ContextLength-1)/100, 100),
			outputLength:  linear(float64(o.ContextLength)/100, 100),
			batchSize:     linear(1, 1024),
		},
		groups: []group{{scope: together, families: []family{
			gauge("tgi_queue_size", "Requests in the queue.", (*view).requestsWaiting),
			gauge("tgi_batch_current_size", "Requests in the batch.", (*view).requestsRunning),
			gauge("tgi_batch_current_max_tokens", "Tokens that the batch may come to hold.", (*view).tokensReserved),
			gauge("tgi_batch_max_total_tokens", "Tokens that fit.", (*view).capacity),
			counter("tgi_request_count", "Requests.", (*view).requestsSeen),
			counter("tgi_request_success", "Requests answered.", (*view).requestsEnded),
			counters("tgi_request_failure", "Requests not answered.", "err", tgiFailures),
			distribution("tgi_request_input_length", "Prompt tokens of a request, at arrival.", arrivedLength),
			distribution("tgi_request_generated_tokens", "Generated tokens of a request.", outputLength),
			distribution("tgi_request_duration", "Time to the last token.", endToEnd),
			distribution("tgi_request_queue_duration", "Time in the queue.", queueTime),
			distribution("tgi_request_inference_duration", "Time in the batch.", inferenceTime),
			distribution("tgi_request_mean_time_per_token_duration", "Time in the batch over generated tokens.", meanToken),
			distribution("tgi_batch_next_size", "Requests in a batch.", batchSize),
		}}},
	}
}

// tgiFailures has a series from the first failure of its kind on.
func tgiFailures(v *view) map[string]float64 {
	return happened(map[string]float64{"overloaded": v.requestsRefused(), "dropped": v.requestsAborted()})
}
