package collector

import (
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// withBandwidth is a GPU of this machine whose memory bandwidth is known.
func withBandwidth(uuid string, v float64) gpu.DeviceSnapshot {
	return gpu.DeviceSnapshot{UUID: uuid, Up: true, Readings: []gpu.Reading{{Kind: gpu.MemoryBandwidth, Label: "table", Value: v}}}
}

// The ceiling is GPUs × bandwidth ÷ weights: an H100 SXM reads 3.35 TB/s, so
// that 16 GB of weights are read 209.375 times a second.
func TestDecodeCeiling(t *testing.T) {
	const gb = 1_000_000_000
	local := gpuUp(
		withBandwidth("GPU-a", 2039*gb),
		withBandwidth("GPU-b", 1935*gb),
		gpu.DeviceSnapshot{UUID: "GPU-lost"},
		gpu.DeviceSnapshot{UUID: "GPU-split", Up: true, MIG: []gpu.MIGSnapshot{{
			UUID: "MIG-c", Readings: []gpu.Reading{{Kind: gpu.MemoryUsed, Value: 1}, {Kind: gpu.MemoryBandwidth, Label: "config", Value: 320 * gb}},
		}}},
	)
	tests := []struct {
		name     string
		hardware config.Hardware
		want     string // "" is no series
	}{
		{"product", config.Hardware{GPU: "H100 SXM", GPUs: 1, Weights: 16 * gb}, "209.375"},
		{"two of them", config.Hardware{GPU: "H100 SXM", GPUs: 2, Weights: 16 * gb}, "418.75"},
		{"configured before product", config.Hardware{GPU: "H100 SXM", GPUs: 1, MemoryBandwidth: 3000 * gb, Weights: 16 * gb}, "187.5"},
		{"configured alone", config.Hardware{GPUs: 8, MemoryBandwidth: 1000 * gb, Weights: 80 * gb}, "100"},
		{"product before local", config.Hardware{GPU: "H100 SXM", GPUs: 1, UUIDs: []string{"GPU-a"}, Weights: 16 * gb}, "209.375"},
		{"local", config.Hardware{GPUs: 2, UUIDs: []string{"GPU-b", "GPU-a"}, Weights: 10 * gb}, "397.4"},
		{"unknown product, local", config.Hardware{GPU: "Abacus 3", GPUs: 1, UUIDs: []string{"GPU-a"}, Weights: 10 * gb}, "203.9"},
		{"one elsewhere", config.Hardware{GPUs: 2, UUIDs: []string{"GPU-a", "GPU-elsewhere"}, Weights: 10 * gb}, ""},
		{"one lost", config.Hardware{GPUs: 2, UUIDs: []string{"GPU-a", "GPU-lost"}, Weights: 10 * gb}, ""},
		{"MIG", config.Hardware{GPUs: 1, UUIDs: []string{"MIG-c"}, Weights: 10 * gb}, "32"},
		{"MIG has not all of the product", config.Hardware{GPU: "H100 SXM", GPUs: 1, UUIDs: []string{"MIG-d"}, Weights: 10 * gb}, ""},
		{"unknown product", config.Hardware{GPU: "Abacus 3", GPUs: 1, Weights: 16 * gb}, ""},
		{"no weights", config.Hardware{GPU: "H100 SXM", GPUs: 1}, ""},
		{"weights alone", config.Hardware{GPUs: 1, Weights: 16 * gb}, ""},
		{"nothing", config.Hardware{GPUs: 1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newStore()
			p.WatchGPUs(func() *gpu.Snapshot { return local })
			p.SetEndpoint(EndpointInfo{Endpoint: "e", Model: "m", Hardware: &tt.hardware})
			got := samples(t, p)[`inference_endpoint_decode_ceiling_tokens_per_second{endpoint="e",model="m"}`]
			if got != tt.want {
				t.Errorf("ceiling is %q, want %q", got, tt.want)
			}
		})
	}
}

// hardwareOf returns the samples of what endpoints run on.
func hardwareOf(t *testing.T, p *Probes) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, v := range samples(t, p) {
		for _, family := range []string{"decode_ceiling_tokens_per_second", "gpus", "weights_bytes", "gpu_info"} {
			if strings.HasPrefix(name, "inference_endpoint_"+family+"{") {
				out[strings.TrimPrefix(name, "inference_endpoint_")] = v
			}
		}
	}
	return out
}

func wantSamples(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %q, want %q", name, got[name], v)
		}
	}
	for name, v := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is %s, want none", name, v)
		}
	}
}

// The series carry the labels of the endpoint's other series, the model as soon
// as it is known, and go with the endpoint.
func TestHardwareLabels(t *testing.T) {
	p, _ := newStore()
	p.SetEndpoint(EndpointInfo{Endpoint: "plain"})
	p.SetEndpoint(EndpointInfo{
		Endpoint: "e", Labels: map[string]string{"team": "search", "uuid": "reserved"},
		Hardware: &config.Hardware{GPU: "H100 SXM", GPUs: 2, Weights: 16_000_000_000, UUIDs: []string{"GPU-b", "GPU-a"}},
	})
	wantSamples(t, hardwareOf(t, p), map[string]string{
		`decode_ceiling_tokens_per_second{endpoint="e",team="search"}`: "418.75",
		`gpus{endpoint="e",team="search"}`:                             "2",
		`weights_bytes{endpoint="e",team="search"}`:                    "1.6e+10",
		`gpu_info{endpoint="e",team="search",uuid="GPU-a"}`:            "1",
		`gpu_info{endpoint="e",team="search",uuid="GPU-b"}`:            "1",
	})
	p.SetServed("e", &result.Result{Model: "m"})
	wantSamples(t, hardwareOf(t, p), map[string]string{
		`decode_ceiling_tokens_per_second{endpoint="e",model="m",team="search"}`: "418.75",
		`gpus{endpoint="e",model="m",team="search"}`:                             "2",
		`weights_bytes{endpoint="e",model="m",team="search"}`:                    "1.6e+10",
		`gpu_info{endpoint="e",model="m",team="search",uuid="GPU-a"}`:            "1",
		`gpu_info{endpoint="e",model="m",team="search",uuid="GPU-b"}`:            "1",
	})
	p.SetEndpoint(EndpointInfo{Endpoint: "e", Hardware: &config.Hardware{GPUs: 1, UUIDs: []string{"MIG-c"}}})
	wantSamples(t, hardwareOf(t, p), map[string]string{
		`gpus{endpoint="e"}`:                      "1",
		`gpu_info{endpoint="e",mig_uuid="MIG-c"}`: "1",
	})
	p.RemoveEndpoint("e")
	wantSamples(t, hardwareOf(t, p), nil)
}
