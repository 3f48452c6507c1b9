package simulator

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// pageOf reads the metrics page at path.
func pageOf(v *serving, path string) map[string]*dto.MetricFamily {
	v.t.Helper()
	status, body := v.get(path)
	if status != http.StatusOK {
		v.t.Fatalf("GET %s: status %d, %s", path, status, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	page, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	return page
}

// total adds up the series of a name that have the labels, which are as
// name=value. A histogram is read by its _sum and _count.
func total(page map[string]*dto.MetricFamily, name string, labels ...string) (sum float64, found bool) {
	value := func(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }
	family := page[name]
	if of, ok := strings.CutSuffix(name, "_sum"); ok && family == nil {
		family = page[of]
		value = func(m *dto.Metric) float64 { return m.GetHistogram().GetSampleSum() }
	} else if of, ok := strings.CutSuffix(name, "_count"); ok && family == nil {
		family = page[of]
		value = func(m *dto.Metric) float64 { return float64(m.GetHistogram().GetSampleCount()) }
	}
	for _, m := range family.GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
			sum, found = sum+value(m), true
		}
	}
	return sum, found
}

// wants returns a check of one series of a page; labels follow its name after
// blanks.
func wants(t *testing.T, engine string, page map[string]*dto.MetricFamily) func(string, float64) {
	return func(series string, want float64) {
		t.Helper()
		fields := strings.Fields(series)
		got, found := total(page, fields[0], fields[1:]...)
		if !found || math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s: %s is %v (found: %v), want %v", engine, series, got, found, want)
		}
	}
}

// pagePaths is where each engine has its page.
func pagePaths() map[string]string {
	return map[string]string{
		"vllm": "/metrics", "sglang": "/metrics", "tgi": "/metrics", "triton": "/metrics", "trtllm": "/prometheus/metrics",
		"nim": "/v1/metrics", "dynamo": "/metrics", "llamacpp": "/metrics", "lmdeploy": "/metrics", "tei": "/metrics",
		"litellm": "/metrics", "ollama": "",
	}
}

// TestSentinels looks for the series by which an engine is known, with their
// type, on the page of a server that had no request yet.
func TestSentinels(t *testing.T) {
	sentinels := map[string]string{
		"vllm": "vllm:num_requests_running GAUGE", "sglang": "sglang:num_running_reqs GAUGE", "tgi": "tgi_queue_size GAUGE",
		"triton": "nv_trt_llm_request_metrics GAUGE", "trtllm": "trtllm_request_success_total COUNTER",
		"nim": "num_request_max GAUGE", "dynamo": "dynamo_frontend_active_requests GAUGE",
		"llamacpp": "llamacpp:requests_processing GAUGE", "lmdeploy": "lmdeploy:num_requests_running GAUGE",
		"tei": "te_queue_size GAUGE", "litellm": "", "ollama": "",
	}
	paths := pagePaths()
	for _, engine := range Engines() {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Engine: engine}, false)
			defer v.stop()
			for _, path := range []string{"/metrics", "/v1/metrics", "/prometheus/metrics"} {
				status, body := v.get(path)
				isJSON := engine == "trtllm" && path == "/metrics"
				if want := path == paths[engine] || isJSON; (status == http.StatusOK) != want {
					t.Errorf("%s: GET %s is answered %d", engine, path, status)
				}
				if path == "/metrics" && strings.HasPrefix(body, "[") != isJSON {
					t.Errorf("%s: GET %s: %.40s", engine, path, body)
				}
			}
			if paths[engine] == "" {
				return
			}
			page := pageOf(v, paths[engine])
			if name, kind, _ := strings.Cut(sentinels[engine], " "); name != "" && page[name].GetType().String() != kind {
				t.Errorf("%s: %s is %v", engine, name, page[name])
			}
			for other, sentinel := range sentinels {
				if name, _, _ := strings.Cut(sentinel, " "); other != engine && page[name] != nil {
					t.Errorf("%s: has %s of %s", engine, name, other)
				}
			}
		})
	}
}

// underLoad calls f with a server of the engine whose two replicas are full,
// after streaming, whole, refused and aborted requests.
func underLoad(t *testing.T, engine string, f func(v *serving, page map[string]*dto.MetricFamily)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{
			Engine: engine, Model: "acme/chat-8b", Replicas: 2, Slots: 2, QueueLimit: 2, Blocks: 20, Background: 7,
			BackgroundInput: 100, BackgroundOutput: 50, PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms,
		}, false)
		defer v.stop()
		ask := `{"prompt":"` + strings.Repeat("four ", 64) + `","max_tokens":9`
		var clients sync.WaitGroup
		for _, more := range []string{`}`, `,"stream":true}`} {
			for range 3 {
				clients.Go(func() {
					for range 4 {
						v.post(context.Background(), "/v1/completions", ask+more, 1<<20)
					}
				})
			}
		}
		clients.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		v.post(ctx, "/v1/completions", `{"prompt":"x","max_tokens":250,"stream":true}`, 1<<20)
		time.Sleep(20*time.Second + 7*ms)
		synctest.Wait()
		f(v, pageOf(v, pagePaths()[engine]))
	})
}

// sumOf adds up the replicas; the ratio of blocks stays to be taken.
func sumOf(states []State) State {
	sum := State{Finished: make(map[string]uint64)}
	for _, s := range states {
		sum.Running += s.Running
		sum.Waiting += s.Waiting
		sum.Blocks += s.Blocks
		sum.BlocksInUse += s.BlocksInUse
		sum.PrefixQueries += s.PrefixQueries
		sum.PrefixHits += s.PrefixHits
		sum.ReusedBlocks += s.ReusedBlocks
		sum.MissedBlocks += s.MissedBlocks
		sum.EvictedBlocks += s.EvictedBlocks
		sum.PromptTokens += s.PromptTokens
		sum.CachedTokens += s.CachedTokens
		sum.GeneratedTokens += s.GeneratedTokens
		sum.Ended.Prompt += s.Ended.Prompt
		sum.Ended.Cached += s.Ended.Cached
		sum.Ended.Generated += s.Ended.Generated
		sum.Steps += s.Steps
		sum.Preemptions += s.Preemptions
		sum.Rejected += s.Rejected
		sum.FirstTokens += s.FirstTokens
		sum.FirstTokenSeconds += s.FirstTokenSeconds
		for reason, n := range s.Finished {
			sum.Finished[reason] += n
		}
	}
	return sum
}

// TestPagesAgreeWithState compares the pages whose series are of all replicas
// together.
func TestPagesAgreeWithState(t *testing.T) {
	f := func(engine string, check func(want func(string, float64), s State)) {
		t.Helper()
		underLoad(t, engine, func(v *serving, page map[string]*dto.MetricFamily) {
			s := sumOf(v.State())
			// Seven background sequences leave one place to the six clients.
			if s.Running == 0 || s.Waiting == 0 || s.Rejected == 0 || s.Preemptions == 0 || s.EvictedBlocks == 0 ||
				s.CachedTokens == 0 || s.Finished["abort"] != 1 || s.Ended.Prompt >= s.PromptTokens {
				t.Errorf("%s: the load does not show all: %+v", engine, s)
			}
			check(wants(t, engine, page), s)
		})
	}
	f("tgi", agreesTGI)
	f("triton", agreesTriton)
	f("trtllm", agreesTRTLLM)
	f("nim", agreesNIM)
	f("dynamo", agreesDynamo)
	f("llamacpp", agreesLlamacpp)
	f("litellm", agreesLiteLLM)
}

// ended counts the requests that came to their end.
func ended(s State) float64 { return float64(s.Finished["stop"] + s.Finished["length"]) }

func agreesTGI(want func(string, float64), s State) {
	want("tgi_queue_size", float64(s.Waiting))
	want("tgi_batch_current_size", float64(s.Running))
	want("tgi_batch_max_total_tokens", 2*20*16)
	want("tgi_request_success", ended(s))
	want("tgi_request_failure err=overloaded", float64(s.Rejected))
	want("tgi_request_failure err=dropped", 1)
	want("tgi_request_count", ended(s)+1+float64(s.Rejected+uint64(s.Running+s.Waiting)))
	want("tgi_request_generated_tokens_sum", float64(s.Ended.Generated))
	want("tgi_request_generated_tokens_count", ended(s))
	want("tgi_batch_next_size_count", float64(s.Steps))
}

func agreesTriton(want func(string, float64), s State) {
	const requests, cache = "nv_trt_llm_request_metrics version=1 request_type=", "nv_trt_llm_kv_cache_block_metrics kv_cache_block_type="
	want(requests+"waiting", float64(s.Waiting))
	want(requests+"scheduled", float64(s.Running))
	want(requests+"active", float64(s.Running+s.Waiting))
	want(requests+"max", 4)
	want(cache+"max", 40)
	want(cache+"used", float64(s.BlocksInUse))
	want(cache+"free", float64(40-s.BlocksInUse))
	want(cache+"tokens_per", 16)
	want(cache+"fraction", float64(s.BlocksInUse)/40)
	want(cache+"reused", float64(s.ReusedBlocks))
	want("nv_inference_request_success model=tensorrt_llm", ended(s))
	want("nv_inference_request_failure reason=REJECTED", float64(s.Rejected))
	want("nv_inference_request_failure reason=CANCELED", 1)
	want("nv_llm_input_token_len_sum", float64(s.Ended.Prompt))
	want("nv_llm_output_token_len_sum", float64(s.Ended.Generated))
	want("nv_trt_llm_general_metrics general_type=iteration_counter", float64(s.Steps))
	want("nv_trt_llm_general_metrics general_type=timestamp", float64(time.Now().UnixMicro()))
}

func agreesTRTLLM(want func(string, float64), s State) {
	want("trtllm_num_requests_running pid=41", float64(s.Running))
	want("trtllm_num_requests_waiting pid=41", float64(s.Waiting))
	want("trtllm_kv_cache_utilization", float64(s.BlocksInUse)/40)
	want("trtllm_kv_cache_max_blocks", 40)
	want("trtllm_kv_cache_used_blocks", float64(s.BlocksInUse))
	want("trtllm_kv_cache_free_blocks", float64(40-s.BlocksInUse))
	want("trtllm_kv_cache_tokens_per_block", 16)
	want("trtllm_kv_cache_reused_blocks_total", float64(s.ReusedBlocks))
	want("trtllm_kv_cache_missed_blocks_total", float64(s.MissedBlocks))
	want("trtllm_kv_cache_hit_rate", float64(s.ReusedBlocks)/float64(s.ReusedBlocks+s.MissedBlocks))
	want("trtllm_prompt_tokens_total", float64(s.Ended.Prompt))
	want("trtllm_prompt_cached_tokens_total", float64(s.Ended.Cached))
	want("trtllm_generation_tokens_total model_name=acme/chat-8b engine_type=pytorch", float64(s.Ended.Generated))
	want("trtllm_request_success_total finished_reason=length", float64(s.Finished["length"]))
	want("trtllm_request_success_total finished_reason=cancelled", 1)
	want("trtllm_request_error_total http_code=503", float64(s.Rejected))
	want("trtllm_time_to_first_token_seconds_count", float64(s.FirstTokens))
	want("trtllm_model_config_info max_model_len=320 served_model_name=acme/chat-8b", 1)
}

func agreesNIM(want func(string, float64), s State) {
	want("num_requests_running model_name=acme/chat-8b", float64(s.Running))
	want("num_requests_waiting", float64(s.Waiting))
	want("num_request_max", 4)
	want("gpu_cache_usage_perc", float64(s.BlocksInUse)/40)
	want("prompt_tokens_total", float64(s.PromptTokens))
	want("generation_tokens_total", float64(s.GeneratedTokens))
	want("request_success_total", ended(s))
	want("request_failure_total", 1)
	want("request_finish_total finished_reason=length", float64(s.Finished["length"]))
	want("time_to_first_token_seconds_count", float64(s.FirstTokens))
	want("request_prompt_tokens_sum", float64(s.Ended.Prompt))
}

func agreesDynamo(want func(string, float64), s State) {
	want("dynamo_frontend_active_requests model=acme/chat-8b", float64(s.Running+s.Waiting))
	want("dynamo_frontend_inflight_requests", float64(s.Running+s.Waiting))
	want("dynamo_frontend_requests_total status=success", ended(s))
	want("dynamo_frontend_requests_total status=error", float64(s.Rejected)+1)
	want("dynamo_frontend_output_tokens_total", float64(s.GeneratedTokens))
	want("dynamo_frontend_input_sequence_tokens_sum", float64(s.Ended.Prompt))
	want("dynamo_frontend_cached_tokens_sum", float64(s.Ended.Cached))
	want("dynamo_frontend_output_sequence_tokens_sum", float64(s.Ended.Generated))
	want("dynamo_frontend_time_to_first_token_seconds_count", float64(s.FirstTokens))
	want("dynamo_frontend_time_to_first_token_seconds_sum", s.FirstTokenSeconds)
	want("dynamo_frontend_model_kv_cache_block_size", 16)
	want("dynamo_frontend_model_total_kv_blocks", 20)
	want("dynamo_frontend_model_max_num_seqs", 2)
	want("dynamo_frontend_model_context_length", 320)
}

func agreesLlamacpp(want func(string, float64), s State) {
	want("llamacpp:requests_processing", float64(s.Running))
	want("llamacpp:requests_deferred", float64(s.Waiting))
	want("llamacpp:prompt_tokens_total", float64(s.PromptTokens-s.CachedTokens))
	want("llamacpp:prompt_tokens_cached_total", float64(s.CachedTokens))
	want("llamacpp:tokens_predicted_total", float64(s.Ended.Generated))
	want("llamacpp:n_decode_total", float64(s.Steps))
}

func agreesLiteLLM(want func(string, float64), s State) {
	want("litellm_proxy_total_requests_metric_total", ended(s)+float64(s.Rejected))
	want("litellm_proxy_total_requests_metric_total status_code=200", ended(s))
	want("litellm_proxy_failed_requests_metric_total", float64(s.Rejected))
	want("litellm_input_tokens_metric_total", float64(s.Ended.Prompt))
	want("litellm_output_tokens_metric_total", float64(s.Ended.Generated))
	want("litellm_request_total_latency_metric_count", ended(s))
}

// TestPagesByReplica compares the pages that have a label for the replica.
func TestPagesByReplica(t *testing.T) {
	f := func(engine, label string, check func(want func(string, float64), s State)) {
		t.Helper()
		underLoad(t, engine, func(v *serving, page map[string]*dto.MetricFamily) {
			for i, s := range v.State() {
				want := wants(t, engine, page)
				check(func(series string, n float64) {
					t.Helper()
					want(series+" model_name=acme/chat-8b "+label+"="+string(rune('0'+i)), n)
				}, s)
			}
		})
	}
	f("sglang", "dp_rank", func(want func(string, float64), s State) {
		want("sglang:num_running_reqs engine_type=unified tp_rank=0", float64(s.Running))
		want("sglang:num_queue_reqs", float64(s.Waiting))
		want("sglang:token_usage", float64(s.BlocksInUse)/20)
		want("sglang:num_used_tokens", float64(16*s.BlocksInUse))
		want("sglang:max_total_num_tokens", 320)
		want("sglang:page_size", 16)
		want("sglang:num_pages", 20)
		want("sglang:evicted_tokens_total", float64(16*s.EvictedBlocks))
		want("sglang:num_retracted_requests_total", float64(s.Preemptions))
		want("sglang:realtime_tokens_total mode=decode", float64(s.GeneratedTokens-s.FirstTokens))
		want("sglang:prefill_effective_tokens_total mode=device_hit", float64(s.CachedTokens))
		want("sglang:prefill_effective_tokens_total", float64(s.PromptTokens))
	})
	f("lmdeploy", "engine", func(want func(string, float64), s State) {
		want("lmdeploy:num_requests_running", float64(s.Running))
		want("lmdeploy:num_requests_waiting", float64(s.Waiting))
		want("lmdeploy:gpu_cache_usage_perc", float64(s.BlocksInUse)/20)
		want("lmdeploy:prefix_cache_hit_rate", float64(s.PrefixHits)/float64(s.PrefixQueries))
		want("lmdeploy:prompt_tokens_total", float64(s.PromptTokens))
		want("lmdeploy:cached_tokens_total", float64(s.Ended.Cached))
		want("lmdeploy:generation_tokens_total", float64(s.GeneratedTokens))
		want("lmdeploy:request_success_total finished_reason=ResponseType.FINISH", ended(s))
		want("lmdeploy:request_success_total finished_reason=ResponseType.CANCEL", float64(s.Finished["abort"]))
		want("lmdeploy:num_requests_succeeded", ended(s))
		want("lmdeploy:time_to_first_token_seconds_count", float64(s.FirstTokens))
		want("lmdeploy:time_to_first_token_seconds_sum", s.FirstTokenSeconds)
		want("lmdeploy:iteration_tokens_total_count", float64(s.Steps))
	})
}

// TestSGLangCountsAtTheEnd compares the series of SGLang's front end, which has
// no replicas.
func TestSGLangCountsAtTheEnd(t *testing.T) {
	underLoad(t, "sglang", func(v *serving, page map[string]*dto.MetricFamily) {
		s, want := sumOf(v.State()), wants(t, "sglang", page)
		want("sglang:prompt_tokens_total", float64(s.Ended.Prompt))
		want("sglang:generation_tokens_total", float64(s.Ended.Generated))
		want("sglang:cached_tokens_total cache_source=device", float64(s.Ended.Cached))
		want("sglang:num_requests_total", ended(s))
		want("sglang:num_aborted_requests_total is_streaming=true", 1)
		want("sglang:num_aborted_requests_total is_streaming=false", 0)
		want("sglang:time_to_first_token_seconds_count", float64(s.FirstTokens))
	})
}
