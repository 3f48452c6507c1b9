package simulator

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// page is the server's own metrics in the names of vLLM's V1 engine.
type page struct {
	s    *Server
	desc map[string]*prometheus.Desc
}

func newPage(s *Server) *page {
	p := &page{s: s, desc: make(map[string]*prometheus.Desc)}
	common := []string{"model_name", "engine"}
	add := func(name, help string, more ...string) {
		p.desc[name] = prometheus.NewDesc("vllm:"+name, help, append(common[:2:2], more...), nil)
	}
	add("num_requests_running", "Requests in the batch.")
	add("num_requests_waiting", "Requests in the queue.")
	add("kv_cache_usage_perc", "Part of the KV cache in use, 0 to 1.")
	add("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.")
	add("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")
	add("prompt_tokens_total", "Prompt tokens prefilled, cached ones included.")
	add("prompt_tokens_cached_total", "Prompt tokens that came from the prefix cache.")
	add("generation_tokens_total", "Tokens generated.")
	add("num_preemptions_total", "Requests preempted.")
	add("request_success_total", "Requests finished.", "finished_reason")
	add("time_to_first_token_seconds", "Time from arrival to the first token.")
	add("inter_token_latency_seconds", "Time between two tokens of a request.")
	add("request_time_per_output_token_seconds", "Mean time per output token of a request.")
	add("e2e_request_latency_seconds", "Time from arrival to the last token.")
	add("request_queue_time_seconds", "Time in the queue.")
	add("request_inference_time_seconds", "Time in the batch.")
	add("request_prefill_time_seconds", "Time from entering the batch to the first token.")
	add("request_decode_time_seconds", "Time from the first token to the last.")
	p.desc["cache_config_info"] = prometheus.NewDesc("vllm:cache_config_info", "Configuration of the KV cache.",
		[]string{"engine", "block_size", "num_gpu_blocks", "enable_prefix_caching"}, nil)
	return p
}

// Describe sends the descriptions.
func (p *page) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range p.desc {
		ch <- d
	}
}

// Collect sends the state of each replica as of now.
func (p *page) Collect(ch chan<- prometheus.Metric) {
	for i, r := range p.s.replicas {
		p.collect(ch, strconv.Itoa(i), r)
	}
}

func (p *page) collect(ch chan<- prometheus.Metric, engine string, r *replica) {
	r.mu.Lock()
	running, waiting, used := len(r.running), len(r.waiting), r.pool.inUse()
	st := r.stats.clone()
	r.mu.Unlock()

	send := func(name string, t prometheus.ValueType, v float64, more ...string) {
		labels := append([]string{p.s.o.Model, engine}, more...)
		ch <- prometheus.MustNewConstMetric(p.desc[name], t, v, labels...)
	}
	gauge := func(name string, v float64) { send(name, prometheus.GaugeValue, v) }
	counter := func(name string, v uint64) { send(name, prometheus.CounterValue, float64(v)) }
	hist := func(name string, h *histogram) {
		count, buckets := h.cumulative()
		ch <- prometheus.MustNewConstHistogram(p.desc[name], count, h.sum, buckets, p.s.o.Model, engine)
	}
	gauge("num_requests_running", float64(running))
	gauge("num_requests_waiting", float64(waiting))
	gauge("kv_cache_usage_perc", float64(used)/float64(p.s.o.Blocks))
	counter("prefix_cache_queries_total", st.queries)
	counter("prefix_cache_hits_total", st.hits)
	counter("prompt_tokens_total", st.prompt)
	counter("prompt_tokens_cached_total", st.cached)
	counter("generation_tokens_total", st.generated)
	counter("num_preemptions_total", st.preemptions)
	for reason, n := range st.finished {
		send("request_success_total", prometheus.CounterValue, float64(n), string(reason))
	}
	hist("time_to_first_token_seconds", &st.ttft)
	hist("inter_token_latency_seconds", &st.interToken)
	hist("request_time_per_output_token_seconds", &st.perToken)
	hist("e2e_request_latency_seconds", &st.e2e)
	hist("request_queue_time_seconds", &st.queue)
	hist("request_inference_time_seconds", &st.inference)
	hist("request_prefill_time_seconds", &st.prefill)
	hist("request_decode_time_seconds", &st.decoding)
	ch <- prometheus.MustNewConstMetric(p.desc["cache_config_info"], prometheus.GaugeValue, 1,
		engine, strconv.Itoa(p.s.o.BlockSize), strconv.Itoa(p.s.o.Blocks), "True")
}
