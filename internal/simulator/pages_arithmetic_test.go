package simulator

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// TestPagesAgreeWithArithmetic asks for one answer of known times: 400 prompt
// tokens at 1000 a second and a step of 20 ms, then ten steps more.
func TestPagesAgreeWithArithmetic(t *testing.T) {
	f := func(engine string, series map[string]float64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Engine: engine, PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms}, false)
			defer v.stop()
			v.post(context.Background(), "/v1/completions", `{"prompt":"`+strings.Repeat("four ", 400)+`","max_tokens":11}`, 1<<20)
			want := wants(t, engine, pageOf(v, pagePaths()[engine]))
			for name, n := range series {
				want(name, n)
			}
		})
	}
	f("sglang", map[string]float64{
		"sglang:time_to_first_token_seconds_sum": .42, "sglang:inter_token_latency_seconds_sum": .2,
		"sglang:inter_token_latency_seconds_count": 10, "sglang:e2e_request_latency_seconds_sum is_streaming=false": .62,
		"sglang:realtime_tokens_total mode=prefill_compute": 400, "sglang:realtime_tokens_total mode=prefill_cache": 0,
		"sglang:realtime_tokens_total mode=decode": 10, "sglang:generation_tokens_total": 11,
		// 410 tokens were computed, in 26 blocks; 25 of them are full.
		"sglang:kv_evictable_tokens": 400, "sglang:kv_available_tokens": 4096*16 - 400, "sglang:kv_used_tokens": 0,
	})
	f("tgi", map[string]float64{
		"tgi_request_duration_sum": .62, "tgi_request_queue_duration_sum": 0, "tgi_request_queue_duration_count": 1,
		"tgi_request_inference_duration_sum": .62, "tgi_request_mean_time_per_token_duration_sum": .62 / 11,
		"tgi_request_input_length_sum": 400, "tgi_request_generated_tokens_sum": 11, "tgi_batch_next_size_sum": 11,
	})
	f("triton", map[string]float64{
		"nv_inference_request_duration_us": 620_000, "nv_inference_queue_duration_us": 0,
		"nv_inference_compute_infer_duration_us": 620_000, "nv_inference_count": 1,
		// Its first response is all of it, as it does not stream.
		"nv_inference_first_response_histogram_ms_sum": 620,
	})
	f("trtllm", map[string]float64{
		"trtllm_time_to_first_token_seconds_sum": .42, "trtllm_time_per_output_token_seconds_sum": .02,
		"trtllm_e2e_request_latency_seconds_sum": .62, "trtllm_request_prefill_time_seconds_sum": .42,
		"trtllm_request_decode_time_seconds_sum": .2, "trtllm_kv_cache_missed_blocks_total": 25,
	})
	f("nim", map[string]float64{"time_to_first_token_seconds_sum": .42, "e2e_request_latency_seconds_sum": .62})
	f("dynamo", map[string]float64{
		"dynamo_frontend_time_to_first_token_seconds_sum": .42, "dynamo_frontend_request_duration_seconds_sum": .62,
		"dynamo_frontend_requests_total request_type=unary status=success": 1,
	})
	f("lmdeploy", map[string]float64{
		"lmdeploy:iter_token_latency_sum": .2, "lmdeploy:request_decode_time_seconds_sum": .2,
		"lmdeploy:iteration_tokens_total_sum": 410, "lmdeploy:iteration_tokens_total_count": 11,
	})
	f("litellm", map[string]float64{
		"litellm_request_total_latency_metric_sum team_alias=research": .62, "litellm_input_tokens_metric_total": 400,
	})
}

// TestBounds compares the number of buckets, +Inf aside, and the first and the
// last bound.
func TestBounds(t *testing.T) {
	f := func(engine, name string, n int, first, last float64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Engine: engine, ContextLength: 4096}, false)
			defer v.stop()
			v.post(context.Background(), "/v1/completions", `{"prompt":"x","max_tokens":2,"stream":true}`, 1<<20)
			var got []float64
			if metrics := pageOf(v, pagePaths()[engine])[name].GetMetric(); len(metrics) > 0 {
				for _, b := range metrics[0].GetHistogram().GetBucket() {
					got = append(got, b.GetUpperBound())
				}
			}
			if len(got) > 0 && math.IsInf(got[len(got)-1], 1) {
				got = got[:len(got)-1]
			}
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-3*math.Abs(b) }
			if len(got) != n || n > 0 && (!near(got[0], first) || !near(got[n-1], last)) {
				t.Errorf("%s: %s has bounds %v; want %d from %v to %v", engine, name, got, n, first, last)
			}
		})
	}
	f("sglang", "sglang:time_to_first_token_seconds", 18, .1, 400)
	f("sglang", "sglang:inter_token_latency_seconds", 23, .002, 8)
	f("sglang", "sglang:e2e_request_latency_seconds", 22, .1, 2400)
	f("sglang", "sglang:queue_time_seconds", 40, 0, 3000)
	f("tgi", "tgi_request_duration", 35, .00015, 145.6)
	f("tgi", "tgi_request_generated_tokens", 100, 40.96, 4096)
	f("tgi", "tgi_batch_next_size", 1024, 1, 1024)
	f("triton", "nv_inference_first_response_histogram_ms", 4, 100, 5000)
	f("triton", "nv_llm_input_token_len", 5, 10, 1000)
	f("trtllm", "trtllm_time_to_first_token_seconds", 22, .001, 2560)
	f("trtllm", "trtllm_request_prefill_time_seconds", 18, .001, 2560)
	f("trtllm", "trtllm_time_per_output_token_seconds", 19, .01, 80)
	f("trtllm", "trtllm_e2e_request_latency_seconds", 21, .3, 7680)
	f("nim", "request_prompt_tokens", 11, 1, 2000)
	f("dynamo", "dynamo_frontend_time_to_first_token_seconds", 18, 0, 480)
	f("dynamo", "dynamo_frontend_inter_token_latency_seconds", 13, 0, 2)
	f("dynamo", "dynamo_frontend_request_duration_seconds", 10, 0, 260)
	f("lmdeploy", "lmdeploy:iter_token_latency", 20, .005, 80)
	f("lmdeploy", "lmdeploy:request_cache_hit_ratio", 11, 0, 1)
	f("lmdeploy", "lmdeploy:iteration_tokens_total", 13, 1, 16384)
	f("tei", "te_request_duration", 35, .000015, 14.56)
	f("litellm", "litellm_llm_api_time_to_first_token_metric", 35, .005, 300)
}

// TestAveragesSinceTheLastReading reads llama.cpp's page twice.
func TestAveragesSinceTheLastReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Engine: "llamacpp", PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms}, false)
		defer v.stop()
		read := func(series map[string]float64) {
			t.Helper()
			want := wants(t, "llamacpp", pageOf(v, "/metrics"))
			for name, n := range series {
				want(name, n)
			}
		}
		ask := `{"prompt":"` + strings.Repeat("four ", 400) + `","max_tokens":11}`
		v.post(context.Background(), "/v1/completions", ask, 1<<20)
		lifetime := map[string]float64{
			"llamacpp:prompt_tokens_total": 400, "llamacpp:prompt_seconds_total": .42, "llamacpp:tokens_predicted_total": 11,
			"llamacpp:tokens_predicted_seconds_total": .2, "llamacpp:n_decode_total": 11, "llamacpp:n_tokens_max": 411,
			"llamacpp:n_busy_slots_per_decode": 1,
			"llamacpp:prompt_tokens_seconds":   400 / .42, "llamacpp:predicted_tokens_seconds": 11 / .2,
		}
		read(lifetime)
		lifetime["llamacpp:prompt_tokens_seconds"], lifetime["llamacpp:predicted_tokens_seconds"] = 0, 0
		read(lifetime)
		// The same again, of which 16 tokens were not cached.
		v.post(context.Background(), "/v1/completions", ask, 1<<20)
		read(map[string]float64{
			"llamacpp:prompt_tokens_total": 416, "llamacpp:prompt_tokens_cached_total": 384,
			"llamacpp:prompt_tokens_seconds": 16 / .036, "llamacpp:predicted_tokens_seconds": 11 / .2,
		})
	})
}

// TestKeysAreApart looks for one series of a gateway per key that was used.
func TestKeysAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Engine: "litellm"}, false)
		defer v.stop()
		const name = "litellm_output_tokens_metric_total"
		f := func(more string, series int) {
			t.Helper()
			v.post(context.Background(), "/v1/completions", `{"prompt":"x","max_tokens":3`+more+`}`, 1<<20)
			page := pageOf(v, "/metrics")
			if got := len(page[name].GetMetric()); got != series {
				t.Errorf("%d series, want %d", got, series)
			}
			wants(t, "litellm", page)(name, float64(3*series))
		}
		f("", 1)
		f(`,"stream":true`, 2)
	})
}

// TestEmbeddingsPage asks TEI for one embedding, a batch of two, a ranking of
// three, and one text that is too long.
func TestEmbeddingsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Engine: "tei", PrefillTokensPerSecond: 1000, ContextLength: 100}, false)
		defer v.stop()
		post := func(path, body string, status int) {
			t.Helper()
			if a := v.post(context.Background(), path, body, 1<<20); a.status != status {
				t.Errorf("%s: status %d, %s", path, a.status, a.body)
			}
		}
		ten := strings.Repeat("four ", 10)
		post("/embed", `{"inputs":"`+ten+`"}`, http.StatusOK)
		post("/embed", `{"inputs":["`+ten+`","`+ten+`"]}`, http.StatusOK)
		post("/rerank", `{"query":"four","texts":["`+ten+`","`+ten+`","`+ten+`"]}`, http.StatusOK)
		post("/embed", `{"inputs":"`+strings.Repeat(ten, 11)+`"}`, http.StatusBadRequest)

		want := wants(t, "tei", pageOf(v, "/metrics"))
		want("te_queue_size", 0)
		want("te_request_count method=single", 2)
		want("te_request_count method=batch", 2)
		want("te_request_success method=single", 1)
		want("te_request_success method=batch", 2)
		want("te_request_failure err=validation", 1)
		want("te_embed_count", 4)
		want("te_embed_success", 3)
		want("te_predict_count", 3)
		want("te_predict_success", 3)
		// 10, 20 and 33 tokens, at a millisecond each.
		want("te_request_duration_sum", .063)
		want("te_request_inference_duration_sum", .063)
		want("te_request_queue_duration_sum", 0)
		want("te_request_queue_duration_count", 3)
		want("te_embed_duration_sum", .01+2*.02)
		want("te_predict_duration_sum", 3*.033)
		want("te_request_input_length_sum", 63)
		want("te_request_input_length_count", 6)
		want("te_batch_next_size_sum", 6)
		want("te_batch_next_tokens_sum", 63)
	})
}

// TestPageTellsItsFormat also when it is asked for another.
func TestPageTellsItsFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
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
			t.Errorf("content type %q", got)
		}
	})
}

// TestIterationReads reads the JSON of trtllm-serve, which is told from its
// metrics page.
func TestIterationReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Engine: "trtllm"}, false)
		defer v.stop()
		pageOf(v, "/prometheus/metrics")
		if n := v.IterationReads(); n != 0 {
			t.Errorf("read %d times, want 0", n)
		}
		var list []struct {
			KVCacheStats struct{ MaxNumBlocks int }
		}
		v.getJSON("/metrics", &list)
		if n := v.IterationReads(); n != 1 || len(list) != 1 || list[0].KVCacheStats.MaxNumBlocks != 4096 {
			t.Errorf("read %d times, want 1: %+v", n, list)
		}
	})
}
