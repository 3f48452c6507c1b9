package page

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

const fuzzMapping = `
sentinels: ["acme:up"]
model_label: m
labels: {priority: ""}
copies: [pid, tp]
expected: [requests_running, ttft]
expected_after_work: [queue, ttft]
progress: [{series: steps}]
values:
  requests_running: [{series: "acme:run"}]
  requests_waiting: [{series: wait, labels: {kind: queue}}, {series: wait_old, combine: max}]
  kv_cache_usage_ratio: [{series: usage, scale: 0.01}]
  kv_cache_capacity_tokens: [{series: info, from_label: blocks, times: {series: info, from_label: size}}]
  prompt_tokens: [{series: p, plus: {series: cached}}]
  preemptions: [{series: x, combine: max}]
  lora_adapters_max: [{series: usage, over: {series: x, plus: {series: wait}}}]
  generation_tokens: [{series: steps}]
histograms:
  ttft: [{series: t}]
  queue: [{series: q, scale: 0.001, labels: {stage: a}}]
  decode: [{sum: d_us, count: done, scale: 0.000001}]
prefix_cache:
  - {hits: {series: cached, labels: {a: b}, plus: {series: cached}}, queries: {series: p}, unit: tokens}
  - {hits: {series: x}, queries: {series: done}, unit: requests, zero_if_absent: ray}
requests: [{series: done, by: [reason], as: {stop: stop}}]
`

// FuzzRead reads two pages and the second one once more. Whatever they are, a
// snapshot holds no number that cannot be, and what did not change on the page
// does not change in the snapshot.
func FuzzRead(f *testing.F) {
	m := mappingsOf(nil, map[string]*config.Mapping{"acme": parseMapping(f, fuzzMapping)})
	const numbers = "acme:up 1\nprocess_start_time_seconds 1.7e9\nacme:run{m=\"a\",pid=\"1\"} 3\nacme:run{m=\"b\",pid=\"2\"} NaN\nwait{kind=\"queue\",priority=\"\"} 4\nusage 55\ninfo{blocks=\"100\",size=\"16\"} 1\n"
	const counters = "p_total{r=\"0\"} 50\np_total{r=\"1\"} 60\ncached_total 20\nx 1e+02\nsteps_total 7\ndone_total{reason=\"stop\"} 3\nd_us 4.5e6\n"
	const histograms = "# TYPE t histogram\nt_bucket{r=\"0\",le=\"0.1\"} 1\nt_bucket{r=\"0\",le=\"+Inf\"} 3\nt_sum{r=\"0\"} 4.5\nt_count{r=\"0\"} 3\nt_bucket{r=\"1\",le=\"0.1\"} 2\nt_bucket{r=\"1\",le=\"+Inf\"} 2\nt_sum{r=\"1\"} 0.1\nq_bucket{stage=\"a\",le=\"1\"} 1\nq_count{stage=\"a\"} 1\nq_sum{stage=\"a\"} 1\n"
	f.Add(numbers+counters+histograms, "acme:up 1\np_total{r=\"0\"} 51\np_total{r=\"1\"} 1\n", "a", false)
	f.Add(histograms+"acme:up 1\n", "acme_up 1\n# TYPE t counter\nt_sum 1\n", "", false)
	f.Add("acme:up 1\n# EOF\n", "# TYPE p counter\nacme:up 1\np_total 3 # {id=\"x\"} 1\n# EOF\n", "a", true)
	f.Add("acme:up 1\nt_bucket{le=\"1\"} 5\nt_bucket{le=\"2\"} 4\nt_sum 1\n", "ray_acme_up 1\n{\"acme:run\",pid=\"1\"} 3\n", "", false)
	f.Add("acme:up 1\np 1.7e308\np{a=\"b\"} 1.7e308\nusage 1.7e308\n", "acme:up 1\np 1.7e308\n", "", false)
	f.Add("acme:up 1\np{a=\"1\"} 1\np{a=\"1\"} 1\n", "<html>", "", false)
	f.Fuzz(func(t *testing.T, first, second, model string, open bool) {
		contentType := "text/plain"
		if open {
			contentType = "application/openmetrics-text; version=1.0.0"
		}
		r := m.NewReader()
		at := time.Unix(1_800_000_000, 0)
		var last *Snapshot
		for i, page := range []string{first, second, second} {
			at = at.Add(15 * time.Second)
			s, err := r.Read([]byte(page), contentType, at, Want{Model: model})
			if err != nil {
				checkPageError(t, err)
				continue
			}
			checkSnapshot(t, s)
			if n := len(first) + len(second); len(r.cells) > n {
				t.Fatalf("%d cells of %d bytes", len(r.cells), n)
			}
			if i == 2 {
				same := *s
				same.At, same.LastProgress, same.PrefixCacheRatio = last.At, last.LastProgress, last.PrefixCacheRatio
				if diff := cmp.Diff(last, &same); diff != "" {
					t.Errorf("the same page read again (-before +after):\n%s", diff)
				}
			}
			last = s
		}
	})
}

func checkPageError(t *testing.T, err error) {
	var p *PageError
	switch {
	case !errors.As(err, &p) || p.Reason == ReasonNone:
		t.Errorf("error %v without a reason", err)
	case len(err.Error()) > 1000:
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func checkSnapshot(t *testing.T, s *Snapshot) {
	good := func(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
	for q, v := range s.Values {
		if !good(v) || config.IsRatio(q) && v > 1 {
			t.Errorf("%s = %v", q, v)
		}
	}
	for finish, v := range s.Requests {
		if !good(v) || !slices.Contains(config.Finishes(), finish) {
			t.Errorf("requests %q = %v", finish, v)
		}
	}
	for q, h := range s.Histograms {
		if len(h.Bounds) > maxBuckets || len(h.Bounds) != len(h.Counts) || !slices.IsSorted(h.Bounds) || !slices.IsSorted(append(slices.Clone(h.Counts), h.Count)) || !good(h.Sum) {
			t.Errorf("%s = %+v", q, *h)
		}
	}
	if r := s.PrefixCacheRatio; r != -1 && !(r >= 0 && r <= 1) {
		t.Errorf("ratio %v", r)
	}
	if !slices.IsSorted(s.Missing) {
		t.Errorf("missing %v is not sorted", s.Missing)
	}
}
