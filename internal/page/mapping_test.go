package page

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-exporter/inference_exporter/config"
)

// mappingsOf returns mappings of servers with others in the place of the built-in ones.
func mappingsOf(builtIn, own map[string]*config.Mapping) *Mappings {
	all := map[string]*software{}
	for name, e := range builtIn {
		all[name] = software{name: name, config: e, builtIn: true}.made()
	}
	Servers.addOwn(all, own)
	return newMappings(Servers, all)
}

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
		change    func(*config.Mapping) // what differs from base
	}{
		{"nothing", "{}", func(*config.Mapping) {}},
		{"value", "values: {requests_waiting: [{series: queue_length}]}", func(e *config.Mapping) {
			e.Values = map[config.Quantity][]config.MappingSource{
				config.RequestsRunning: base.Values[config.RequestsRunning],
				config.RequestsWaiting: {{Series: "queue_length", Combine: "sum", Scale: 1}},
			}
		}},
		{"value left out", "values: {requests_running: []}", func(e *config.Mapping) {
			e.Values = map[config.Quantity][]config.MappingSource{
				config.RequestsRunning: {}, config.RequestsWaiting: base.Values[config.RequestsWaiting],
			}
		}},
		{"histogram", "histograms: {ttft: [{series: x}]}", func(e *config.Mapping) {
			e.Histograms = map[config.Quantity][]config.MappingHistogram{
				config.TTFT: {{Series: "x", Scale: 1}}, config.QueueTime: base.Histograms[config.QueueTime],
			}
		}},
		{"labels", "labels: {w: c}", func(e *config.Mapping) { e.Labels = map[string]string{"v": "a", "w": "c"} }},
		{"lists", "sentinels: [x]\npages: [/y]\ncopies: [z]\nexpected: [queue]\nprogress: [{series: s}]\nrequests: [{series: r}]", func(e *config.Mapping) {
			e.Sentinels, e.Pages, e.Copies, e.Expected = []string{"x"}, []string{"/y"}, []string{"z"}, []config.Quantity{config.QueueTime}
			e.Progress = []config.MappingSource{{Series: "s", Combine: "sum", Scale: 1}}
			e.Requests = []config.MappingRequests{{Series: "r", Else: "unknown"}}
		}},
		{"scalars", "setup: s\nnotes: n\nmodel_label: l\nrole_label: r", func(e *config.Mapping) {
			e.Setup, e.Notes, e.ModelLabel, e.RoleLabel = "s", "n", "l", "r"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mappingsOf(map[string]*config.Mapping{"acme": base}, map[string]*config.Mapping{"acme": parseMapping(t, tc.own)})
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
	_, mistakes := Check(Servers, map[string]*config.Mapping{"acme": parseMapping(t, "values: {requests_running: [{series: run}]}")})
	if len(mistakes) != 1 || mistakes[0].Path != "engines.acme" {
		t.Errorf("mistakes %v, want one of engines.acme", mistakes)
	}
}

func TestPages(t *testing.T) {
	engines := map[string]*config.Mapping{
		"plain":  parseMapping(t, "sentinels: [a]"),
		"ported": parseMapping(t, "sentinels: [b]\npages: [':8002/metrics', /metrics]"),
		"nested": parseMapping(t, "sentinels: [c]\npages: [/v1/metrics]"),
		"json":   parseMapping(t, "sentinels: [d]\npages: [/prometheus/metrics]"),
	}
	m := mappingsOf(engines, nil)
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
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		if m.Mapping(name) == nil || len(m.Pages(name)) == 0 {
			t.Errorf("%s: no mapping or no pages", name)
		}
	}
}

// The settings of the built-in mappings besides the series of quantities.
func TestBuiltInMappings(t *testing.T) {
	type facts struct {
		Pages      []string
		Fallback   bool
		ModelLabel string
		Copies     []string
		Expected   []config.Quantity
		AfterWork  []config.Quantity
	}
	usual := []string{"/metrics"}
	load := []config.Quantity{config.RequestsRunning, config.RequestsWaiting}
	loadAndCache := append(slices.Clone(load), config.KVCacheUsage)
	const (
		prompt, generated, duration, ended = config.PromptTokens, config.GenerationTokens, config.RequestDuration, config.RequestsFinished
		ttft, interToken, queue            = config.TTFT, config.InterToken, config.QueueTime
	)
	want := map[string]facts{
		"dynamo":  {usual, true, "model", nil, nil, []config.Quantity{config.RequestsRunning, prompt, generated, ttft, duration, ended}},
		"litellm": {[]string{"/metrics", "/metrics/"}, true, "requested_model", []string{"pid"}, nil, nil},
		// It shows all that it has at any time.
		"llamacpp": {usual, false, "", nil, append(slices.Clone(load), prompt, generated, interToken), nil},
		"lmdeploy": {usual, false, "model_name", []string{"pid"}, loadAndCache, []config.Quantity{prompt, generated, ttft, interToken}},
		// Its series are those of any program in FastAPI: nothing says that one was renamed.
		"infinity": {usual, false, "", nil, nil, nil},
		"max": {
			[]string{":8001/metrics", "/metrics"},
			false, "", nil,
			[]config.Quantity{config.RequestsRunning},
			[]config.Quantity{prompt, generated, ttft, interToken, duration, ended},
		},
		"ollama":     {[]string{"/api/ps"}, false, "name", nil, []config.Quantity{"models_loaded"}, nil},
		"xinference": {usual, false, "model_uid", nil, nil, nil},
		"nim":        {[]string{"/v1/metrics"}, true, "model_name", []string{"pid"}, loadAndCache, []config.Quantity{prompt, generated, ttft, interToken, duration, ended}},
		// A server for prefill alone never has a TTFT.
		"sglang": {usual, false, "model_name", []string{"pid", "tp_rank", "pp_rank", "moe_ep_rank"}, loadAndCache, []config.Quantity{prompt, generated, duration, ended}},
		"tei":    {usual, false, "", nil, nil, nil},
		"tgi":    {usual, false, "", nil, nil, append(slices.Clone(load), prompt, generated, queue, duration, ended)},
		"triton": {[]string{":8002/metrics", "/metrics"}, true, "model", nil, nil, nil},
		// Its model is a step of the ensemble that the endpoint asks.
		"triton-trtllm": {[]string{":8002/metrics", "/metrics"}, false, "", nil, load, nil},
		// Reading /metrics takes records away from others.
		"trtllm": {[]string{"/prometheus/metrics"}, false, "model_name", []string{"pid"}, nil, []config.Quantity{ttft, queue, duration, ended}},
		// Engine V0 has no counters of its prefix cache.
		"vllm": {usual, false, "model_name", []string{"pid"}, loadAndCache, []config.Quantity{
			prompt, generated, ttft, interToken, queue, config.PrefillTime, "decode", duration, ended,
		}},
	}
	m := mappings(t, nil)
	got := map[string]facts{}
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		e := m.Mapping(name)
		got[name] = facts{m.Pages(name), e.Fallback, e.ModelLabel, e.Copies, e.Expected, e.ExpectedAfterWork}
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// An engine makes progress if any of the series changes that change while requests
// run; no other series shows it.
func TestProgressOfEngines(t *testing.T) {
	m := mappings(t, nil)
	pages := goldenPages(t)
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		page, series string // that moves
		works        bool
	}{
		{"vllm-v1-dp2", "vllm:generation_tokens_total{", true},
		{"vllm-v1-dp2", "vllm:prompt_tokens_total{", true},
		{"vllm-v1-dp2", "vllm:iteration_tokens_total_count{", true},
		{"vllm-v1-dp2", "vllm:prefix_cache_queries_total{", false}, // also of requests that only wait
		{"vllm-ray", "ray_vllm_generation_tokens_total{", true},
		{"sglang-2026", "sglang:realtime_tokens_total{", true},
		{"sglang-2025", "sglang:inter_token_latency_seconds_count{", true},
		{"sglang-2025", "sglang:time_to_first_token_seconds_count{", true},
		{"tgi", "tgi_batch_inference_count{", true},
		{"tgi", "tgi_request_count ", false}, // requests come in
		{"llamacpp-b6700", "llamacpp:n_decode_total ", true},
		{"llamacpp-b6700", "llamacpp:tokens_predicted_total ", true},
		{"lmdeploy-0.16", "lmdeploy:iteration_tokens_total_count{", true},
		{"triton-trtllm", `nv_trt_llm_general_metrics{model="tensorrt_llm",general_type="iteration_counter"`, true},
		{"max", `maxserve_batch_size_count{batch_type="TG"`, true},
		{"triton-trtllm", `nv_trt_llm_general_metrics{model="tensorrt_llm",general_type="timestamp"`, false},
	} {
		t.Run(c.page+"/"+c.series, func(t *testing.T) {
			p := pages[slices.IndexFunc(pages, func(p goldenPage) bool { return p.name == c.page })]
			r := m.NewReader()
			for i, page := range [][]byte{p.text, p.text, moved(t, p.text, c.series)} {
				at := start.Add(time.Duration(i) * time.Minute)
				got, err := r.Read(page, textFormat, at, Want{Model: p.want.Model})
				if err != nil {
					t.Fatal(err)
				}
				want := start
				if i == 2 && c.works {
					want = at
				}
				if !got.LastProgress.Equal(want) {
					t.Errorf("reading %d: last progress %s, want %s", i, got.LastProgress, want)
				}
			}
		})
	}
}

// moved returns a page on which a series is larger.
func moved(t *testing.T, page []byte, series string) []byte {
	t.Helper()
	var b bytes.Buffer
	found := false
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, series) {
			found = true
			labels, value, _ := strings.Cut(line, " ")
			line = labels + " 1" + value // a digit before it
		}
		b.WriteString(line)
	}
	if !found {
		t.Fatalf("no %s on the page", series)
	}
	return b.Bytes()
}

// No line of a mapping is there without a page that has its series.
func TestMappingsAreCovered(t *testing.T) {
	m, pages := mappings(t, nil), goldenPages(t)
	alone := func(e *config.Mapping) *Mappings { // without those that are built in
		only := mappingsOf(nil, map[string]*config.Mapping{"probe": e})
		return only
	}
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		e := m.Mapping(name)
		for _, s := range e.Sentinels {
			only := alone(&config.Mapping{Sentinels: []string{s}, Format: e.Format})
			if !slices.ContainsFunc(pages, func(p goldenPage) bool {
				if p.want.Engine != name {
					return false
				}
				got, err := only.NewReader().Read(p.text, p.contentType, time.Time{}, Want{})
				return err == nil && got.Engine == "probe"
			}) {
				t.Errorf("%s: no page has the sentinel %s", name, s)
			}
		}
		for what, lines := range linesOf(e) {
			for i, line := range lines {
				line.Sentinels, line.Format, line.ModelLabel, line.Labels, line.Copies = append(e.Sentinels, "probe"), e.Format, e.ModelLabel, e.Labels, e.Copies
				only := alone(line)
				if !slices.ContainsFunc(pages, func(p goldenPage) bool { return p.want.Engine == name && readsAny(only, &p) }) {
					t.Errorf("%s: no page has what %s[%d] reads", name, what, i)
				}
			}
		}
	}
}

// linesOf returns each line of a mapping as a mapping of this line alone.
func linesOf(e *config.Mapping) map[string][]*config.Mapping {
	lines := map[string][]*config.Mapping{}
	var number func(what string, as config.Quantity, s config.MappingSource)
	number = func(what string, as config.Quantity, s config.MappingSource) {
		plus := s.Plus
		s.Plus = nil
		lines[what] = append(lines[what], &config.Mapping{Values: map[config.Quantity][]config.MappingSource{as: {s}}})
		if plus != nil {
			number(what+".plus", as, *plus)
		}
	}
	for q, sources := range e.Values {
		for _, s := range sources {
			number("values."+string(q), q, s)
		}
	}
	for _, s := range e.Progress {
		number("progress", config.GenerationTokens, s)
	}
	for _, c := range e.PrefixCache {
		number("prefix_cache.hits", config.GenerationTokens, c.Hits)
		number("prefix_cache.queries", config.GenerationTokens, c.Queries)
	}
	for q, sources := range e.Histograms {
		for _, h := range sources {
			what := "histograms." + string(q)
			lines[what] = append(lines[what], &config.Mapping{Histograms: map[config.Quantity][]config.MappingHistogram{q: {h}}})
		}
	}
	for _, r := range e.Requests {
		lines["requests"] = append(lines["requests"], &config.Mapping{Requests: []config.MappingRequests{r}})
	}
	return lines
}

// readsAny reports whether the mapping "probe" reads anything of a page.
func readsAny(m *Mappings, p *goldenPage) bool {
	got, err := m.NewReader().Read(p.text, p.contentType, time.Time{}, Want{Engine: "probe", Model: p.want.Model})
	return err == nil && got.Engine == "probe" && len(got.Values)+len(got.Histograms)+len(got.Requests) > 0
}
