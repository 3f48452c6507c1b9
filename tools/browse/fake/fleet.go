package fake

import (
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/status"
	"github.com/inference-exporter/inference_exporter/web"
)

// Fleet is a small fleet with an endpoint in every state.
func Fleet() []*status.Detail {
	kinds := []Kind{
		{
			Name: "chat-eu", Model: "Qwen/Qwen3-32B", Engine: "vllm", TTFT: 0.085, TPOT: 0.0123, State: status.Up, Bursts: true,
			Labels: map[string]string{"region": "eu-west-1", "tier": "prod"}, Running: 6, KV: 0.31,
		},
		{
			Name: "chat-us", Model: "Qwen/Qwen3-32B", Engine: "vllm", TTFT: 0.31, TPOT: 0.0187, State: status.Up, Bad: 2,
			Outcome: result.StreamError, Error: "the server ended the reply with an error: EngineDeadError", Running: 22, Waiting: 3, KV: 0.78,
			Labels: map[string]string{"region": "us-east-1", "tier": "prod"},
		},
		{
			Name: "judge", Model: "meta-llama/Llama-3.3-70B-Instruct", Engine: "sglang", TTFT: 0.44, TPOT: 0.031, State: status.Down, Bad: 9, Bursts: true,
			Outcome: result.TimeoutFirstToken, Error: "no first token within 10 s; the server answered 200 and sent nothing", Running: 48, Waiting: 210, KV: 0.99,
			Labels: map[string]string{"region": "eu-west-1", "tier": "prod"},
		},
		{
			Name: "code/70b", Model: "deepseek-ai/DeepSeek-Coder-V3", Engine: "trtllm", TTFT: 0.62, TPOT: 0.044, State: status.Degraded, Bad: 3,
			Outcome: result.CheckFailed, Error: `want an answer that contains "Paris"`, Running: 17, Waiting: 1, KV: 0.55,
			Labels: map[string]string{"region": "us-east-1", "tier": "beta"},
		},
		{Name: "rag-staging", Model: "mistralai/Mistral-Small-3.2", Engine: "tgi", TTFT: 0.2, TPOT: 0.02, State: status.Stale, Running: 1, KV: 0.04},
		{Name: "vision-lab", State: status.Waiting},
		{Name: "hosted", Model: "gpt-5-mini", TTFT: 0.48, TPOT: 0.0095, State: status.Slow, Labels: map[string]string{"vendor": "hosted"}},
	}
	var all []*status.Detail
	for _, k := range kinds {
		all = append(all, Endpoint(k))
	}
	return all
}

// Many is a fleet of n endpoints, of which every hundredth is down.
func Many(n int) []*status.Detail {
	some := Fleet()
	var all []*status.Detail
	for i := range n {
		d := *some[i%2]
		if i%100 == 99 {
			d = *some[2]
		}
		d.Name = fmt.Sprintf("endpoint-%05d", i)
		all = append(all, &d)
	}
	return all
}

// OtherPages is content for the pages besides the fleet.
func OtherPages() Content {
	return Content{
		GPUs: gpus(),
		Info: web.Info{
			Version: "1.4.0", Revision: "4be1f0c9d2a7", Started: time.Now().Add(-50 * time.Hour), ConfigFile: "/etc/inference_exporter.yml",
			ConfigLoaded: time.Now().Add(-3 * time.Hour), ConfigOK: false, ConfigError: `endpoints[3].url: want a URL like http://host:8000, got "http//judge"`,
			Endpoints: 7,
		},
		Config: "global:\n  interval: 30s\nendpoints:\n  - name: chat-eu\n    url: http://chat-eu:8000/v1\n    http: {authorization: {credentials: <secret>}}\n",
	}
}

func gpus() *status.GPUPage {
	return &status.GPUPage{
		State: "readings are there", Driver: "580.95.05", CUDA: "13.0", At: now() - 3, Simulated: true,
		GPUs: []*status.GPU{
			{
				Index: 0, UUID: "GPU-6e1f2c1a-77aa-4d1e-9a2b-0b7c41ad5512", Name: "NVIDIA H100 80GB HBM3",
				MemoryUsed: new(71.3e9), MemoryTotal: new(85.5e9), Utilization: new(0.97), SMActive: new(0.41),
				BandwidthUse: new(0.62), Bandwidth: new(3.35e12), Power: new(512.4), PowerLimit: new(700.0), Temperature: new(61.0),
				Processes: []*status.GPUProcess{{PID: 4711, Name: "VLLM::EngineCore", MemoryUsed: new(70.9e9)}},
			},
			{
				Index: 1, UUID: "GPU-0b1d3f44-0c58-47e5-8d3f-6c1f0a8e9b77", Name: "NVIDIA H100 80GB HBM3",
				MemoryUsed: new(84.9e9), MemoryTotal: new(85.5e9), Utilization: new(1.0), Power: new(698.0), PowerLimit: new(700.0),
				Temperature: new(86.0), Throttle: []string{"sw_power_cap", "hw_thermal_slowdown"},
				Problems: []string{"XID 48 (2 times, last 4 min ago): uncorrectable memory error"},
			},
		},
	}
}
