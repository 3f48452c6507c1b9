package main

import (
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
	var got loadRow
	if err := vllm.read([]byte(`{"completed": 7, "output_throughput": 80.5, "p50_ttft_ms": 20, "p90_ttft_ms": 30, "p99_ttft_ms": 40,
		"p50_tpot_ms": 2, "p90_tpot_ms": 3, "p99_tpot_ms": 4}`), &got); err != nil {
		t.Fatal(err)
	}
	want := loadRow{
		Requests: 7, TokensPerSecond: 80.5,
		TTFT: map[string]between{"p50": {Value: 0.02}, "p90": {Value: 0.03}, "p99": {Value: 0.04}},
		TPOT: map[string]between{"p50": {Value: 0.002}, "p90": {Value: 0.003}, "p99": {Value: 0.004}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := own.read([]byte(`{"load_test": {"levels": [{"requests": 9, "output_tokens_per_second": 5,
		"ttft_seconds": {"p50": {"value": 0.1, "lower": 0.09, "upper": 0.12}, "p90": {"value": 0.2}, "p99": {"value": 0.3}},
		"tpot_seconds": {"p50": {"value": 0.01}, "p90": {"value": 0.02}, "p99": {"value": 0.03}}}]}}`), &got); err != nil {
		t.Fatal(err)
	}
	if text := got.TTFT["p50"].String() + ", " + got.TTFT["p99"].String(); text != "100 (90 to 120), 300" || got.Requests != 9 {
		t.Errorf("%s of %v requests", text, got.Requests)
	}
	if err := vllm.read([]byte(`{"completed": 7}`), &got); err == nil || !strings.Contains(err.Error(), "p99_tpot_ms") {
		t.Errorf("a report without times: %v", err)
	}
}

func TestLoadTables(t *testing.T) {
	e := loadEvidence{Date: "2026-11-26", Machine: "m"}
	e.put([]loadRow{{Server: "vllm", Tool: "guidellm", Version: "1", Users: 8, Error: "no"}, {Server: "vllm", Tool: "AIPerf", Users: 4, Requests: 12}})
	e.put([]loadRow{{Server: "vllm", Tool: "guidellm", Version: "2", Users: 8, Error: "none"}})
	text := loadTables(e)
	first, second := strings.Index(text, "| 4 | AIPerf | 12 |"), strings.Index(text, "| 8 | guidellm 2 | not measured: none |")
	if first < 0 || second < first || strings.Contains(text, "guidellm 1") {
		t.Error(text)
	}
}
