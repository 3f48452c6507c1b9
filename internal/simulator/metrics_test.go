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

	"github.com/inference-exporter/inference_exporter/internal/page/testdata/pages/servers"
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

// TestSamplePages compares the pages that never change with their files.
func TestSamplePages(t *testing.T) {
	for _, i := range allSoftware() {
		if i.Sample == "" {
			continue
		}
		want, err := servers.FS.ReadFile(i.Sample)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Engine: i.Name}, false)
			defer v.stop()
			if _, got := v.get(i.Metrics); got != string(want) {
				t.Errorf("%s: %d bytes, want the %d of %s", i.Name, len(got), len(want), i.Sample)
			}
		})
	}
}

// TestPageFormat asks for another format than the one that there is.
func TestPageFormat(t *testing.T) {
	for _, engine := range []string{"vllm", "tgi"} {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Engine: engine}, false)
			defer v.stop()
			req, err := http.NewRequest(http.MethodGet, v.base+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
			res, err := v.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
				t.Errorf("%s: content type %q", engine, got)
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
			for range 5 { // ten at once for eight places, so that some are refused
				clients.Go(func() {
					for range 3 {
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
		// Seven background sequences leave one place to the clients.
		s := sumOf(v.State())
		if s.Running == 0 || s.Waiting == 0 || s.Rejected == 0 || s.Preemptions == 0 || s.EvictedBlocks == 0 ||
			s.CachedTokens == 0 || s.Finished["abort"] != 1 {
			t.Errorf("%s: the load does not show all: %+v", engine, s)
		}
		f(v, pageOf(v, pagePaths()[engine]))
	})
}

// sumOf adds up the replicas; the ratio of blocks stays to be taken.
func sumOf(states []State) State {
	sum := State{Finished: make(map[string]int)}
	for _, s := range states {
		sum.Running += s.Running
		sum.Waiting += s.Waiting
		sum.Blocks += s.Blocks
		sum.BlocksInUse += s.BlocksInUse
		sum.PrefixQueries += s.PrefixQueries
		sum.PrefixHits += s.PrefixHits
		sum.EvictedBlocks += s.EvictedBlocks
		sum.PromptTokens += s.PromptTokens
		sum.CachedTokens += s.CachedTokens
		sum.GeneratedTokens += s.GeneratedTokens
		sum.Preemptions += s.Preemptions
		sum.Rejected += s.Rejected
		sum.FirstTokens += s.FirstTokens
		for reason, n := range s.Finished {
			sum.Finished[reason] += n
		}
	}
	return sum
}

// TestVLLMByReplica compares the page of vLLM, whose label engine is the replica,
// with the state.
func TestVLLMByReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{
			Replicas: 2, Slots: 2, Background: 7, BackgroundInput: 100, BackgroundOutput: 50,
			PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms,
		}, false)
		defer v.stop()
		time.Sleep(30*time.Second + 7*ms)
		synctest.Wait()

		page := pageOf(v, "/metrics")
		for i, s := range v.State() {
			engine := "engine=" + string(rune('0'+i))
			want := wants(t, engine, page)
			f := func(name string, n float64) {
				t.Helper()
				want("vllm:"+name+" model_name=simulated-8b "+engine, n)
			}
			// Seven background sequences on two replicas with two slots each.
			if s.Running != 2 || s.Waiting != 2-i || s.BlocksInUse == 0 || s.PrefixHits == 0 || s.Finished["length"] == 0 {
				t.Errorf("replica %d: %+v", i, s)
			}
			f("num_requests_running", 2)
			f("num_requests_waiting", float64(2-i))
			f("kv_cache_usage_perc", float64(s.BlocksInUse)/4096)
			f("prefix_cache_queries_total", float64(s.PrefixQueries))
			f("prefix_cache_hits_total", float64(s.PrefixHits))
			f("prompt_tokens_total", float64(s.PromptTokens))
			f("generation_tokens_total", float64(s.GeneratedTokens))
			f("num_preemptions_total", float64(s.Preemptions))
			f("request_success_total finished_reason=length", float64(s.Finished["length"]))
			f("request_success_total finished_reason=abort", 0)
		}
		wants(t, "vllm", page)("vllm:cache_config_info engine=1 block_size=16 num_gpu_blocks=4096", 1)
	})
}

// TestVLLMHistograms compares them with arithmetic.
func TestVLLMHistograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms}, false)
		defer v.stop()
		// 400 tokens: the first after 0.42 s, ten more 20 ms apart.
		v.post(context.Background(), "/v1/completions", `{"prompt":"`+strings.Repeat("four ", 400)+`","max_tokens":11}`, 1<<20)
		page := pageOf(v, "/metrics")
		f := func(name string, count uint64, sum, bound float64) {
			t.Helper()
			h := page["vllm:"+name+"_seconds"].GetMetric()[0].GetHistogram()
			if h.GetSampleCount() != count || math.Abs(h.GetSampleSum()-sum) > 1e-9 {
				t.Errorf("%s: %d observations, sum %v; want %d, %v", name, h.GetSampleCount(), h.GetSampleSum(), count, sum)
			}
			// All observations are alike, so one bucket has them all.
			for _, b := range h.GetBucket() {
				want := uint64(0)
				if b.GetUpperBound() >= bound {
					want = count
				}
				if b.GetCumulativeCount() != want {
					t.Errorf("%s: %d up to %v, want %d", name, b.GetCumulativeCount(), b.GetUpperBound(), want)
				}
			}
		}
		f("time_to_first_token", 1, 0.42, 0.5)
		f("inter_token_latency", 10, 0.2, 0.025)
		f("request_time_per_output_token", 1, 0.02, 0.025)
		f("e2e_request_latency", 1, 0.62, 0.8)
		f("request_queue_time", 1, 0, 0.3)
		f("request_prefill_time", 1, 0.42, 0.5)
		f("request_inference_time", 1, 0.62, 0.8)
		f("request_decode_time", 1, 0.2, 0.3)
	})
}

// TestSGLangByReplica compares the series of SGLang's schedulers with the state.
func TestSGLangByReplica(t *testing.T) {
	underLoad(t, "sglang", func(v *serving, page map[string]*dto.MetricFamily) {
		for i, s := range v.State() {
			want := func(series string, n float64) {
				t.Helper()
				wants(t, "sglang", page)(series+" model_name=acme/chat-8b dp_rank="+string(rune('0'+i)), n)
			}
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
		}
	})
}

// TestSGLangCountsAtTheEnd compares the series of SGLang's front end, which has
// no replicas.
func TestSGLangCountsAtTheEnd(t *testing.T) {
	underLoad(t, "sglang", func(v *serving, page map[string]*dto.MetricFamily) {
		s, want := sumOf(v.State()), wants(t, "sglang", page)
		want("sglang:num_requests_total", float64(s.Finished["stop"]+s.Finished["length"]))
		want("sglang:num_aborted_requests_total is_streaming=true", 1)
		want("sglang:num_aborted_requests_total", 1)
		want("sglang:time_to_first_token_seconds_count", float64(s.FirstTokens))
	})
}

// TestSGLangArithmetic asks for one answer of known times: 400 prompt tokens at
// 1000 a second and a step of 20 ms, then ten steps more.
func TestSGLangArithmetic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Engine: "sglang", PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms}, false)
		defer v.stop()
		v.post(context.Background(), "/v1/completions", `{"prompt":"`+strings.Repeat("four ", 400)+`","max_tokens":11}`, 1<<20)
		want := wants(t, "sglang", pageOf(v, "/metrics"))
		for name, n := range map[string]float64{
			"sglang:time_to_first_token_seconds_sum": .42, "sglang:inter_token_latency_seconds_sum": .2,
			"sglang:inter_token_latency_seconds_count": 10, "sglang:e2e_request_latency_seconds_sum is_streaming=false": .62,
			"sglang:realtime_tokens_total mode=prefill_compute": 400, "sglang:realtime_tokens_total mode=prefill_cache": 0,
			"sglang:realtime_tokens_total mode=decode": 10, "sglang:generation_tokens_total": 11, "sglang:prompt_tokens_total": 400,
			// 410 tokens were computed, in 26 blocks; 25 of them are full.
			"sglang:kv_evictable_tokens": 400, "sglang:kv_available_tokens": 4096*16 - 400, "sglang:kv_used_tokens": 0,
		} {
			want(name, n)
		}
	})
}

// TestSGLangRealtimeTokens asks twice for the same, of which 24 of 25 blocks are
// cached then.
func TestSGLangRealtimeTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Engine: "sglang"}, false)
		defer v.stop()
		for range 2 {
			v.post(context.Background(), "/v1/completions", `{"prompt":"`+strings.Repeat("four ", 400)+`","max_tokens":11}`, 1<<20)
		}
		want := wants(t, "sglang", pageOf(v, "/metrics"))
		want("sglang:realtime_tokens_total mode=prefill_compute", 416)
		want("sglang:realtime_tokens_total mode=prefill_cache", 384)
		want("sglang:cached_tokens_total cache_source=device", 384)
		want("sglang:realtime_tokens_total mode=decode", 20)
	})
}

// TestSGLangBounds compares the number of buckets, +Inf aside, and the first and the
// last bound.
func TestSGLangBounds(t *testing.T) {
	f := func(name string, n int, first, last float64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Engine: "sglang"}, false)
			defer v.stop()
			v.post(context.Background(), "/v1/completions", `{"prompt":"x","max_tokens":2,"stream":true}`, 1<<20)
			var got []float64
			if metrics := pageOf(v, "/metrics")[name].GetMetric(); len(metrics) > 0 {
				for _, b := range metrics[0].GetHistogram().GetBucket() {
					got = append(got, b.GetUpperBound())
				}
			}
			if len(got) > 0 && math.IsInf(got[len(got)-1], 1) {
				got = got[:len(got)-1]
			}
			if len(got) != n || got[0] != first || got[n-1] != last {
				t.Errorf("%s has bounds %v; want %d from %v to %v", name, got, n, first, last)
			}
		})
	}
	f("sglang:time_to_first_token_seconds", 18, .1, 400)
	f("sglang:inter_token_latency_seconds", 23, .002, 8)
	f("sglang:e2e_request_latency_seconds", 22, .1, 2400)
	f("sglang:queue_time_seconds", 40, 0, 3000)
}
