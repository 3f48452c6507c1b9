package simulator

import (
	"maps"
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/internal/page/testdata/pages/servers"
)

// metricsPage is the page with an engine's own metrics: of most engines a
// sample that never changes, of those with live metrics what the replicas do.
type metricsPage struct {
	path   string
	sample string // a file of package pages
	live   func(*Options) *liveMetrics
}

// serveMetrics is the engine's metrics page, in the text format, which is all
// that these servers have in common.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	page, err := s.metricsText()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(page) // the client is gone
}

func (s *Server) metricsText() ([]byte, error) {
	if s.metrics == nil {
		return servers.FS.ReadFile(s.identity.metrics.sample)
	}
	return textOf(s.metrics.registry)
}

// liveMetrics are metrics of an engine that change with what the replicas do.
type liveMetrics struct {
	registry *prometheus.Registry
	// values are read from the state of a replica at each scrape.
	values func(o *Options, replica int, s *State) []value
	// observers are called as requests pass.
	observers [quantities]observer
}

// value is one series of a gauge or a counter.
type value struct {
	kind       prometheus.ValueType
	name, help string
	labels     prometheus.Labels
	n          float64
}

// quantity is what is observed of a request; in seconds where it is a time.
type quantity int

// The quantities. Those without another instant are observed at the end of a
// request that was not aborted.
const (
	firstToken      quantity = iota // time from arrival to the first token, observed then
	interToken                      // time between two tokens, observed at the second
	perToken                        // mean time per output token after the first
	endToEnd                        // time from arrival to the last token
	queueTime                       // time until the request entered a batch
	inferenceTime                   // time from then to the last token
	prefillTime                     // time from then to the first token
	decodeTime                      // time from the first token to the last
	promptTokens                    //
	cachedTokens                    // those of the prompt found in the prefix cache, if any
	generatedTokens                 //
	completed                       // 1
	aborted                         // 1, observed at an abort
	quantities                      // how many there are
)

// observer takes an observation of a request of a replica.
type observer func(replica int, streaming bool, v float64)

// perReplica adds a histogram for each replica.
func (m *liveMetrics) perReplica(o *Options, of quantity, opts prometheus.HistogramOpts, labels func(*Options, int) prometheus.Labels) {
	var histograms []prometheus.Observer
	for i := range o.Replicas {
		opts.ConstLabels = labels(o, i)
		h := prometheus.NewHistogram(opts)
		m.registry.MustRegister(h)
		histograms = append(histograms, h)
	}
	m.observers[of] = func(replica int, _ bool, v float64) { histograms[replica].Observe(v) }
}

// observe reports an observation of q to the metrics page.
func (r *replica) observe(q *sequence, of quantity, v float64) {
	if r.metrics == nil {
		return
	}
	if f := r.metrics.observers[of]; f != nil {
		f(r.index, q.streaming, v)
	}
}

// observeEnd reports a request that was not aborted; q.last is the instant of
// its last token.
func (r *replica) observeEnd(q *sequence, p *progress) {
	r.observe(q, endToEnd, q.last.Sub(p.arrival).Seconds())
	r.observe(q, queueTime, p.scheduled.Sub(p.arrival).Seconds())
	r.observe(q, inferenceTime, q.last.Sub(p.scheduled).Seconds())
	r.observe(q, prefillTime, p.first.Sub(p.scheduled).Seconds())
	r.observe(q, decodeTime, q.last.Sub(p.first).Seconds())
	if p.tokens > 1 {
		r.observe(q, perToken, q.last.Sub(p.first).Seconds()/float64(p.tokens-1))
	}
	r.observe(q, promptTokens, float64(q.prompt))
	if p.cached > 0 {
		r.observe(q, cachedTokens, float64(p.cached))
	}
	r.observe(q, generatedTokens, float64(p.tokens))
	r.observe(q, completed, 1)
}

// stateCollector collects the values of a server.
type stateCollector struct{ s *Server }

// Describe sends nothing: the series depend on the options.
func (stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the values of all replicas as of now.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	for i, state := range c.s.State() {
		for _, v := range c.s.metrics.values(&c.s.o, i, &state) {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(v.name, v.help, nil, v.labels), v.kind, v.n)
		}
	}
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// with returns labels with one more.
func with(labels prometheus.Labels, name, value string) prometheus.Labels {
	l := maps.Clone(labels)
	l[name] = value
	return l
}

// vllmMetrics is the page of vLLM's V1 engine.
func vllmMetrics(o *Options) *liveMetrics {
	first := []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	token := []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	phase := []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	m := &liveMetrics{registry: prometheus.NewRegistry(), values: vllmValues}
	add := func(of quantity, name, help string, buckets []float64) {
		m.perReplica(o, of, prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, vllmLabels)
	}
	add(firstToken, "vllm:time_to_first_token_seconds", "Time from arrival to the first token.", first)
	add(interToken, "vllm:inter_token_latency_seconds", "Time between two tokens of a request.", token)
	add(perToken, "vllm:request_time_per_output_token_seconds", "Mean time per output token of a request.", token)
	add(endToEnd, "vllm:e2e_request_latency_seconds", "Time from arrival to the last token.", phase)
	add(queueTime, "vllm:request_queue_time_seconds", "Time in the queue.", phase)
	add(inferenceTime, "vllm:request_inference_time_seconds", "Time in the batch.", phase)
	add(prefillTime, "vllm:request_prefill_time_seconds", "Time from entering the batch to the first token.", phase)
	add(decodeTime, "vllm:request_decode_time_seconds", "Time from the first token to the last.", phase)
	add(promptTokens, "vllm:request_prompt_tokens", "Prompt tokens of a request.", lengthBounds(o.ContextLength))
	add(generatedTokens, "vllm:request_generation_tokens", "Tokens generated for a request.", lengthBounds(o.ContextLength))
	return m
}

// lengthBounds are 1, 2, 5, 10 and so on, up to a length.
func lengthBounds(most int) []float64 {
	var all []float64
	for power := 1; power <= most; power *= 10 {
		for _, n := range []int{1, 2, 5} {
			if n*power <= most {
				all = append(all, float64(n*power))
			}
		}
	}
	return all
}

func vllmLabels(o *Options, replica int) prometheus.Labels {
	return prometheus.Labels{"model_name": o.Model, "engine": strconv.Itoa(replica)}
}

func vllmValues(o *Options, replica int, s *State) []value {
	l := vllmLabels(o, replica)
	values := []value{
		{gauge, "vllm:num_requests_running", "Requests in the batch.", l, float64(s.Running)},
		{gauge, "vllm:num_requests_waiting", "Requests in the queue.", l, float64(s.Waiting)},
		{gauge, "vllm:kv_cache_usage_perc", "Part of the KV cache in use, 0 to 1.", l, s.usage()},
		{counter, "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", l, float64(s.PrefixQueries)},
		{counter, "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", l, float64(s.PrefixHits)},
		{counter, "vllm:prompt_tokens_total", "Prompt tokens prefilled, cached ones included.", l, float64(s.PromptTokens)},
		{counter, "vllm:prompt_tokens_cached_total", "Prompt tokens that came from the prefix cache.", l, float64(s.CachedTokens)},
		{counter, "vllm:generation_tokens_total", "Tokens generated.", l, float64(s.GeneratedTokens)},
		{counter, "vllm:num_preemptions_total", "Requests preempted.", l, float64(s.Preemptions)},
		{gauge, "vllm:cache_config_info", "Configuration of the KV cache.", prometheus.Labels{
			"engine": l["engine"], "block_size": strconv.Itoa(o.BlockSize),
			"num_gpu_blocks": strconv.Itoa(o.Blocks), "enable_prefix_caching": "True",
		}, 1},
	}
	for reason, n := range s.Finished {
		values = append(values, value{counter, "vllm:request_success_total", "Requests finished.", with(l, "finished_reason", reason), float64(n)})
	}
	return values
}

// sglangMetrics is the page of SGLang in 2026. A scheduler counts per replica;
// the front end counts at the end of a request, by the kind of its reply.
func sglangMetrics(o *Options) *liveMetrics {
	first := []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	token := []float64{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}
	total := append(first[:len(first):len(first)], 600, 1200, 1800, 2400)
	queue := []float64{
		0, .001, .005, .01, .05, .1, .2, .5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100,
		200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000,
	}
	m := &liveMetrics{registry: prometheus.NewRegistry(), values: sglangValues}
	l := prometheus.Labels{"model_name": o.Model, "engine_type": "unified"}
	histogram := func(of quantity, name, help string, buckets []float64) {
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, ConstLabels: l}, []string{"is_streaming"})
		m.registry.MustRegister(vec)
		m.observers[of] = func(_ int, streaming bool, v float64) { vec.WithLabelValues(strconv.FormatBool(streaming)).Observe(v) }
	}
	sum := func(of quantity, name, help string, labels prometheus.Labels) {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, []string{"is_streaming"})
		m.registry.MustRegister(vec)
		m.observers[of] = func(_ int, streaming bool, v float64) { vec.WithLabelValues(strconv.FormatBool(streaming)).Add(v) }
	}
	histogram(firstToken, "sglang:time_to_first_token_seconds", "Time to the first token.", first)
	histogram(interToken, "sglang:inter_token_latency_seconds", "Time between two tokens.", token)
	histogram(endToEnd, "sglang:e2e_request_latency_seconds", "Time to the last token.", total)
	sum(promptTokens, "sglang:prompt_tokens_total", "Prompt tokens of ended requests, cached ones included.", l)
	sum(generatedTokens, "sglang:generation_tokens_total", "Tokens generated for ended requests.", l)
	sum(cachedTokens, "sglang:cached_tokens_total", "Cached prompt tokens of ended requests.", with(l, "cache_source", "device"))
	sum(completed, "sglang:num_requests_total", "Requests ended.", l)
	sum(aborted, "sglang:num_aborted_requests_total", "Requests aborted.", l)

	m.perReplica(o, queueTime, prometheus.HistogramOpts{
		Name: "sglang:queue_time_seconds", Help: "Time in the queue.", Buckets: queue,
	}, schedulerLabels)
	return m
}

// schedulerLabels are the labels of an SGLang scheduler; dp_rank is there under
// data parallelism only.
func schedulerLabels(o *Options, replica int) prometheus.Labels {
	l := prometheus.Labels{
		"model_name": o.Model, "engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0",
	}
	if o.Replicas > 1 {
		l["dp_rank"] = strconv.Itoa(replica)
	}
	return l
}

// sglangValues hold some that mislead: cache_hit_rate and num_retracted_reqs,
// which are of the latest interval only and mostly 0, and fwd_occupancy, which
// is NaN before its first measurement.
func sglangValues(o *Options, replica int, s *State) []value {
	l := schedulerLabels(o, replica)
	tokens := func(blocks int) float64 { return float64(blocks * o.BlockSize) }
	const realtime, effective = "sglang:realtime_tokens_total", "sglang:prefill_effective_tokens_total"
	return []value{
		{gauge, "sglang:num_running_reqs", "Requests in the batch.", l, float64(s.Running)},
		{gauge, "sglang:num_queue_reqs", "Requests in the queue.", l, float64(s.Waiting)},
		{gauge, "sglang:num_grammar_queue_reqs", "Requests that wait for a grammar.", l, 0},
		{gauge, "sglang:token_usage", "Part of the KV cache in use, 0 to 1.", l, s.usage()},
		{gauge, "sglang:full_token_usage", "Part of the pool of full attention in use, 0 to 1.", l, s.usage()},
		{gauge, "sglang:num_used_tokens", "Tokens in use.", l, tokens(s.BlocksInUse)},
		{gauge, "sglang:kv_used_tokens", "Tokens in use.", l, tokens(s.BlocksInUse)},
		{gauge, "sglang:kv_available_tokens", "Free tokens without content.", l, tokens(s.Blocks - s.BlocksInUse - s.EvictableBlocks)},
		{gauge, "sglang:kv_evictable_tokens", "Free tokens whose content is kept.", l, tokens(s.EvictableBlocks)},
		{gauge, "sglang:max_total_num_tokens", "Tokens that the KV cache holds.", l, tokens(s.Blocks)},
		{gauge, "sglang:page_size", "Tokens in a page.", l, float64(o.BlockSize)},
		{gauge, "sglang:num_pages", "Pages of the KV cache.", l, float64(s.Blocks)},
		{gauge, "sglang:context_len", "Tokens that a request may have.", l, float64(o.ContextLength)},
		{gauge, "sglang:cache_hit_rate", "Hit rate of the last prefill batch.", l, 0},
		{gauge, "sglang:num_retracted_reqs", "Requests retracted in the last interval.", l, 0},
		{gauge, "sglang:fwd_occupancy", "Occupancy of the forward pass.", l, math.NaN()},
		{counter, "sglang:evicted_tokens_total", "Tokens evicted.", l, float64(s.EvictedBlocks) * float64(o.BlockSize)},
		{counter, "sglang:num_retracted_requests_total", "Requests retracted.", l, float64(s.Preemptions)},
		{counter, realtime, "Tokens as they are processed.", with(l, "mode", "prefill_compute"), float64(s.PrefillComputed)},
		{counter, realtime, "Tokens as they are processed.", with(l, "mode", "prefill_cache"), float64(s.PrefillCached)},
		// The first token of a request comes with its prefill.
		{counter, realtime, "Tokens as they are processed.", with(l, "mode", "decode"), float64(s.GeneratedTokens - s.FirstTokens)},
		{counter, effective, "Tokens of prompts, retracted ones once.", with(l, "mode", "input"), float64(s.PromptTokens - s.CachedTokens)},
		{counter, effective, "Tokens of prompts, retracted ones once.", with(l, "mode", "device_hit"), float64(s.CachedTokens)},
	}
}
