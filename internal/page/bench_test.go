package page

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// Bounds of the histograms of vLLM.
const (
	boundsTTFT    = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 160.0 640.0 2560.0"
	boundsToken   = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0"
	boundsRequest = "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 1920.0 7680.0"
	boundsLength  = "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0 2000.0 5000.0 10000.0 20000.0 50000.0 100000.0"
	boundsBlock   = "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1.0 2.0 5.0 10.0 20.0 30.0 60.0 120.0 300.0 600.0 1200.0 1800.0"
)

// vllmPage returns a page in the form of vLLM with the given number of
// data-parallel ranks; n is a number that all counters grow with.
func vllmPage(ranks, n int) []byte {
	const model = "meta-llama/Llama-3.1-405B-Instruct-FP8-dynamic"
	var b strings.Builder
	family := func(name, typ string) {
		fmt.Fprintf(&b, "# HELP %s A text that describes what the %s measures.\n# TYPE %s %s\n", name, typ, name, typ)
	}
	samples := func(name, more string, value float64) {
		for rank := range ranks {
			fmt.Fprintf(&b, "%s{engine=\"%d\",model_name=%q%s} %v\n", name, rank, model, more, value+float64(rank))
		}
	}
	number := func(name, typ string, value float64) {
		family(name, typ)
		samples(name, "", value)
		if typ == "counter" {
			created := strings.TrimSuffix(name, "_total") + "_created"
			family(created, "gauge")
			samples(created, "", 1.7672e9)
		}
	}
	distribution := func(name, bounds string) {
		family(name, "histogram")
		for rank := range ranks {
			les := append(strings.Fields(bounds), "+Inf")
			for i, le := range les {
				fmt.Fprintf(&b, "%s_bucket{engine=\"%d\",le=%q,model_name=%q} %d.0\n", name, rank, le, model, n*(i+1))
			}
			fmt.Fprintf(&b, "%s_count{engine=\"%d\",model_name=%q} %d.0\n", name, rank, model, n*len(les))
			fmt.Fprintf(&b, "%s_sum{engine=\"%d\",model_name=%q} %d.123456789\n", name, rank, model, n)
		}
		number(name+"_created", "gauge", 1.7672e9)
	}
	fmt.Fprintf(&b, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.76720000012e+09\n")
	number("vllm:num_requests_running", "gauge", 7)
	number("vllm:num_requests_waiting", "gauge", 2)
	number("vllm:kv_cache_usage_perc", "gauge", 0.25)
	for _, name := range strings.Fields(`prefix_cache_queries prefix_cache_hits external_prefix_cache_queries
		external_prefix_cache_hits mm_cache_queries mm_cache_hits prompt_tokens prompt_tokens_cached generation_tokens
		num_preemptions spec_decode_num_drafts spec_decode_num_draft_tokens spec_decode_num_accepted_tokens`) {
		number("vllm:"+name+"_total", "counter", float64(1000*n))
	}
	family("vllm:request_success_total", "counter")
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		samples("vllm:request_success_total", `,finished_reason="`+reason+`"`, float64(n))
	}
	distribution("vllm:time_to_first_token_seconds", boundsTTFT)
	for _, name := range strings.Fields("inter_token_latency request_time_per_output_token") {
		distribution("vllm:"+name+"_seconds", boundsToken)
	}
	for _, name := range strings.Fields("e2e_request_latency request_queue_time request_inference_time request_prefill_time request_decode_time") {
		distribution("vllm:"+name+"_seconds", boundsRequest)
	}
	for _, name := range strings.Fields(`iteration_tokens_total request_prompt_tokens request_generation_tokens
		request_max_num_generation_tokens request_params_max_tokens request_params_n request_prefill_kv_computed_tokens`) {
		distribution("vllm:"+name, boundsLength)
	}
	for _, name := range strings.Fields("kv_block_lifetime kv_block_idle_before_evict kv_block_reuse_gap") {
		distribution("vllm:"+name+"_seconds", boundsBlock)
	}
	return []byte(b.String())
}

func builtInMappings(tb testing.TB) *Mappings {
	tb.Helper()
	m := NewMappings(Servers, nil)
	return m
}

func BenchmarkRead(b *testing.B) {
	m := builtInMappings(b)
	for _, ranks := range []int{1, 4, 8} {
		pages := [][]byte{vllmPage(ranks, 10), vllmPage(ranks, 11)}
		b.Run(fmt.Sprintf("ranks=%d,kB=%d", ranks, len(pages[0])/1000), func(b *testing.B) {
			r := m.NewReader()
			at := time.Unix(1_800_000_000, 0)
			b.ReportAllocs()
			b.SetBytes(int64(len(pages[0])))
			for i := 0; b.Loop(); i++ {
				at = at.Add(15 * time.Second)
				if _, err := r.Read(pages[i%2], "text/plain; version=0.0.4", at, Want{Engine: "vllm"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReaderMemory reports what a reader of a page of four ranks keeps.
func BenchmarkReaderMemory(b *testing.B) {
	m := builtInMappings(b)
	page := vllmPage(4, 10)
	const readers = 200
	for b.Loop() {
		kept := make([]*Reader, readers)
		before := heap()
		for i := range kept {
			kept[i] = m.NewReader()
			for range 3 {
				if _, err := kept[i].Read(page, "", time.Unix(1_800_000_000, 0), Want{}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(heap()-before)/readers, "B/reader")
		runtime.KeepAlive(kept)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkScrape500 is one round over 500 servers, each with a typical page of
// vLLM. The work of the servers, which only write a prepared page, is in it.
func BenchmarkScrape500(b *testing.B) {
	const servers = 500
	page := vllmPage(1, 1000)
	s := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Write(page)
	})
	mappings := NewMappings(Servers, nil)
	cfg := &config.Endpoint{Name: "bench", URL: urlOf(b, s.URL)}
	cfg.Servers.Timeout = model.Duration(time.Minute)
	for i := range servers {
		cfg.Servers.URLs = append(cfg.Servers.URLs, urlsOf(b, fmt.Sprintf("%s/%d/metrics", s.URL, i))...)
	}
	e, err := New(cfg, Options{Mappings: mappings})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	b.ReportAllocs()
	for b.Loop() {
		for _, st := range e.Scrape(b.Context(), Known{}) {
			if st.State != Up {
				b.Fatalf("%s is %s: %v", st.Server, st.State, st.Err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*servers), "µs/page")
	b.ReportMetric(float64(len(page)), "page-bytes")
}
