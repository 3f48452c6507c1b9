package page

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

// goldenText returns a page of testdata/pages.
func goldenText(t *testing.T, name string) []byte {
	t.Helper()
	pages := goldenPages(t)
	i := slices.IndexFunc(pages, func(p goldenPage) bool { return p.name == name })
	if i < 0 {
		t.Fatalf("no page %s", name)
	}
	return pages[i].text
}

// readText reads a page of a vLLM for the model that its golden pages show.
func readText(t *testing.T, page []byte) *Snapshot {
	t.Helper()
	s, err := mappings(t, nil).NewReader().Read(page, textFormat, time.Time{}, Want{Found: "vllm", Model: "acme/chat-8b"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whatever series of a vLLM a new release renames, what was read from it is
// absent and said to be missing, and nothing else is.
func TestEachRenamedSeries(t *testing.T) {
	page := goldenText(t, "vllm-v1-dp2")
	for series, q := range map[string]config.Quantity{
		"num_requests_running":         config.RequestsRunning,
		"num_requests_waiting":         config.RequestsWaiting,
		"kv_cache_usage_perc":          config.KVCacheUsage,
		"prompt_tokens_total":          config.PromptTokens,
		"generation_tokens_total":      config.GenerationTokens,
		"request_success_total":        config.RequestsFinished,
		"time_to_first_token_seconds":  config.TTFT,
		"inter_token_latency_seconds":  config.InterToken,
		"request_queue_time_seconds":   config.QueueTime,
		"request_prefill_time_seconds": config.PrefillTime,
		"request_decode_time_seconds":  "decode",
		"e2e_request_latency_seconds":  config.RequestDuration,
	} {
		t.Run(series, func(t *testing.T) {
			renamed := bytes.ReplaceAll(page, []byte("vllm:"+series), []byte("vllm:new_"+series))
			if bytes.Equal(renamed, page) {
				t.Fatal("not on the page")
			}
			s := readText(t, renamed)
			if s.has(q) {
				t.Errorf("%s is read", q)
			}
			if want := []config.Quantity{q}; !slices.Equal(s.Missing, want) {
				t.Errorf("missing %v, want %v", s.Missing, want)
			}
		})
	}
}

// A hit ratio of 0 does not come from a renamed series.
func TestRenamedPrefixCache(t *testing.T) {
	page := goldenText(t, "vllm-v0.9")
	for series, q := range map[string]config.Quantity{
		"gpu_prefix_cache_hits":    config.PrefixCacheHits,
		"gpu_prefix_cache_queries": config.PrefixCacheAsked,
	} {
		s := readText(t, bytes.ReplaceAll(page, []byte("vllm:"+series), []byte("vllm:new_"+series)))
		if s.has(config.PrefixCacheHits) || s.has(config.PrefixCacheAsked) || s.PrefixCacheUnit != "" {
			t.Errorf("without %s: %v, in %q", series, s.Values, s.PrefixCacheUnit)
		}
		if want := []config.Quantity{q}; !slices.Equal(s.Missing, want) {
			t.Errorf("without %s: missing %v, want %v", series, s.Missing, want)
		}
	}
	// Newer pages report the hits twice.
	page = goldenText(t, "vllm-v1-dp2")
	for _, series := range []string{"prompt_tokens_cached_total", "prefix_cache_hits_total"} {
		s := readText(t, bytes.ReplaceAll(page, []byte("vllm:"+series), []byte("vllm:new_"+series)))
		if !(s.Values[config.PrefixCacheHits] > 0) || s.Missing != nil {
			t.Errorf("without %s: %v hits, missing %v", series, s.Values[config.PrefixCacheHits], s.Missing)
		}
	}
}

// Ray shows no counter before it counts: there no hits are none.
func TestNoHitsBehindRay(t *testing.T) {
	var page bytes.Buffer
	for line := range strings.Lines(string(goldenText(t, "vllm-ray"))) {
		if !strings.Contains(line, "prefix_cache_hits") {
			page.WriteString(line)
		}
	}
	s := readText(t, page.Bytes())
	hits, ok := s.Values[config.PrefixCacheHits]
	if !ok || hits != 0 || s.Values[config.PrefixCacheAsked] != 12000 || s.Missing != nil {
		t.Errorf("hits %v (%t) of %v, missing %v; want 0 of 12000", hits, ok, s.Values[config.PrefixCacheAsked], s.Missing)
	}
}

// What comes with an event is missed once there was one, and not before.
func TestExpectedAfterWork(t *testing.T) {
	const mapping = `
sentinels: ["acme:up"]
model_label: m
expected: [requests_waiting]
expected_after_work: [prompt_tokens, decode]
values:
  requests_running: [{series: run}]
  requests_waiting: [{series: wait}]
  prompt_tokens: [{series: prompt}]
  generation_tokens: [{series: gen}]
histograms: {ttft: [{series: ttft}], decode: [{series: dec}], request_duration: [{series: e2e}]}
requests: [{series: done}]
`
	histogram := func(name, count string) string {
		return name + "_bucket{le=\"+Inf\"} " + count + "\n" + name + "_sum 1\n"
	}
	both := []config.Quantity{"decode", config.PromptTokens}
	for _, tc := range []struct {
		name, page string
		want       []config.Quantity
	}{
		{"new", "run 0\nwait 0\n", nil},
		{"new, all at zero", "run 0\nwait 0\ngen 0\ndone 0\n" + histogram("ttft", "0") + histogram("e2e", "0"), nil},
		{"first request runs", "run 1\nwait 0\ngen 9\n" + histogram("ttft", "1"), nil},
		{"first request ended without a token", "run 1\nwait 0\ngen 0\ndone 1\n", nil},
		{"idle after tokens", "run 0\nwait 0\ngen 9\n", both},
		{"idle after a first token", "run 0\nwait 0\n" + histogram("ttft", "1"), both},
		{"one ended", "run 1\nwait 0\ngen 9\ndone 1\n", both},
		{"one took some time", "run 1\nwait 0\ngen 9\n" + histogram("e2e", "1"), both},
		{"all there", "run 1\nwait 0\ngen 9\ndone 1\nprompt 5\n" + histogram("dec", "1"), nil},
		{"queue not reported", "run 0\ngen 9\ndone 1\nprompt 5\n", []config.Quantity{"decode", config.RequestsWaiting}},
		{"of other models", "run{m=\"a\"} 0\nrun{m=\"b\"} 0\ngen{m=\"a\"} 9\ndone{m=\"a\"} 9\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, mapping)
			l.want.Model = "c"
			s := l.read("acme:up 1\n" + tc.page)
			if d := cmp.Diff(tc.want, s.Missing); d != "" {
				t.Errorf("missing (-want +got):\n%s", d)
			}
		})
	}
}

// The llm-d simulator, trtllm-serve 1.1 and others show a series with its first
// measurement: that nothing has waited yet is no rename.
func TestQueueTimeIsExpectedAfterQueueing(t *testing.T) {
	page := func(waiting string, more ...string) []byte {
		var b bytes.Buffer
		for line := range strings.Lines(string(goldenText(t, "llm-d-sim"))) {
			switch {
			case strings.Contains(line, "request_queue_time_seconds"):
			case strings.HasPrefix(line, "vllm:num_requests_waiting"):
				b.WriteString("vllm:num_requests_waiting{model_name=\"acme/chat-8b\"} " + waiting + "\n")
			default:
				b.WriteString(line)
			}
		}
		b.WriteString(strings.Join(more, ""))
		return b.Bytes()
	}
	reader := mappings(t, nil).NewReader()
	f := func(after string, page []byte, want ...config.Quantity) {
		t.Helper()
		s, err := reader.Read(page, textFormat, time.Time{}, Want{Model: "acme/chat-8b"})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Missing, want) {
			t.Errorf("%s: missing %v, want %v", after, s.Missing, want)
		}
	}
	f("nothing waited", page("0"))
	f("still nothing", page("0"))
	const shown = "vllm:request_queue_time_seconds_bucket{le=\"+Inf\",model_name=\"acme/chat-8b\"} 1\n" +
		"vllm:request_queue_time_seconds_sum{model_name=\"acme/chat-8b\"} 1\nvllm:request_queue_time_seconds_count{model_name=\"acme/chat-8b\"} 1\n"
	f("one waits, and one has waited", page("1", "# TYPE vllm:request_queue_time_seconds histogram\n", shown))
	f("renamed", page("0"), config.QueueTime)
	f("renamed, and another process", page("0", "process_start_time_seconds 1e9\n"), config.QueueTime)
	f("a new process", page("0", "process_start_time_seconds 1.1e9\n"))
}

// Answers of one token have no time between tokens.
func TestInterTokenTimeIsExpectedAfterTwoTokens(t *testing.T) {
	const mapping = `
sentinels: [run]
expected_after_work: [inter_token, tpot, decode]
values:
  requests_running: [{series: run}]
  requests_waiting: [{series: wait}]
  generation_tokens: [{series: gen}]
histograms: {ttft: [{series: ttft}], inter_token: [{series: itl}], tpot: [{series: tpot}], decode: [{series: dec}], request_duration: [{series: e2e}]}
requests: [{series: done}]
`
	f := func(page string, want ...config.Quantity) {
		t.Helper()
		if s := newPageLab(t, mapping).read(page); !slices.Equal(s.Missing, want) {
			t.Errorf("%q: missing %v, want %v", page, s.Missing, want)
		}
	}
	const dec = "dec_bucket{le=\"+Inf\"} 5\ndec_sum 1\n"
	f("run 0\nwait 0\ngen 5\ndone 5\n" + dec)
	f("run 2\nwait 0\ngen 7\ndone 5\n" + dec)
	f("run 0\nwait 0\ngen 5\nttft_bucket{le=\"+Inf\"} 5\nttft_sum 1\n" + dec)
	f("run 0\nwait 0\ngen 6\ndone 5\n"+dec, config.InterToken, config.TPOT)
	f("run 0\nwait 0\ngen 6\ndone 5\n", "decode", config.InterToken, config.TPOT)
}
