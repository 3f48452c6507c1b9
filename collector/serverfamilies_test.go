package collector

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// distributions lists the quantities that pages show as histograms, and numbers the others that have no section of their own.
func distributions(of config.Software) []config.Quantity {
	return quantities(of, func(row config.QuantityRow) bool { return row.Kind == "histogram" })
}

func numbers(of config.Software) []config.Quantity {
	return quantities(of, func(row config.QuantityRow) bool { return row.Kind != "histogram" && row.Own == "" })
}

func quantities(of config.Software, wanted func(row config.QuantityRow) bool) (all []config.Quantity) {
	for _, row := range config.Vocabulary(of) {
		if wanted(row) {
			all = append(all, row.Quantity)
		}
	}
	return all
}

// Each quantity has a family of its type.
func TestServerFamiliesAreComplete(t *testing.T) {
	names := make(map[string]Type)
	for _, f := range serverFamilies() {
		names[f.Name] = f.Type
	}
	for _, q := range config.Quantities(config.ServerSoftware) {
		name, want := "inference_server_"+string(q), Gauge
		switch {
		case q == "iteration_tokens" || q == "batch_size":
			want = Histogram
		case slices.Contains(distributions(config.ServerSoftware), q):
			name, want = name+"_seconds", Histogram
		case config.IsCounter(q):
			name, want = name+"_total", Counter
		}
		if names[name] != want {
			t.Errorf("%s is a %q, want a %s", name, names[name], want)
		}
	}
	if page.RatioWindow != 5*time.Minute {
		t.Errorf("the help of server_prefix_cache_hit_ratio says 5 minutes, not %s", page.RatioWindow)
	}
}

// serversReference is what a Servers store should hold, as client_golang's
// constant metrics, in the plainest way there is.
type serversReference struct {
	endpoints []servedReference
}

// servedReference is one endpoint with the statuses that were set.
type servedReference struct {
	id       ServersID
	statuses []page.Status
}

// Describe implements prometheus.Collector; without descriptions the registry
// takes whatever is collected.
func (ref *serversReference) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (ref *serversReference) Collect(out chan<- prometheus.Metric) {
	described := make(map[string]Family)
	for _, f := range Catalogue() {
		described[f.Name] = f
	}
	for _, served := range ref.endpoints {
		base := with(prometheus.Labels{"endpoint": served.id.Endpoint}, "model", served.id.Model)
		maps.Copy(base, served.id.Labels)
		states := map[page.State]float64{}
		for _, st := range served.statuses {
			states[st.State]++
			referenceServer(&referenceOutput{out, described, with(base, "server", st.Server)}, st)
		}
		for _, state := range []page.State{"up", "down", "unreadable", "unmapped"} {
			o := referenceOutput{out, described, base}
			o.number("endpoint_servers", prometheus.GaugeValue, states[state], "state", string(state))
		}
	}
}

// referenceOutput makes metrics with the same labels.
type referenceOutput struct {
	out       chan<- prometheus.Metric
	described map[string]Family
	labels    prometheus.Labels
}

// with returns labels and one more, which an empty value means not to have.
func with(labels prometheus.Labels, name, value string) prometheus.Labels {
	out := maps.Clone(labels)
	if value != "" {
		out[name] = value
	}
	return out
}

func (o *referenceOutput) desc(name string, own []string) *prometheus.Desc {
	labels := o.labels
	for i := 0; i < len(own); i += 2 {
		labels = with(labels, own[i], own[i+1])
	}
	f := o.described["inference_"+name]
	return prometheus.V2.NewDesc("inference_"+name, f.Help, prometheus.UnconstrainedLabels(nil), labels, prometheus.WithUnit(f.Unit))
}

func (o *referenceOutput) number(name string, kind prometheus.ValueType, v float64, own ...string) {
	o.out <- prometheus.MustNewConstMetric(o.desc(name, own), kind, v)
}

func (o *referenceOutput) histogram(name string, h *page.Histogram) {
	buckets := make(map[float64]uint64)
	for i, b := range h.Bounds {
		buckets[b] = h.Counts[i]
	}
	o.out <- prometheus.MustNewConstHistogram(o.desc(name, nil), h.Count, h.Sum, buckets)
}

// referenceServer makes the metrics of one server. The keys are those of the
// vocabulary, written out here so that a family which reads the wrong one
// shows.
func referenceServer(o *referenceOutput, st page.Status) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	unix := func(ns int64) float64 { return float64(ns) / 1e9 }
	up := 0.0
	if st.State == "up" {
		up = 1
		o.labels = with(o.labels, "engine", st.Snapshot.Engine)
	}
	o.number("server_up", gauge, up)
	o.number("server_scrape_duration_seconds", gauge, st.Duration.Seconds())
	o.number("server_last_scrape_timestamp_seconds", gauge, unix(st.At.UnixNano()))
	for _, r := range []page.Reason{"dns", "connect", "tls", "timeout", "http_status", "too_large", "format", "duplicate", "wrong_type", "buckets", "unmapped"} {
		o.number("server_scrape_failures_total", counter, float64(st.Failures[r]), "reason", string(r))
	}
	if !st.LastProgress.IsZero() {
		o.number("server_last_progress_timestamp_seconds", gauge, unix(st.LastProgress.UnixNano()))
	}
	if up == 0 {
		return
	}
	s := st.Snapshot
	o.number("server_info", gauge, 1, "url", st.URL, "prefix_cache_unit", s.PrefixCacheUnit, "disaggregation_role", s.Role)
	for setting, value := range s.Settings {
		o.number("server_setting_info", gauge, 1, "setting", string(setting), "value", value)
	}
	if s.PrefixCacheUnit != "" && s.PrefixCacheRatio >= 0 {
		o.number("server_prefix_cache_hit_ratio", gauge, s.PrefixCacheRatio)
	}
	for _, q := range s.Missing {
		o.number("server_quantity_missing", gauge, 1, "quantity", string(q))
	}
	if r := s.Ranks; r != nil {
		o.number("server_ranks", gauge, float64(r.Number))
		for q, name := range map[config.Quantity]string{
			"requests_running": "requests_running", "requests_waiting": "requests_waiting", "kv_cache_usage_ratio": "kv_cache_usage_ratio",
			"generation_tokens": "generation_tokens_per_second",
		} {
			o.number("server_rank_"+name, gauge, r.Bounds[q][0], "stat", "smallest")
			o.number("server_rank_"+name, gauge, r.Bounds[q][1], "stat", "largest")
		}
		o.number("server_rank_lag_start_timestamp_seconds", gauge, unix(r.Starved.UnixNano()), "reason", "starved")
		o.number("server_rank_lag_start_timestamp_seconds", gauge, unix(r.Slow.UnixNano()), "reason", "slow")
	}
	for finish, n := range s.Requests {
		o.number("server_requests_total", counter, n, "finish", finish)
	}
	gauges := []string{
		"requests_running", "requests_waiting", "requests_deferred", "requests_waiting_frontend", "engines_sleeping", "engines_awake", "startup_seconds", "weights_load_seconds", "kv_cache_usage_ratio", "kv_cache_capacity_tokens", "kv_cache_block_tokens", "kv_cache_blocks",
		"context_length_tokens", "lora_adapters_running", "lora_adapters_waiting", "lora_adapters_max",
		"requests_waiting_grammar", "requests_waiting_bootstrap", "requests_waiting_kv_send", "requests_waiting_kv_space", "requests_waiting_kv_transfer",
		"kv_cache_full_attention_usage_ratio", "kv_cache_sliding_window_usage_ratio", "mamba_cache_usage_ratio",
		"kv_offload_usage_ratio", "kv_offload_used_tokens", "kv_offload_capacity_tokens",
		"model_weights_bytes", "kv_cache_bytes", "cuda_graphs_bytes", "spec_decode_acceptance_ratio", "spec_decode_acceptance_length",
		"models_loaded", "loaded_models_bytes", "loaded_models_gpu_bytes", "model_unload_timestamp_seconds",
	}
	for q, v := range s.Values {
		if slices.Contains(gauges, string(q)) {
			o.number("server_"+string(q), gauge, v)
		} else {
			o.number("server_"+string(q)+"_total", counter, v)
		}
	}
	for q, h := range s.Histograms {
		unit := "_seconds"
		if q == "iteration_tokens" || q == "batch_size" {
			unit = ""
		}
		o.histogram("server_"+string(q)+unit, h)
	}
}

// fullRanks are ranks of which everything is known.
func fullRanks() *page.Ranks {
	return &page.Ranks{
		Number: 8, Starved: epoch, Slow: epoch.Add(time.Minute),
		Bounds: map[config.Quantity][2]float64{
			config.RequestsRunning: {0, 16}, config.RequestsWaiting: {1, 12}, config.KVCacheUsage: {0.25, 0.75}, config.GenerationTokens: {20.5, 90},
		},
	}
}
