package collector

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// spendingOf returns the samples of prices and budgets.
func spendingOf(t *testing.T, p *Probes) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, v := range samples(t, p) {
		for _, family := range []string{"price", "budget"} {
			if strings.HasPrefix(name, "inference_endpoint_"+family+"_") {
				out[strings.TrimPrefix(name, "inference_endpoint_")] = v
			}
		}
	}
	return out
}

// used returns a budget of which so much is used.
func used(tokens, usd float64) func() (float64, float64) {
	return func() (float64, float64) { return tokens, usd }
}

func TestSpending(t *testing.T) {
	tests := []struct {
		name string
		info EndpointInfo
		want map[string]string
	}{
		{"nothing", EndpointInfo{}, nil},
		{"by the hour", EndpointInfo{Price: &config.Price{GPUHourUSD: 3.25, GPUs: 2}}, map[string]string{
			`price_usd_per_hour{endpoint="e"}`: "6.5",
		}},
		{"by the token", EndpointInfo{Price: &config.Price{GPUs: 1, InputUSD: 4, CachedInputUSD: 2, OutputUSD: 16}}, map[string]string{
			`price_usd_per_token{endpoint="e",kind="input"}`:        "4e-06",
			`price_usd_per_token{endpoint="e",kind="cached_input"}`: "2e-06",
			`price_usd_per_token{endpoint="e",kind="output"}`:       "1.6e-05",
		}},
		{"the cache is free", EndpointInfo{Price: &config.Price{GPUs: 1, InputUSD: 4}}, map[string]string{
			`price_usd_per_token{endpoint="e",kind="input"}`:        "4e-06",
			`price_usd_per_token{endpoint="e",kind="cached_input"}`: "0",
		}},
		{"only output", EndpointInfo{Price: &config.Price{GPUs: 1, OutputUSD: 16}}, map[string]string{
			`price_usd_per_token{endpoint="e",kind="output"}`: "1.6e-05",
		}},
		{"cache writes", EndpointInfo{Price: &config.Price{GPUs: 1, InputUSD: 4, CacheWriteUSD: 5}}, map[string]string{
			`price_usd_per_token{endpoint="e",kind="input"}`:        "4e-06",
			`price_usd_per_token{endpoint="e",kind="cached_input"}`: "0",
			`price_usd_per_token{endpoint="e",kind="cache_write"}`:  "5e-06",
		}},
		{"another currency", EndpointInfo{Price: &config.Price{GPUs: 2, Currency: "EUR", GPUHour: 3, Output: 8}}, map[string]string{
			`price_per_hour{currency="EUR",endpoint="e"}`:                "6",
			`price_per_token{currency="EUR",endpoint="e",kind="output"}`: "8e-06",
			`price_info{currency="EUR",endpoint="e"}`:                    "1",
		}},
		{"converted", EndpointInfo{Price: &config.Price{GPUs: 2, Currency: "EUR", USDRate: 1.25, GPUHour: 3, Output: 8}}, map[string]string{
			`price_per_hour{currency="EUR",endpoint="e"}`:                "6",
			`price_per_token{currency="EUR",endpoint="e",kind="output"}`: "8e-06",
			`price_info{currency="EUR",endpoint="e"}`:                    "1",
			`price_usd_per_hour{endpoint="e"}`:                           "7.5",
			`price_usd_per_token{endpoint="e",kind="output"}`:            "1e-05",
		}},
		// The clock of the test is at 22:13:20 in UTC.
		{"a schedule", EndpointInfo{Price: &config.Price{GPUs: 2, GPUHourUSD: 3, Plan: "on_demand", Schedule: []config.PricePart{
			{Until: "2020-01-01", GPUHour: 9}, {Hours: "22:00-06:00", GPUHour: 1, Plan: "spot"},
		}}}, map[string]string{
			`price_usd_per_hour{endpoint="e"}`:                    "2",
			`price_info{currency="USD",endpoint="e",plan="spot"}`: "1",
		}},
		{"both budgets", EndpointInfo{Budget: used(0.25, 1)}, map[string]string{
			`budget_used_ratio{endpoint="e",resource="tokens"}`: "0.25",
			`budget_used_ratio{endpoint="e",resource="usd"}`:    "1",
		}},
		{"one budget, not begun", EndpointInfo{Budget: used(0, -1)}, map[string]string{
			`budget_used_ratio{endpoint="e",resource="tokens"}`: "0",
		}},
		{"no budget", EndpointInfo{Budget: used(-1, -1)}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newStore()
			tt.info.Endpoint = "e"
			p.OpenEndpoint(tt.info)
			wantSamples(t, spendingOf(t, p), tt.want)
		})
	}
}

// The series carry the labels of the endpoint's other series, the model as soon
// as it is known, and go with the endpoint.
func TestSpendingLabels(t *testing.T) {
	p, _ := newStore()
	e := p.OpenEndpoint(EndpointInfo{
		Endpoint: "e", Labels: map[string]string{"team": "search", "kind": "reserved"},
		Price: &config.Price{GPUHourUSD: 2, GPUs: 1}, Budget: used(0.5, -1),
	})
	e.SetServed(&result.Result{Model: "m"})
	wantSamples(t, spendingOf(t, p), map[string]string{
		`price_usd_per_hour{endpoint="e",model="m",team="search"}`:                  "2",
		`budget_used_ratio{endpoint="e",model="m",resource="tokens",team="search"}`: "0.5",
	})
	e.Close()
	wantSamples(t, spendingOf(t, p), nil)
}

// Probes of different series of an endpoint end at the same time.
func TestSetServedConcurrently(t *testing.T) {
	p, _ := newStore()
	e := p.OpenEndpoint(EndpointInfo{Endpoint: "e"})
	var probes sync.WaitGroup
	for _, model := range []string{"a", "b", "a", "b"} {
		probes.Go(func() {
			for range 100 {
				e.SetServed(&result.Result{Model: model})
			}
		})
	}
	probes.Wait()
}

// spendingOnly shows the families of prices and budgets of a store alone.
type spendingOnly struct{ *Probes }

func (s spendingOnly) write(e encoder) {
	writeSeries(e, s.spending, s.page().spending)
}

func TestSpendingEqualsClientGolang(t *testing.T) {
	p, reg := NewProbes(time.Now), prometheus.NewRegistry()
	vec := func(name string, own ...string) *prometheus.GaugeVec {
		return describedGauge(reg, name, append([]string{"endpoint", "model", "a_zone", "team"}, own...)...)
	}
	hour, token, budget := vec("endpoint_price_usd_per_hour"), vec("endpoint_price_usd_per_token", "kind"), vec("endpoint_budget_used_ratio", "resource")
	for i, target := range targets(false) {
		info := target.info()
		info.Price, info.Budget = &config.Price{GPUHourUSD: 1.1, GPUs: 1, InputUSD: float64(i + 1), CachedInputUSD: 0.5, OutputUSD: 7}, used(0.125, float64(i))
		p.OpenEndpoint(info)
		with := func(own ...string) []string {
			return append([]string{target.Endpoint, target.model, target.Labels["a_zone"], target.Labels["team"]}, own...)
		}
		hour.WithLabelValues(with()...).Set(1.1)
		token.WithLabelValues(with("input")...).Set(float64(i+1) / 1e6)
		token.WithLabelValues(with("cached_input")...).Set(0.5 / 1e6)
		token.WithLabelValues(with("output")...).Set(7 / 1e6)
		budget.WithLabelValues(with("tokens")...).Set(0.125)
		budget.WithLabelValues(with("usd")...).Set(float64(i))
	}
	compare(t, spendingOnly{p}, reg)
}

// describedGauge registers a gauge with the description of the catalogue.
func describedGauge(reg prometheus.Registerer, name string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts(describedOpts(name)), labels)
	reg.MustRegister(v)
	return v
}

// describedOpts returns the description of the catalogue.
func describedOpts(name string) prometheus.Opts {
	for _, f := range Catalogue() {
		if f.Name == namePrefix+name {
			return f.opts()
		}
	}
	panic("no family " + name)
}

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
		{"parameters in their precision", config.Hardware{GPUs: 1, MemoryBandwidth: 1800 * gb, Parameters: 32e9, WeightsPrecision: "nvfp4"}, "100"},
		{"no weights", config.Hardware{GPU: "H100 SXM", GPUs: 1}, ""},
		{"weights alone", config.Hardware{GPUs: 1, Weights: 16 * gb}, ""},
		{"nothing", config.Hardware{GPUs: 1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newStore()
			p.WatchGPUs(func() gpu.Snapshots { return gpu.Snapshots{local} })
			p.OpenEndpoint(EndpointInfo{Endpoint: "e", Model: "m", Hardware: &tt.hardware})
			got := samples(t, p)[`inference_endpoint_decode_ceiling_tokens_per_second{endpoint="e",model="m"}`]
			if got != tt.want {
				t.Errorf("ceiling is %q, want %q", got, tt.want)
			}
		})
	}
}

// A precision that the pages of the servers show counts where the configuration has none, and goes with the page.
func TestPrecisionOfPages(t *testing.T) {
	const ceiling = `inference_endpoint_prefill_ceiling_tokens_per_second{endpoint="e"}`
	p, _ := newStore()
	e := p.OpenEndpoint(EndpointInfo{Endpoint: "e", Hardware: &config.Hardware{GPU: "H100 SXM", GPUs: 1, Weights: 16_000_000_000}})
	configured := p.OpenEndpoint(EndpointInfo{Endpoint: "c", Hardware: &config.Hardware{GPU: "H100 SXM", GPUs: 1, Weights: 8_000_000_000, WeightsPrecision: "fp8", ComputePrecision: "fp8"}})
	p.OpenEndpoint(EndpointInfo{Endpoint: "none"}).SetPrecision("bf16")
	for shown, want := range map[string]string{"": "", "bf16": "61843.75", "fp32": ""} {
		e.SetPrecision(shown)
		configured.SetPrecision(shown)
		got := samples(t, p)
		if got[ceiling] != want {
			t.Errorf("%q: the ceiling is %q, want %q", shown, got[ceiling], want)
		}
		if got := got[`inference_endpoint_prefill_ceiling_tokens_per_second{endpoint="c"}`]; got != "123687.5" {
			t.Errorf("%q: the configured precision no longer counts: %q", shown, got)
		}
	}
}

// hardwareOf returns the samples of what endpoints run on.
func hardwareOf(t *testing.T, p *Probes) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, v := range samples(t, p) {
		for _, family := range []string{"decode_ceiling_tokens_per_second", "gpus", "weights_bytes", "total_weights_bytes", "kv_cache_bytes_per_token", "gpu_memory_bandwidth_bytes_per_second", "gpu_info", "precision_info"} {
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
	p.OpenEndpoint(EndpointInfo{Endpoint: "plain"})
	e := p.OpenEndpoint(EndpointInfo{
		Endpoint: "e", Labels: map[string]string{"team": "search", "uuid": "reserved"},
		Hardware: &config.Hardware{GPU: "H100 SXM", GPUs: 2, Weights: 16_000_000_000, TotalWeights: 17_000_000_000, KVCachePerToken: 2 * 32 * 8 * 128 * 2, UUIDs: []string{"GPU-b", "GPU-a"}},
	})
	wantSamples(t, hardwareOf(t, p), map[string]string{
		`decode_ceiling_tokens_per_second{endpoint="e",team="search"}`:      "418.75",
		`gpus{endpoint="e",team="search"}`:                                  "2",
		`weights_bytes{endpoint="e",team="search"}`:                         "1.6e+10",
		`total_weights_bytes{endpoint="e",team="search"}`:                   "1.7e+10",
		`kv_cache_bytes_per_token{endpoint="e",team="search"}`:              "131072",
		`gpu_memory_bandwidth_bytes_per_second{endpoint="e",team="search"}`: "3.35e+12",
		`gpu_info{endpoint="e",team="search",uuid="GPU-a"}`:                 "1",
		`gpu_info{endpoint="e",team="search",uuid="GPU-b"}`:                 "1",
	})
	e.SetServed(&result.Result{Model: "m"})
	wantSamples(t, hardwareOf(t, p), map[string]string{
		`decode_ceiling_tokens_per_second{endpoint="e",model="m",team="search"}`:      "418.75",
		`gpus{endpoint="e",model="m",team="search"}`:                                  "2",
		`weights_bytes{endpoint="e",model="m",team="search"}`:                         "1.6e+10",
		`total_weights_bytes{endpoint="e",model="m",team="search"}`:                   "1.7e+10",
		`kv_cache_bytes_per_token{endpoint="e",model="m",team="search"}`:              "131072",
		`gpu_memory_bandwidth_bytes_per_second{endpoint="e",model="m",team="search"}`: "3.35e+12",
		`gpu_info{endpoint="e",model="m",team="search",uuid="GPU-a"}`:                 "1",
		`gpu_info{endpoint="e",model="m",team="search",uuid="GPU-b"}`:                 "1",
	})
	e.Close()
	e = p.OpenEndpoint(EndpointInfo{Endpoint: "e", Hardware: &config.Hardware{GPUs: 1, UUIDs: []string{"MIG-c"}, ComputePrecision: "bf16"}})
	wantSamples(t, hardwareOf(t, p), map[string]string{
		`gpus{endpoint="e"}`:                                    "1",
		`gpu_info{endpoint="e",mig_uuid="MIG-c"}`:               "1",
		`precision_info{compute_precision="bf16",endpoint="e"}`: "1",
	})
	e.Close()
	wantSamples(t, hardwareOf(t, p), nil)
}

// The ceiling is GPUs × operations ÷ 2 ÷ weights: an H100 SXM does 989.5 · 10^12 operations a second in bf16, so that 8 · 10^9 weights
// allow 989.5e12 / 16e9 = 61,843.75 tokens.
func TestPrefillCeiling(t *testing.T) {
	const billion = 1_000_000_000
	local := gpuUp(
		gpu.DeviceSnapshot{UUID: "GPU-h", Name: "NVIDIA H100 80GB HBM3", Up: true},
		gpu.DeviceSnapshot{UUID: "GPU-h2", Name: "NVIDIA H100 80GB HBM3", Up: true},
		gpu.DeviceSnapshot{UUID: "GPU-a", Name: "NVIDIA A100-SXM4-80GB", Up: true},
		gpu.DeviceSnapshot{UUID: "GPU-split", Name: "NVIDIA H100 80GB HBM3", Up: true, MIG: []gpu.MIGSnapshot{{UUID: "MIG-c"}}},
	)
	tests := []struct {
		name                           string
		hardware                       config.Hardware
		ceiling, peak, weights, native string // "" is no series
	}{
		{"16 bits", config.Hardware{GPU: "H100 SXM", GPUs: 1, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "61843.75", "9.895e+14", "1", "1"},
		{"weights as bytes", config.Hardware{GPU: "H100 SXM", GPUs: 1, Weights: 16 * billion, WeightsPrecision: "bf16"}, "61843.75", "9.895e+14", "1", "1"},
		{"two of them", config.Hardware{GPU: "H100 SXM", GPUs: 2, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "123687.5", "9.895e+14", "1", "1"},
		{"8 bits", config.Hardware{GPU: "H100 SXM", GPUs: 1, Parameters: 8 * billion, WeightsPrecision: "fp8", ComputePrecision: "fp8"}, "123687.5", "1.979e+15", "1", "1"},
		// engines multiply weights of 8 bits in 8 bits or in 16
		{"8 bits, and how it multiplies unknown", config.Hardware{GPU: "H100 SXM", GPUs: 1, Parameters: 8 * billion, WeightsPrecision: "fp8"}, "", "", "1", ""},
		{"FP8 on an A100", config.Hardware{GPU: "A100 80GB SXM", GPUs: 1, Parameters: 8 * billion, WeightsPrecision: "fp8", ComputePrecision: "bf16"}, "19500", "3.12e+14", "0", "1"},
		{"FP4 on Hopper", config.Hardware{GPU: "H100 SXM", GPUs: 1, Parameters: 8 * billion, WeightsPrecision: "nvfp4", ComputePrecision: "nvfp4"}, "", "", "0", "0"},
		{"local", config.Hardware{GPUs: 2, UUIDs: []string{"GPU-h", "GPU-h2"}, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "123687.5", "9.895e+14", "1", "1"},
		// each waits for the slowest
		{"local of two kinds", config.Hardware{GPUs: 2, UUIDs: []string{"GPU-h", "GPU-a"}, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "39000", "3.12e+14", "1", "1"},
		{"local of two kinds, native to one", config.Hardware{GPUs: 2, UUIDs: []string{"GPU-h", "GPU-a"}, Parameters: 8 * billion, WeightsPrecision: "fp8"}, "", "", "0", ""},
		{"one elsewhere", config.Hardware{GPUs: 2, UUIDs: []string{"GPU-h", "GPU-elsewhere"}, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "", "", "", ""},
		{"MIG has not all of it", config.Hardware{GPUs: 1, UUIDs: []string{"MIG-c"}, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "", "", "1", "1"},
		{"no parameters", config.Hardware{GPU: "H100 SXM", GPUs: 1, WeightsPrecision: "bf16"}, "", "9.895e+14", "1", "1"},
		{"no precision", config.Hardware{GPU: "H100 SXM", GPUs: 1, Weights: 16 * billion}, "", "", "", ""},
		{"fp32", config.Hardware{GPU: "H100 SXM", GPUs: 1, Weights: 32 * billion, WeightsPrecision: "fp32", ComputePrecision: "fp32"}, "", "", "", ""},
		{"unknown product", config.Hardware{GPU: "Abacus 3", GPUs: 1, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "", "", "", ""},
		{"unknown product, local", config.Hardware{GPU: "Abacus 3", GPUs: 1, UUIDs: []string{"GPU-a"}, Parameters: 8 * billion, WeightsPrecision: "bf16"}, "19500", "3.12e+14", "1", "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newStore()
			p.WatchGPUs(func() gpu.Snapshots { return gpu.Snapshots{local} })
			p.OpenEndpoint(EndpointInfo{Endpoint: "e", Hardware: &tt.hardware})
			got := samples(t, p)
			for series, want := range map[string]string{
				`prefill_ceiling_tokens_per_second{endpoint="e"}`: tt.ceiling, `gpu_peak_flops{endpoint="e"}`: tt.peak,
				`precision_native{endpoint="e",kind="weights"}`: tt.weights, `precision_native{endpoint="e",kind="compute"}`: tt.native,
			} {
				if got := got["inference_endpoint_"+series]; got != want {
					t.Errorf("%s is %q, want %q", series, got, want)
				}
			}
		})
	}
}
