package simulator

// teiMetrics is the page of text-embeddings-inference: of the requests that
// generate nothing. They are answered at once, so that nothing queues.
func teiMetrics(*Options) *metricsPage {
	families := []family{
		gauge("te_queue_size", "Texts in the queue.", none),
		counters("te_request_count", "Requests.", "method", func(v *view) map[string]float64 { return floats(v.inputs.begun) }),
		counters("te_request_success", "Requests answered.", "method", func(v *view) map[string]float64 {
			return floats(v.inputs.succeeded)
		}),
		counters("te_request_failure", "Requests not answered.", "err", func(v *view) map[string]float64 {
			return happened(map[string]float64{"validation": float64(v.inputs.invalid)})
		}),
		inputHistogram("te_request_input_length", "Tokens of a text.", func(c *inputCounts) *histogram { return &c.textTokens }),
		inputHistogram("te_batch_next_size", "Texts in a batch.", func(c *inputCounts) *histogram { return &c.batchTexts }),
		inputHistogram("te_batch_next_tokens", "Tokens in a batch.", func(c *inputCounts) *histogram { return &c.batchTokens }),
	}
	families = append(families, teiTimes("te_request", func(c *inputCounts) *histogram { return &c.requestTime })...)
	for t, prefix := range []string{embed: "te_embed", predict: "te_predict"} {
		families = append(families,
			counter(prefix+"_count", "Texts.", func(v *view) float64 { return float64(v.inputs.texts[t]) }),
			counter(prefix+"_success", "Texts answered.", func(v *view) float64 { return float64(v.inputs.done[t]) }),
		)
		families = append(families, teiTimes(prefix, func(c *inputCounts) *histogram { return &c.textTime[t] })...)
	}
	return &metricsPage{path: "/metrics", groups: []group{{scope: together, families: families}}}
}

// teiTimes are the times of requests or texts, in seconds: all of it is that of
// the model.
func teiTimes(prefix string, pick func(*inputCounts) *histogram) []family {
	nothing := func(c *inputCounts) *histogram { return pick(c).zeros() }
	return []family{
		inputHistogram(prefix+"_duration", "Time of all.", pick),
		inputHistogram(prefix+"_tokenization_duration", "Time of the tokenizer.", nothing),
		inputHistogram(prefix+"_queue_duration", "Time in the queue.", nothing),
		inputHistogram(prefix+"_inference_duration", "Time of the model.", pick),
	}
}

func inputHistogram(name, help string, pick func(*inputCounts) *histogram) family {
	return family{name: name, help: help, scale: 1, histogram: func(v *view) *histogram { return pick(v.inputs) }}
}

func floats(counts map[string]uint64) map[string]float64 {
	f := make(map[string]float64, len(counts))
	for name, n := range counts {
		f[name] = float64(n)
	}
	return f
}
