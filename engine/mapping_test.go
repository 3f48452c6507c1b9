package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestMerge(t *testing.T) {
	base := parseMapping(t, `
sentinels: ["a:up"]
fallback: true
pages: [":8002/metrics"]
setup: how
notes: what
model_label: m
labels: {v: a, w: b}
copies: [pid]
expected: [ttft]
progress: [{series: steps}]
values: {requests_running: [{series: run}, {series: old}], requests_waiting: [{series: wait}]}
histograms: {ttft: [{series: t}], queue: [{series: q}]}
prefix_cache: [{hits: {series: h}, queries: {series: asked}, unit: tokens}]
requests: [{series: done}]
`)
	before := parseMapping(t, "sentinels: ['a:up']")
	*before = *base
	for _, tc := range []struct {
		name, own string
		change    func(*config.Engine) // what differs from base
	}{
		{"nothing", "{}", func(*config.Engine) {}},
		{"value", "values: {requests_waiting: [{series: queue_length}]}", func(e *config.Engine) {
			e.Values = map[config.Quantity][]config.EngineSource{
				config.RequestsRunning: base.Values[config.RequestsRunning],
				config.RequestsWaiting: {{Series: "queue_length", Combine: "sum", Scale: 1}},
			}
		}},
		{"value left out", "values: {requests_running: []}", func(e *config.Engine) {
			e.Values = map[config.Quantity][]config.EngineSource{
				config.RequestsRunning: {}, config.RequestsWaiting: base.Values[config.RequestsWaiting],
			}
		}},
		{"histogram", "histograms: {ttft: [{series: x}]}", func(e *config.Engine) {
			e.Histograms = map[config.Quantity][]config.EngineHistogram{
				config.TTFT: {{Series: "x", Scale: 1}}, config.QueueTime: base.Histograms[config.QueueTime],
			}
		}},
		{"labels", "labels: {w: c}", func(e *config.Engine) { e.Labels = map[string]string{"v": "a", "w": "c"} }},
		{"lists", "sentinels: [x]\npages: [/y]\ncopies: [z]\nexpected: [queue]\nprogress: [{series: s}]\nrequests: [{series: r}]", func(e *config.Engine) {
			e.Sentinels, e.Pages, e.Copies, e.Expected = []string{"x"}, []string{"/y"}, []string{"z"}, []config.Quantity{config.QueueTime}
			e.Progress = []config.EngineSource{{Series: "s", Combine: "sum", Scale: 1}}
			e.Requests = []config.EngineRequests{{Series: "r", Else: "unknown"}}
		}},
		{"scalars", "setup: s\nnotes: n\nmodel_label: l", func(e *config.Engine) { e.Setup, e.Notes, e.ModelLabel = "s", "n", "l" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := newMappings(map[string]*config.Engine{"acme": base}, map[string]*config.Engine{"acme": parseMapping(t, tc.own)})
			if err != nil {
				t.Fatal(err)
			}
			want := *base
			tc.change(&want)
			if diff := cmp.Diff(&want, m.Mapping("acme")); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, base); diff != "" {
				t.Errorf("the built-in mapping changed:\n%s", diff)
			}
		})
	}
}

func TestNoSentinels(t *testing.T) {
	_, err := NewMappings(map[string]*config.Engine{"acme": parseMapping(t, "values: {requests_running: [{series: run}]}")})
	var ce *config.Error
	if !errors.As(err, &ce) || ce.Path != "engines.acme" {
		t.Errorf("error %v, want one of engines.acme.sentinels", err)
	}
}

func TestPages(t *testing.T) {
	engines := map[string]*config.Engine{
		"plain":  parseMapping(t, "sentinels: [a]"),
		"ported": parseMapping(t, "sentinels: [b]\npages: [':8002/metrics', /metrics]"),
		"nested": parseMapping(t, "sentinels: [c]\npages: [/v1/metrics]"),
		"json":   parseMapping(t, "sentinels: [d]\npages: [/prometheus/metrics]"),
	}
	m, err := newMappings(engines, nil)
	if err != nil {
		t.Fatal(err)
	}
	for engine, want := range map[string][]string{
		"plain":  {"/metrics"},
		"ported": {":8002/metrics", "/metrics"},
		"json":   {"/prometheus/metrics"},
		"":       {"/prometheus/metrics", "/metrics", "/v1/metrics"},
		"ollama": {"/prometheus/metrics", "/metrics", "/v1/metrics"},
	} {
		got := m.Pages(engine)
		if !slices.Equal(got, want) {
			t.Errorf("pages of %q: %v, want %v", engine, got, want)
		}
		got[0] = "changed"
		if !slices.Equal(m.Pages(engine), want) {
			t.Errorf("pages of %q can be changed from outside", engine)
		}
	}
	if m.Mapping("ollama") != nil {
		t.Error("a mapping for an engine without one")
	}
}

func TestBuiltIn(t *testing.T) {
	m := builtInMappings(t)
	common := m.Pages("")
	if slices.Index(common, "/prometheus/metrics") > slices.Index(common, "/metrics") {
		t.Errorf("%v: /metrics is tried too early", common)
	}
	for _, name := range m.Names() {
		if m.Mapping(name) == nil || len(m.Pages(name)) == 0 {
			t.Errorf("%s: no mapping or no pages", name)
		}
	}
}
