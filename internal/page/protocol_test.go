package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// demand is a metric that an endpoint picker reads of a model server, by the
// model-server protocol of the Gateway API Inference Extension (proposal 003, and the
// names that its endpoint picker reads by default for each engine).
type demand struct {
	metric   string
	quantity config.Quantity
	want     float64
	shown    map[string]string // by engine, a page with the metric of that value
}

// demands are the metrics of the protocol. Each has another value, so that none is read
// in the place of another.
func demands() []demand {
	lora := `vllm:lora_requests_info{max_lora="7",running_lora_adapters="a, b,c",waiting_lora_adapters="d"} 1.7953691e+09` + "\n" +
		`vllm:lora_requests_info{max_lora="7",running_lora_adapters="a,b,c,d,e,f",waiting_lora_adapters=""} 1.7953690e+09`
	return []demand{
		{"TotalQueuedRequests", config.RequestsWaiting, 5, map[string]string{
			"vllm": `vllm:num_requests_waiting{model_name="m"} 5`, "sglang": `sglang:num_queue_reqs{model_name="m"} 5`,
			"trtllm": `trtllm_num_requests_waiting 5`, "triton-trtllm": `nv_trt_llm_request_metrics{request_type="waiting"} 5`,
		}},
		{"TotalRunningRequests", config.RequestsRunning, 6, map[string]string{
			"vllm": `vllm:num_requests_running{model_name="m"} 6`, "sglang": `sglang:num_running_reqs{model_name="m"} 6`,
			"trtllm": `trtllm_num_requests_running 6`, "triton-trtllm": `nv_trt_llm_request_metrics{request_type="scheduled"} 6`,
		}},
		{"KVCacheUtilization", config.KVCacheUsage, 0.25, map[string]string{
			"vllm": `vllm:kv_cache_usage_perc{model_name="m"} 0.25`, "sglang": `sglang:token_usage{model_name="m"} 0.25`,
			"trtllm": `trtllm_kv_cache_utilization 0.25`, "triton-trtllm": `nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} 0.25`,
		}},
		{"BlockSize", "kv_cache_block_tokens", 64, map[string]string{
			"vllm": `vllm:cache_config_info{block_size="64",num_gpu_blocks="900"} 1`, "sglang": `sglang:page_size{model_name="m"} 64`,
			"trtllm": `trtllm_kv_cache_tokens_per_block 64`, "triton-trtllm": `nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per"} 64`,
		}},
		{"NumGPUBlocks", "kv_cache_blocks", 900, map[string]string{
			"vllm": "", "sglang": `sglang:num_pages{model_name="m"} 900`, // vLLM: a label of the series above
			"trtllm": `trtllm_kv_cache_max_blocks 900`, "triton-trtllm": `nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"} 900`,
		}},
		{"LoRA: running_lora_adapters", "lora_adapters_running", 3, map[string]string{"vllm": lora}},
		{"LoRA: waiting_lora_adapters", "lora_adapters_waiting", 1, map[string]string{"vllm": ""}},
		{"LoRA: max_lora", "lora_adapters_max", 7, map[string]string{"vllm": ""}},
	}
}

// protocolEngines are the engines of the protocol, as its table orders them.
func protocolEngines() []string { return []string{"vllm", "sglang", "trtllm", "triton-trtllm"} }

// Of each engine of the protocol every metric that it demands is read, from a page that
// has nothing else.
func TestModelServerProtocol(t *testing.T) {
	for _, name := range protocolEngines() {
		var page strings.Builder
		want := map[config.Quantity]float64{}
		for _, d := range demands() {
			if line, ok := d.shown[name]; ok {
				fmt.Fprintln(&page, line)
				want[d.quantity] = d.want
			}
		}
		s, err := mappings(t, nil).NewReader().Read([]byte(page.String()), textFormat, time.Time{}, Want{Model: "m"})
		if err != nil || s.Engine != name {
			t.Errorf("%s: %v, read as %+v", name, err, s)
			continue
		}
		for q, v := range want {
			if got, ok := s.Values[q]; !ok || got != v {
				t.Errorf("%s: %s is %v (there: %t), want %v", name, q, got, ok, v)
			}
		}
	}
}

// protocolTable renders from which series the metrics of the protocol are read.
func protocolTable(engines []documentedEngine) string {
	var b strings.Builder
	b.WriteString("| protocol | quantity |")
	columns := make([]*documentedEngine, 0, len(protocolEngines()))
	for _, name := range protocolEngines() {
		for i := range engines {
			if engines[i].Name == name {
				columns = append(columns, &engines[i])
				b.WriteString(" " + engines[i].Title + " |")
			}
		}
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(columns)+2) + "\n")
	for _, d := range demands() {
		fmt.Fprintf(&b, "| %s | `%s` |", d.metric, d.quantity)
		for _, e := range columns {
			full := *e
			full.prefix = ""
			cell := full.cell(d.quantity)
			if _, ok := d.shown[e.Name]; !ok {
				cell = "not in the protocol"
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
