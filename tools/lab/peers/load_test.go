package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// TestLoadReports reads a report in milliseconds without bounds, and one in seconds with them.
func TestLoadReports(t *testing.T) {
	tools := map[string]loadTool{}
	for _, tool := range loadTools() {
		tools[tool.name] = tool
	}
	vllm, own := tools["vllm bench serve"], tools["inference_exporter"]
	got, err := vllm.read([]byte(`{"completed": 7, "output_throughput": 80.5, "p50_ttft_ms": 20, "p90_ttft_ms": 30, "p99_ttft_ms": 40,
		"p50_tpot_ms": 2, "p90_tpot_ms": 3, "p99_tpot_ms": 4, "mean_ttft_ms": 25, "mean_tpot_ms": 2.5}`))
	want := loadFigures{
		Requests: 7, TokensPerSecond: 80.5, MeanTTFT: 0.025, MeanTPOT: 0.0025,
		TTFT: map[string]between{"p50": {Value: 0.02}, "p90": {Value: 0.03}, "p99": {Value: 0.04}},
		TPOT: map[string]between{"p50": {Value: 0.002}, "p90": {Value: 0.003}, "p99": {Value: 0.004}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	got, err = own.read([]byte(`{"load_test": {"levels": [{"requests": 9, "output_tokens_per_second": 5,
		"ttft_seconds": {"mean": 0.1, "p50": {"value": 0.1, "lower": 0.09, "upper": 0.12}, "p90": {"value": 0.2}, "p99": {"value": 0.3}},
		"tpot_seconds": {"mean": 0.01, "p50": {"value": 0.01}, "p90": {"value": 0.02}, "p99": {"value": 0.03}}}]}}`))
	if p50 := got.TTFT["p50"]; err != nil || *p50.Lower != 0.09 || *p50.Upper != 0.12 || got.TTFT["p99"].Lower != nil || got.Requests != 9 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := vllm.read([]byte(`{"completed": 7}`)); err == nil || !strings.Contains(err.Error(), "p99_tpot_ms") {
		t.Errorf("a report without times: %v", err)
	}
}

// Two rounds: this exporter is 21 % and 0 % above the other, by logarithms 0.0953 ± 7.2 standard errors of 0.0953 (Student's t has
// 12.7, which its expansion misses so far below its range), and in both as much above the server.
func TestLoadTables(t *testing.T) {
	runs := func(ttft ...float64) (all []loadFigures) {
		for _, v := range ttft {
			all = append(all, loadFigures{Requests: 12, MeanTTFT: v, TTFT: map[string]between{"p50": {Value: v, Lower: new(0.9 * v), Upper: new(1.1 * v)}}, Served: &served{Prompt: 256, Output: 16, Together: 3.5, TTFT: v / 1.1, TPOT: 0.01}})
		}
		return all
	}
	e := loadEvidence{Date: "2026-11-26", Machine: "m"}
	four, mixed := loadOf{Rate: 7}, loadOf{Users: 8, Mixed: true}
	e.put([]loadRow{{Server: "vllm", Tool: "guidellm", Version: "1", loadOf: mixed, Error: "no"}, {Server: "vllm", Tool: "AIPerf", loadOf: four, Runs: runs(0.1, 0.1)}})
	e.put([]loadRow{{Server: "vllm", Tool: "guidellm", Version: "2", loadOf: mixed, Error: "none"}, {Server: "vllm", Tool: "inference_exporter", loadOf: four, Runs: runs(0.121, 0.1)}})
	text := loadTables(e)
	first, second := strings.Index(text, "| AIPerf | 12 | 100 (100 to 100) |"), strings.Index(text, "| guidellm 2 | not measured: none |")
	if first < 0 || second < 0 || second < first || strings.Contains(text, "guidellm 1") || !strings.Contains(text, "| AIPerf | 2 | 256 | 0 | 16.0 | 3.50 | 90.9 ms | +9.09 ms ± 0.00 |") ||
		!strings.Contains(text, "| AIPerf | as measured | +10 % ± 98, 1 of 2 |") || !strings.Contains(text, "| AIPerf | by the server's mean | +0 % ± 0, 2 of 2 |") {
		t.Error(text)
	}
}

// The counters of a page of vLLM: 10 requests more, which took 5 steps with prompts among 40.
func TestServed(t *testing.T) {
	const page = `vllm:request_success_total{engine="0",finished_reason="stop"} %d
vllm:request_success_total{engine="0",finished_reason="length"} %d
vllm:prompt_tokens_total{engine="0"} %d
vllm:prefix_cache_hits_total 0.0
vllm:generation_tokens_total{engine="0"} %d
vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} %d
vllm:iteration_tokens_total_count{engine="0"} %d
vllm:time_to_first_token_seconds_sum %d
vllm:time_to_first_token_seconds_count %d
vllm:request_time_per_output_token_seconds_sum 1
vllm:request_time_per_output_token_seconds_count %d
vllm:inter_token_latency_seconds_sum 1
vllm:inter_token_latency_seconds_count %d
`
	read := func(values ...any) map[string]float64 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, page, values...) }))
		defer s.Close()
		return counters(&loadRun{url: s.URL, page: true})
	}
	got := servedBetween(read(1, 2, 100, 10, 20, 30, 1, 10, 1, 1), read(3, 10, 2660, 170, 55, 70, 3, 20, 2, 2))
	if want := (served{Prompt: 256, Output: 16, Together: 2, TTFT: 0.2}); got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if servedBetween(nil, nil) != nil {
		t.Error("something without a page")
	}
}
