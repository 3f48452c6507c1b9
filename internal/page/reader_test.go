package page

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestNumber(t *testing.T) {
	const running, waiting, usage, prompt, capacity = config.RequestsRunning, config.RequestsWaiting, config.KVCacheUsage, config.PromptTokens, "kv_cache_capacity_tokens"
	for _, tc := range []struct {
		name    string
		mapping string // besides the sentinel
		page    string
		model   string
		q       config.Quantity
		want    float64 // < 0: none
	}{
		{"sum over labels", "values: {requests_running: [{series: run}]}", "run{r=\"0\"} 7\nrun{r=\"1\"} 5\n", "", running, 12},
		{"ratio is the largest", "values: {kv_cache_usage_ratio: [{series: kv}]}", "kv{r=\"0\"} 0.25\nkv{r=\"1\"} 0.75\n", "", usage, 0.75},
		{"ratio above 1", "values: {kv_cache_usage_ratio: [{series: kv}]}", "kv 55\n", "", usage, -1},
		{"ratio in percent", "values: {kv_cache_usage_ratio: [{series: kv, scale: 0.25}]}", "kv 3\n", "", usage, 0.75},
		{"combine", "values: {requests_running: [{series: run, combine: max}]}", "run{r=\"0\"} 7\nrun{r=\"1\"} 5\n", "", running, 7},
		{"zero", "values: {requests_running: [{series: run}]}", "run 0\n", "", running, 0},
		{"absent", "values: {requests_running: [{series: run}]}", "other 3\n", "", running, -1},
		{"exponent", "values: {requests_running: [{series: run}]}", "run 1.2e+01\n", "", running, 12},
		{"with a time", "values: {requests_running: [{series: run}]}", "run 12 1767200000000\n", "", running, 12},
		{"NaN is skipped", "values: {requests_running: [{series: run}]}", "run{r=\"0\"} NaN\nrun{r=\"1\"} 5\n", "", running, 5},
		{"infinite is skipped", "values: {requests_running: [{series: run}]}", "run +Inf\n", "", running, -1},
		{"negative is skipped", "values: {requests_running: [{series: run}]}", "run{r=\"0\"} -1\nrun{r=\"1\"} 5\n", "", running, 5},
		{"too large a sum", "values: {requests_running: [{series: run}]}", "run{r=\"0\"} 1.7e308\nrun{r=\"1\"} 1.7e308\n", "", running, -1},

		{"colon", "values: {requests_running: [{series: 'a:run'}]}", "a:run 3\n", "", running, 3},
		{"underscore for colon", "values: {requests_running: [{series: 'a:run'}]}", "a_run 3\n", "", running, 3},
		{"by Ray", "values: {requests_running: [{series: 'a:run'}]}", "ray_a_run 3\n", "", running, 3},
		{"in quotes", "values: {requests_running: [{series: 'a:run'}]}", "{\"a:run\",r=\"0\"} 3\n", "", running, 3},
		{"in two spellings", "values: {requests_running: [{series: 'a:run'}]}", "a_run 9\nray_a_run 9\na:run 4\n", "", running, 4},
		{"in two spellings, none its own", "values: {requests_running: [{series: 'a:run'}]}", "ray_a_run 9\na_run 4\n", "", running, 4},
		{"counter with _total", "values: {prompt_tokens: [{series: p}]}", "p_total 3\n", "", prompt, 3},
		{"counter without _total", "values: {prompt_tokens: [{series: p_total}]}", "p 3\n", "", prompt, 3},
		{"counter in both forms", "values: {prompt_tokens: [{series: p}]}", "p 4\np_total 3\n", "", prompt, 3},
		{"gauge with _total is another", "values: {requests_running: [{series: run}]}", "run_total 3\n", "", running, -1},
		{"created", "values: {prompt_tokens: [{series: p}]}", "# TYPE p_total counter\np_total 3\n# TYPE p_created gauge\np_created 1.7e9\n", "", prompt, 3},
		{"sum of a histogram", "values: {prompt_tokens: [{series: len_sum}]}", "# TYPE len histogram\nlen_bucket{le=\"+Inf\"} 2\nlen_sum 30\nlen_count 2\n", "", prompt, 30},

		{"selected", "values: {requests_waiting: [{series: q, labels: {t: wait}}]}", "q{t=\"wait\"} 6\nq{t=\"max\"} 99\n", "", waiting, 6},
		{"labels of all: value", "labels: {v: a}\nvalues: {requests_waiting: [{series: q}]}", "q{v=\"a\"} 6\nq{v=\"b\"} 3\nq 1\n", "", waiting, 7},
		{"labels of all: not set", "labels: {v: ''}\nvalues: {requests_waiting: [{series: q}]}", "q{v=\"\"} 6\nq{v=\"1\"} 3\nq{v=\"2\"} 3\n", "", waiting, 6},
		{"from a label", "values: {kv_cache_capacity_tokens: [{series: info, from_label: blocks}]}", "info{blocks=\"27500\"} 1\n", "", capacity, 27500},
		{"from a label: none", "values: {kv_cache_capacity_tokens: [{series: info, from_label: blocks}]}", "info{blocks=\"None\"} 1\n", "", capacity, -1},
		{"times", "values: {kv_cache_capacity_tokens: [{series: info, from_label: blocks, times: {series: info, from_label: size}}]}", "info{blocks=\"100\",size=\"16\",e=\"0\"} 1\ninfo{blocks=\"50\",size=\"16\",e=\"1\"} 1\n", "", capacity, 2400},
		{"times nothing", "values: {kv_cache_capacity_tokens: [{series: blocks, times: {series: size}}]}", "blocks 100\n", "", capacity, -1},
		{"plus", "values: {prompt_tokens: [{series: p, plus: {series: cached}}]}", "p_total 5000\ncached_total 15000\n", "", prompt, 20000},
		{"plus nothing", "values: {prompt_tokens: [{series: p, plus: {series: cached}}]}", "p_total 5000\n", "", prompt, 5000},
		{"plus of other series alone", "values: {prompt_tokens: [{series: p, plus: {series: cached}}]}", "cached_total 15000\n", "", prompt, -1},
		{"plus of the same series alone", "values: {prompt_tokens: [{series: p, labels: {t: a}, plus: {series: p, labels: {t: b}, plus: {series: p, labels: {t: c}}}}]}", "p_total{t=\"c\"} 7\n", "", prompt, 7},
		{"none of the same series", "values: {prompt_tokens: [{series: p, labels: {t: a}, plus: {series: p, labels: {t: b}}}]}", "p_total{t=\"c\"} 7\n", "", prompt, -1},
		{"plus, then times", "values: {kv_cache_capacity_tokens: [{series: a, scale: 2, plus: {series: b}, times: {series: c}}]}", "a 1\nb 3\nc 10\n", "", capacity, 50},

		{"first alternative", "values: {requests_waiting: [{series: new}, {series: old}]}", "old 1\nnew 2\n", "", waiting, 2},
		{"second alternative", "values: {requests_waiting: [{series: new}, {series: old}]}", "old 1\n", "", waiting, 1},

		{"copies", "copies: [pid]\nvalues: {requests_running: [{series: run}]}", "run{pid=\"1\",e=\"0\"} 4\nrun{pid=\"2\",e=\"0\"} 6\nrun{pid=\"1\",e=\"1\"} 3\n", "", running, 9},
		{"this model", "model_label: m\nvalues: {requests_running: [{series: run}]}", "run{m=\"a\"} 4\nrun{m=\"b\"} 6\nrun 1\n", "a", running, 5},
		{"model in another series", "model_label: m\nvalues: {requests_running: [{series: run}], requests_waiting: [{series: q}]}", "run{m=\"b\"} 4\nq{m=\"a\"} 6\n", "a", running, -1},
		{"one other model", "model_label: m\nvalues: {requests_running: [{series: run}]}", "run{m=\"a\",e=\"0\"} 4\nrun{m=\"a\",e=\"1\"} 6\n", "c", running, 10},
		{"two other models", "model_label: m\nvalues: {requests_running: [{series: run}]}", "run{m=\"a\"} 4\nrun{m=\"b\"} 6\n", "c", running, -1},
		{"two other models and no label", "model_label: m\nvalues: {requests_running: [{series: run}]}", "run{m=\"a\"} 4\nrun{m=\"b\"} 6\nrun 1\n", "c", running, 1},
		{"other models in two series", "model_label: m\nvalues: {requests_running: [{series: run}], requests_waiting: [{series: q}]}", "run{m=\"a\"} 4\nq{m=\"b\"} 6\n", "c", running, -1},
		{"model not known", "model_label: m\nvalues: {requests_running: [{series: run}]}", "run{m=\"a\"} 4\nrun{m=\"b\"} 6\n", "", running, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, "sentinels: ['acme:up']\n"+tc.mapping)
			l.want.Model = tc.model
			s := l.read("acme:up 1\n" + tc.page)
			l.wantValue(s, tc.q, tc.want)
		})
	}
}

func TestRequests(t *testing.T) {
	const page = `acme:up 1
done_total{reason="stop"} 5
done_total{reason="length"} 3
done_total{reason="stop",lora="x"} 2
done_total{reason="repetition"} 1
failed_total 4
`
	l := newPageLab(t, `
sentinels: ["acme:up"]
expected: [requests]
requests:
  - {series: done, by: [cause, reason], as: {stop: stop, length: length}}
  - {series: failed, else: error}
`)
	s := l.read(page)
	l.wantRequests(s, map[string]float64{"stop": 7, "length": 3, "other": 1, "error": 4})
	s = l.read("acme:up 1\n")
	l.wantRequests(s, map[string]float64{})
	if want := []config.Quantity{config.RequestsFinished}; !slices.Equal(s.Missing, want) {
		t.Errorf("missing %v, want %v", s.Missing, want)
	}
}

// TestRenamed is about a series that an engine has renamed: its quantity is
// absent and said to be missing, and nothing else changes.
func TestRenamed(t *testing.T) {
	const mapping = `
sentinels: ["acme:up"]
expected: [requests_waiting, requests_running, ttft, prefix_cache_queries]
values: {requests_running: [{series: "acme:run"}], requests_waiting: [{series: "acme:wait"}]}
histograms: {ttft: [{series: "acme:ttft"}]}
prefix_cache: [{hits: {series: hits}, queries: {series: asked}, unit: tokens, zero_if_absent: all}]
`
	l := newPageLab(t, mapping)
	s := l.read("acme:up 1\nacme:run 3\nacme:wait 4\nasked 3\nacme:ttft_bucket{le=\"+Inf\"} 1\nacme:ttft_sum 2\n")
	if len(s.Missing) > 0 {
		t.Errorf("missing %v, want none", s.Missing)
	}
	s = l.read("acme:up 1\nacme:run 3\nacme:queue_length 4\n")
	l.wantValue(s, config.RequestsRunning, 3)
	l.wantValue(s, config.RequestsWaiting, -1)
	if want := []config.Quantity{config.PrefixCacheAsked, config.RequestsWaiting, config.TTFT}; !slices.Equal(s.Missing, want) {
		t.Errorf("missing %v, want %v", s.Missing, want)
	}
	if s.Engine != "acme" || !s.At.Equal(l.now) {
		t.Errorf("engine %q at %v, want acme at %v", s.Engine, s.At, l.now)
	}
}

func TestLastProgress(t *testing.T) {
	const mapping = `
sentinels: ["acme:up"]
values: {requests_running: [{series: run}], requests_waiting: [{series: wait}]}
progress: [{series: tokens}, {series: steps}]
`
	type step struct {
		page string
		want int // the reading that the time is of, from 1; 0: none
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"moves", []step{{"run 1\ntokens_total 5\n", 1}, {"run 1\ntokens_total 6\n", 2}}},
		{"hangs", []step{{"run 1\nwait 0\ntokens_total 5\n", 1}, {"run 1\nwait 0\ntokens_total 5\n", 1}, {"run 1\nwait 9\ntokens_total 5\n", 1}}},
		{"idle", []step{{"run 1\nwait 0\ntokens_total 5\n", 1}, {"run 0\nwait 0\ntokens_total 5\n", 2}}},
		{"waits with nothing running", []step{{"run 0\nwait 2\ntokens_total 5\n", 1}, {"run 0\nwait 2\ntokens_total 5\n", 1}}},
		{"queue not reported", []step{{"run 0\ntokens_total 5\n", 1}, {"run 0\ntokens_total 5\n", 1}}},
		{"second source moves", []step{{"tokens_total 5\nsteps_total 1\n", 1}, {"tokens_total 5\nsteps_total 2\n", 2}}},
		{"source appears", []step{{"run 1\nsteps_total 1\n", 1}, {"run 1\nsteps_total 1\ntokens_total 1\n", 2}}},
		{"source vanishes", []step{{"steps_total 1\ntokens_total 1\n", 1}, {"steps_total 1\n", 1}, {"steps_total 1\ntokens_total 1\n", 1}}},
		{"restarts", []step{{"run 1\ntokens_total 5\n", 1}, {"run 1\ntokens_total 3\n", 2}}},
		{"no source", []step{{"run 0\nwait 0\n", 0}, {"run 1\ntokens_total 3\n", 2}}},
		{"all sources vanish", []step{{"run 0\nwait 0\ntokens_total 3\n", 1}, {"run 0\nwait 0\n", 0}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, mapping)
			at := make([]int64, len(tc.steps)+1)
			for i, st := range tc.steps {
				s := l.read("acme:up 1\n" + st.page)
				at[i+1] = l.now.Unix()
				if st.want == 0 && !s.LastProgress.IsZero() || st.want > 0 && s.LastProgress.Unix() != at[st.want] {
					t.Errorf("page %d: %v, want that of reading %d", i+1, s.LastProgress, st.want)
				}
			}
		})
	}
	t.Run("no progress in the mapping", func(t *testing.T) {
		l := newPageLab(t, "sentinels: ['acme:up']")
		if s := l.read("acme:up 1\n"); !s.LastProgress.IsZero() {
			t.Errorf("%v, want the zero time", s.LastProgress)
		}
	})
}

// Of ranks that report both, the one without progress determines when the server
// last worked as a whole: in the sum, the others hide it.
func TestProgressOfRanks(t *testing.T) {
	const mapping = `
sentinels: ["acme:up"]
copies: [pid]
values: {requests_running: [{series: run}], requests_waiting: [{series: wait}]}
progress: [{series: tokens}, {series: steps}]
`
	// ranks is a page of ranks: running and tokens of each.
	ranks := func(numbers ...int) string {
		var b strings.Builder
		for i := 0; i < len(numbers); i += 2 {
			fmt.Fprintf(&b, "run{rank=\"%d\",pid=\"7\"} %d\ntokens_total{rank=\"%d\"} %d\n", i, numbers[i], i, numbers[i+1])
		}
		return b.String()
	}
	type step struct {
		page string
		want int // the reading that the time is of, from 1
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"all move", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 7), 2}}},
		{"one is frozen", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 6), 2}, {ranks(1, 7, 1, 6), 2}, {ranks(1, 8, 1, 6), 2}, {ranks(1, 9, 1, 7), 4 + 1}}},
		{"first one is frozen", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 5, 1, 6), 1}}},
		{"in turns", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 5), 1}, {ranks(1, 6, 1, 6), 2}}},
		{"frozen one has nothing to do", []step{{ranks(1, 5, 0, 5), 1}, {ranks(1, 6, 0, 5), 2}}},
		{"first frozen one has nothing to do", []step{{ranks(0, 5, 1, 5), 1}, {ranks(0, 5, 1, 6), 2}}},
		{"frozen one gets a request", []step{{ranks(1, 5, 0, 5), 1}, {ranks(1, 6, 0, 5), 2}, {ranks(1, 7, 1, 5), 2}, {ranks(1, 8, 1, 5), 2}}},
		{"frozen one ends its requests", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 5), 1}, {ranks(1, 7, 0, 5), 3}}},
		{"frozen one is gone", []step{{ranks(1, 5, 1, 5, 1, 5), 1}, {ranks(1, 6, 1, 6, 1, 5), 1}, {ranks(1, 7, 1, 7), 3}}},
		{"a new one", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 6, 1, 0), 2}, {ranks(1, 7, 1, 7, 1, 0), 2}}},
		{"one restarts", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 0), 2}}},
		{"second source moves", []step{{ranks(1, 5, 1, 5) + "steps{rank=\"2\"} 1\n", 1}, {ranks(1, 6, 1, 5) + "steps{rank=\"2\"} 2\n", 2}}},
		{"none runs, some wait", []step{{ranks(0, 5, 0, 5) + "wait 1\n", 1}, {ranks(0, 5, 0, 5) + "wait 1\n", 1}}},
		{"all idle", []step{{ranks(0, 5, 0, 5) + "wait 0\n", 1}, {ranks(0, 5, 0, 5) + "wait 0\n", 2}}},
		{"progress has other labels", []step{{"run{rank=\"0\"} 1\nrun{rank=\"1\"} 1\ntokens 5\n", 1}, {"run{rank=\"0\"} 1\nrun{rank=\"1\"} 1\ntokens 6\n", 2}}},
		{"a rank reports no progress", []step{{ranks(1, 5, 1, 5) + "run{rank=\"x\"} 1\n", 1}, {ranks(1, 6, 1, 5) + "run{rank=\"x\"} 1\n", 2}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, mapping)
			at := make([]int64, len(tc.steps)+1)
			for i, st := range tc.steps {
				s := l.read("acme:up 1\n" + st.page)
				at[i+1] = l.now.Unix()
				if s.LastProgress.Unix() != at[st.want] {
					t.Errorf("page %d: %v, want that of reading %d", i+1, s.LastProgress, st.want)
				}
			}
		})
	}
}

// What is kept of ranks is bounded, and only of those that are there.
func TestManyRanks(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nvalues: {requests_running: [{series: run}]}\nprogress: [{series: tokens}]")
	page := func(name string, n int) string {
		var b strings.Builder
		b.WriteString("acme:up 1\n")
		for i := range n {
			fmt.Fprintf(&b, "run{rank=\"%s%d\"} 1\ntokens{rank=\"%s%d\"} 1\n", name, i, name, i)
		}
		return b.String()
	}
	for _, name := range []string{"a", "b"} {
		l.read(page(name, maxRanks))
		if n := len(l.reader.ranks); n != maxRanks {
			t.Errorf("%d ranks are kept, want %d", n, maxRanks)
		}
	}
	l.read(page("b", maxRanks+1))
	if n := len(l.reader.ranks); n != 0 {
		t.Errorf("%d ranks are kept of too many", n)
	}
}

// A bucket of which only le differs from the one before is the same as one whose labels are parsed,
// as with a space before le.
func TestBuckets(t *testing.T) {
	m := mappings(t, nil)
	read := func(page string) (*Snapshot, error) {
		return m.NewReader().Read([]byte(page), textFormat, time.Unix(1, 0), Want{})
	}
	files, err := filepath.Glob("testdata/pages/servers/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(string(text))
		want, wantErr := read(strings.NewReplacer(`,le="`, `, le="`, `{le="`, `{ le="`).Replace(string(text)))
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, want %v (-want +got):\n%s", file, err, wantErr, diff)
		}
	}
	const head, bucket = "vllm:num_requests_running 1\n", "vllm:time_to_first_token_seconds_bucket{le=\"1\"} 1\n"
	if _, err := read(head + bucket + strings.Replace(bucket, `"1"`, `"2"`, 1) + bucket); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a bucket that is on the page twice: %v", err)
	}
}
