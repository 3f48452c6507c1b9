package simulator

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// series reads the value of one series; labels are as name=value.
func series(t *testing.T, page map[string]*dto.MetricFamily, name string, labels ...string) *dto.Metric {
	t.Helper()
	for _, m := range page[name].GetMetric() {
		have := map[string]bool{}
		for _, l := range m.GetLabel() {
			have[l.GetName()+"="+l.GetValue()] = true
		}
		all := true
		for _, l := range labels {
			all = all && have[l]
		}
		if all {
			return m
		}
	}
	t.Fatalf("no series %s %v", name, labels)
	return nil
}

func TestMetricsAgreeWithState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{
			Replicas: 2, Slots: 2, Background: 7, BackgroundInput: 100, BackgroundOutput: 50,
			PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms,
		}, false)
		defer v.stop()
		time.Sleep(30*time.Second + 7*ms)
		synctest.Wait()

		_, body := v.get("/metrics")
		parser := expfmt.NewTextParser(model.UTF8Validation)
		page, err := parser.TextToMetricFamilies(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range v.State() {
			engine := "engine=" + string(rune('0'+i))
			f := func(name string, want float64, labels ...string) {
				t.Helper()
				m := series(t, page, "vllm:"+name, append(labels, engine, "model_name=simulated-8b")...)
				if got := m.GetCounter().GetValue() + m.GetGauge().GetValue(); got != want {
					t.Errorf("%s of %s is %v, want %v", name, engine, got, want)
				}
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
			f("request_success_total", float64(s.Finished["length"]), "finished_reason=length")
			f("request_success_total", 0, "finished_reason=abort")
		}
		if m := series(t, page, "vllm:cache_config_info", "block_size=16", "num_gpu_blocks=4096"); m.GetGauge().GetValue() != 1 {
			t.Error("cache_config_info is not 1")
		}
	})
}

func TestHistogramsAgreeWithArithmetic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms}, false)
		defer v.stop()
		// 400 tokens: the first after 0.42 s, ten more 20 ms apart.
		v.post(context.Background(), "/v1/completions", `{"prompt":"`+strings.Repeat("four ", 400)+`","max_tokens":11}`, 1<<20)
		_, body := v.get("/metrics")
		parser := expfmt.NewTextParser(model.UTF8Validation)
		page, err := parser.TextToMetricFamilies(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		f := func(name string, count uint64, sum, bound float64) {
			t.Helper()
			h := series(t, page, "vllm:"+name+"_seconds", "engine=0").GetHistogram()
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
