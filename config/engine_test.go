package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

// TestEngineDefaults checks a mapping against what its comments say.
func TestEngineDefaults(t *testing.T) {
	f := func(text string, want Mapping) {
		t.Helper()
		got, err := ParseMapping([]byte(text), "a.yml", ServerSoftware)
		if err != nil {
			t.Error(err)
			return
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
	number := func(q Quantity, want MappingSource) {
		t.Helper()
		f("values: {"+string(q)+": [{series: x}]}", Mapping{Values: map[Quantity][]MappingSource{q: {want}}})
	}
	for _, q := range named(ServerSoftware, isNumber) {
		want := MappingSource{Series: "x", Combine: "sum", Scale: 1}
		if slices.Contains([]Quantity{
			"kv_cache_usage_ratio", "kv_cache_full_attention_usage_ratio", "kv_cache_sliding_window_usage_ratio", "mamba_cache_usage_ratio",
			"kv_offload_usage_ratio", "spec_decode_acceptance_ratio", "spec_decode_acceptance_length",
			"context_length_tokens", "kv_cache_block_tokens", "lora_adapters_max", "model_weights_bytes", "kv_cache_bytes", "cuda_graphs_bytes", "startup_seconds", "weights_load_seconds", "model_unload_timestamp_seconds",
			"estimated_flops_per_gpu", "estimated_read_bytes_per_gpu", "estimated_write_bytes_per_gpu",
		}, q) {
			want.Combine = "max"
		}
		number(q, want)
	}
	f("values: {corrupted_requests: [{series: x, if: {series: y}}]}", Mapping{Values: map[Quantity][]MappingSource{
		"corrupted_requests": {{Series: "x", Combine: "sum", Scale: 1, If: &MappingSource{Series: "y", Combine: "max", Scale: 1}}},
	}})
	f("sentinels: [x]", Mapping{Sentinels: []string{"x"}})
	f("progress: [{series: x, combine: max, scale: 0.5}]", Mapping{Progress: []MappingSource{{Series: "x", Combine: "max", Scale: 0.5}}})
	f("values: {kv_cache_usage_ratio: [{series: x, plus: {series: y}, times: {series: z, plus: {series: w, scale: 1e-6}}}]}", Mapping{
		Values: map[Quantity][]MappingSource{KVCacheUsage: {{
			Series: "x", Combine: "max", Scale: 1,
			Plus: &MappingSource{Series: "y", Combine: "sum", Scale: 1},
			Times: &MappingSource{
				Series: "z", Combine: "max", Scale: 1,
				Plus: &MappingSource{Series: "w", Combine: "sum", Scale: 0.000001},
			},
		}}},
	})
	f("format: json\nvalues: {requests_running: [{series: x, over: {series: y}}]}", Mapping{
		Format: "json",
		Values: map[Quantity][]MappingSource{RequestsRunning: {{
			Series: "x", Combine: "sum", Scale: 1, Over: &MappingSource{Series: "y", Combine: "max", Scale: 1},
		}}},
	})
	f("histograms: {ttft: [{series: x}, {sum: y, count: z, scale: 0.001}]}", Mapping{Histograms: map[Quantity][]MappingHistogram{
		TTFT: {{Series: "x", Scale: 1}, {Sum: "y", Count: "z", Scale: 0.001}},
	}})
	f("prefix_cache: [{hits: {series: x}, queries: {series: y, scale: 16}, unit: tokens}]", Mapping{PrefixCache: []MappingPrefixCache{{
		Hits: MappingSource{Series: "x", Combine: "sum", Scale: 1}, Queries: MappingSource{Series: "y", Combine: "sum", Scale: 16}, Unit: "tokens",
	}}})
	f("requests: [{series: x}, {series: x, by: [a], as: {'': stop}}, {series: x, else: success}]", Mapping{Requests: []MappingRequests{
		{Series: "x", Else: "unknown"},
		{Series: "x", By: []string{"a"}, As: map[string]string{"": "stop"}, Else: "other"},
		{Series: "x", Else: "success"},
	}})
	// A key without a value is left out; an empty list is a value.
	f("values: {requests_running: , requests_waiting: []}\nhistograms: {ttft: }\npages:", Mapping{
		Values:     map[Quantity][]MappingSource{RequestsWaiting: {}},
		Histograms: map[Quantity][]MappingHistogram{},
	})
}

// TestParseMapping checks that a file of one mapping means what the same text
// means under `engines`, mistakes included.
func TestParseMapping(t *testing.T) {
	text := "sentinels: [a]\nvalues:\n  requests_running: [{series: b, scale: 2}]\n"
	e, err := ParseMapping([]byte(text), "a.yml", ServerSoftware)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse([]byte("endpoints: [{url: http://h}]\nengines:\n  a:\n    "+strings.ReplaceAll(text, "\n", "\n    ")), "f.yml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Engines["a"], e); diff != "" {
		t.Error(diff)
	}

	f := func(text, want string) {
		t.Helper()
		if _, err := ParseMapping([]byte(text), "dir/a.yml", ServerSoftware); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	f("", "dir/a.yml: the file is empty; want at least sentinels")
	f("[]", "dir/a.yml:1: expected a mapping, got a list")
	f("a: b: c", "dir/a.yml:1: not valid YAML: mapping values are not allowed in this context")
	f("sentinels: [a]\n---\n{}", "dir/a.yml:3: a second YAML document; want one")
	f("a: {sentinels: [a]}", `dir/a.yml:1: a: unknown key "a"; known here: backend, backend_requests, copies, expected, expected_after_work, fallback, format, histograms, info, input_lengths, labels, model_label, notes, output_lengths, pages, prefix_cache, progress, ready, requests, role_label, sentinels, setup, values`)
	f("values:\n  requests_running:\n    - series: a\n    - series: b-c\nfallback: maybe\n",
		"dir/a.yml:4: values.requests_running[1].series: must be of the form [a-zA-Z_:][a-zA-Z0-9_:]*, got \"b-c\"\ndir/a.yml:5: fallback: expected true or false, got \"maybe\"")
}

// TestQuantities holds the sets of quantities together.
func TestQuantities(t *testing.T) {
	all := Quantities(ServerSoftware)
	if len(all) != 84 {
		t.Errorf("%d quantities, want 69 numbers, 3 with a section of their own and 12 distributions", len(all))
	}
	for i, q := range all {
		if slices.Contains(all[:i], q) {
			t.Errorf("%s is listed twice", q)
		}
		if !model.LegacyValidation.IsValidLabelName(string(q)) {
			t.Errorf("%s cannot be part of a metric's name", q)
		}
	}
	var counters, ratios []Quantity
	for _, q := range all {
		if IsCounter(q) {
			counters = append(counters, q)
		}
		if IsRatio(q) {
			ratios = append(ratios, q)
		}
	}
	want := []Quantity{
		"prompt_tokens", "generation_tokens", "admission_rejections", "corrupted_requests", "preemptions", "kv_cache_evicted_tokens", "prompt_seconds",
		"scheduler_seconds", "scheduler_idle_seconds", "rank_tokens", "rank_imbalance_tokens", "rank_sync_wait_seconds",
		"spec_decode_drafts", "spec_decode_draft_tokens", "spec_decode_accepted_tokens", "external_prefix_cache_queries", "external_prefix_cache_hits",
		"device_cached_tokens", "host_cached_tokens", "storage_cached_tokens",
		"kv_offload_stored_bytes", "kv_offload_loaded_bytes", "kv_offload_store_seconds", "kv_offload_load_seconds", "kv_offload_allocation_failures", "kv_offload_failures",
		"kv_transfer_bytes", "kv_transfer_failures", "kv_transfer_expired_requests", "kv_transfer_timeouts",
		"estimated_flops_per_gpu", "estimated_read_bytes_per_gpu", "estimated_write_bytes_per_gpu", "prefix_cache_queries", "prefix_cache_hits", "requests",
	}
	if diff := cmp.Diff(want, counters); diff != "" {
		t.Errorf("counters: %s", diff)
	}
	if diff := cmp.Diff([]Quantity{
		"kv_cache_usage_ratio", "kv_cache_full_attention_usage_ratio", "kv_cache_sliding_window_usage_ratio", "mamba_cache_usage_ratio",
		"kv_offload_usage_ratio", "spec_decode_acceptance_ratio",
	}, ratios); diff != "" {
		t.Errorf("ratios: %s", diff)
	}
}
