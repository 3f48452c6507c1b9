package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestHistogram(t *testing.T) {
	const plainMapping = "histograms: {ttft: [{series: t}]}"
	for _, tc := range []struct {
		name    string
		mapping string
		page    string
		want    *Histogram
	}{
		{
			"own bounds", plainMapping,
			"# TYPE t histogram\nt_bucket{le=\"0.1\"} 40\nt_bucket{le=\"1.0\"} 58\nt_bucket{le=\"+Inf\"} 60\nt_count 60\nt_sum 12.5\n",
			&Histogram{Bounds: []float64{0.1, 1}, Counts: []uint64{40, 58}, Count: 60, Sum: 12.5},
		},
		{
			"buckets in any order", plainMapping,
			"t_bucket{le=\"+Inf\"} 60\nt_bucket{le=\"10\"} 58\nt_bucket{le=\"9\"} 40\nt_sum 12.5\nt_count 60\n",
			&Histogram{Bounds: []float64{9, 10}, Counts: []uint64{40, 58}, Count: 60, Sum: 12.5},
		},
		{
			"scale", "histograms: {ttft: [{series: t, scale: 0.001}]}",
			"t_bucket{le=\"100\"} 4\nt_bucket{le=\"5000\"} 5\nt_bucket{le=\"+Inf\"} 6\nt_sum 2000\n",
			&Histogram{Bounds: []float64{100 * 0.001, 5}, Counts: []uint64{4, 5}, Count: 6, Sum: 2},
		},
		{
			"count from +Inf", plainMapping,
			"t_bucket{le=\"1\"} 2\nt_bucket{le=\"+Inf\"} 3\nt_sum 4\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"count and +Inf of different moments", plainMapping,
			"t_bucket{le=\"1\"} 2\nt_bucket{le=\"+Inf\"} 3\nt_sum 4\nt_count 4\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"count without +Inf", plainMapping,
			"t_bucket{le=\"1\"} 2\nt_count 3\nt_sum 4\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"no buckets", plainMapping, "# TYPE t histogram\nt_count 3\nt_sum 4\n",
			&Histogram{Count: 3, Sum: 4},
		},
		{
			"name that ends in _total", "histograms: {ttft: [{series: t_total}]}",
			"# TYPE t_total histogram\nt_total_bucket{le=\"1\"} 2\nt_total_bucket{le=\"+Inf\"} 3\nt_total_sum 4\nt_total_count 3\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"sum over ranks", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 2\nt_bucket{r=\"0\",le=\"+Inf\"} 3\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"1.0\"} 5\nt_bucket{r=\"1\",le=\"+Inf\"} 7\nt_sum{r=\"1\"} 9\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{7}, Count: 10, Sum: 13},
		},
		{
			"copies", "copies: [tp]\n" + plainMapping,
			"t_bucket{tp=\"0\",le=\"1\"} 2\nt_bucket{tp=\"0\",le=\"+Inf\"} 3\nt_sum{tp=\"0\"} 4\nt_bucket{tp=\"1\",le=\"1\"} 2\nt_bucket{tp=\"1\",le=\"+Inf\"} 4\nt_sum{tp=\"1\"} 5\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 4, Sum: 5},
		},
		{
			"selected", "histograms: {ttft: [{series: t, labels: {stage: a}}]}",
			"t_bucket{stage=\"a\",le=\"+Inf\"} 3\nt_sum{stage=\"a\"} 4\nt_bucket{stage=\"b\",le=\"+Inf\"} 9\nt_sum{stage=\"b\"} 9\n",
			&Histogram{Count: 3, Sum: 4},
		},
		{
			"sum and number", "histograms: {ttft: [{sum: t_us, count: done, scale: 0.000001}]}",
			"# TYPE t_us counter\nt_us{m=\"a\"} 4500000\nt_us{m=\"b\"} 500000\ndone{m=\"a\"} 7\ndone{m=\"b\"} 2\n",
			&Histogram{Count: 9, Sum: 5},
		},
		{"number too large", "histograms: {ttft: [{sum: t_us, count: done}]}", "t_us 4500000\ndone 1e300\n", nil},
		{"sum without number", "histograms: {ttft: [{sum: t_us, count: done}]}", "t_us 4500000\n", nil},
		{
			"second alternative", "histograms: {ttft: [{series: new}, {series: t}]}",
			"t_count 3\nt_sum 4\n",
			&Histogram{Count: 3, Sum: 4},
		},
		{
			"ranks with different bounds", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 2\nt_bucket{r=\"0\",le=\"+Inf\"} 3\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"2\"} 5\nt_bucket{r=\"1\",le=\"+Inf\"} 7\nt_sum{r=\"1\"} 9\n",
			nil,
		},
		{
			"one rank lacks a bound", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 2\nt_bucket{r=\"0\",le=\"+Inf\"} 3\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"1\"} NaN\nt_bucket{r=\"1\",le=\"+Inf\"} 7\nt_sum{r=\"1\"} 9\n",
			nil,
		},
		{"counts decrease", plainMapping, "t_bucket{le=\"1\"} 5\nt_bucket{le=\"2\"} 4\nt_bucket{le=\"+Inf\"} 6\nt_sum 4\n", nil},
		{"fewer than in the last bucket", plainMapping, "t_bucket{le=\"1\"} 5\nt_count 4\nt_sum 4\n", nil},
		{
			"counts of one rank decrease", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 5\nt_bucket{r=\"0\",le=\"+Inf\"} 4\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"1\"} 1\nt_bucket{r=\"1\",le=\"+Inf\"} 9\nt_sum{r=\"1\"} 4\n",
			nil,
		},
		{"no count", plainMapping, "t_bucket{le=\"1\"} 5\nt_sum 4\n", nil},
		{"no sum", plainMapping, "t_bucket{le=\"+Inf\"} 5\n", nil},
		{"bound that is no number", plainMapping, "t_bucket{le=\"x\"} 2\nt_bucket{le=\"NaN\"} 2\nt_bucket{le=\"-Inf\"} 2\nt_bucket 2\nt_bucket{le=\"+Inf\"} 3\nt_sum 4\n", &Histogram{Count: 3, Sum: 4}},
		{"more than can be counted", plainMapping, "t_bucket{le=\"+Inf\"} 1e300\nt_sum 4\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, "sentinels: ['acme:up']\n"+tc.mapping)
			l.wantHistogram(l.read("acme:up 1\n"+tc.page), config.TTFT, tc.want)
		})
	}
}

// TestNewBounds is about an engine that comes back with other bounds.
func TestNewBounds(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nvalues: {preemptions: [{series: x}]}\nhistograms: {ttft: [{series: t}]}")
	l.read("acme:up 1\nx 1\nt_bucket{le=\"1\"} 5\nt_bucket{le=\"+Inf\"} 6\nt_sum 4\n")
	s := l.read("acme:up 1\nx 1\nt_bucket{le=\"2\"} 1\nt_bucket{le=\"+Inf\"} 2\nt_sum 3\n")
	l.wantHistogram(s, config.TTFT, &Histogram{Bounds: []float64{2}, Counts: []uint64{1}, Count: 2, Sum: 3})
}

const counterMapping = `
sentinels: ["acme:up"]
copies: [pid]
values: {prompt_tokens: [{series: p}], preemptions: [{series: x}]}
`

// TestResets reads a counter several times. The totals are computed by hand: what
// was counted before a series was reset is kept as long as another one continues.
func TestResets(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pages []string
		want  []float64 // prompt tokens; < 0: none
	}{
		{"one series", []string{"p 5\n", "p 8\n"}, []float64{5, 8}},
		{"restart of one series", []string{"p 5\n", "p 2\n", "p 3\n"}, []float64{5, 2, 3}},
		{"restart of all", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 1\np{r=\"1\"} 0\n"}, []float64{11, 1}},
		{"restart of all, one with nothing counted", []string{"p{r=\"0\"} 5\np{r=\"1\"} 0\n", "p{r=\"0\"} 1\np{r=\"1\"} 0\n"}, []float64{5, 1}},
		{"restart of one of two", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 7\np{r=\"1\"} 2\n", "p{r=\"0\"} 8\np{r=\"1\"} 3\n"}, []float64{11, 15, 17}},
		{"two restarts of one of two", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 5\np{r=\"1\"} 2\n", "p{r=\"0\"} 5\np{r=\"1\"} 1\n"}, []float64{11, 13, 14}},
		{"another counter goes on", []string{"p 5\nx 1\n", "p 2\nx 1\n"}, []float64{5, 7}},
		{"one of two vanishes", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 7\n", "p{r=\"0\"} 8\n"}, []float64{11, 13, 14}},
		{"comes back as it was", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 7\n", "p{r=\"0\"} 8\np{r=\"1\"} 9\n"}, []float64{11, 13, 17}},
		{"comes back reset", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 7\n", "p{r=\"0\"} 8\np{r=\"1\"} 1\n"}, []float64{11, 13, 15}},
		{"comes back when the other is reset", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 7\n", "p{r=\"0\"} 1\np{r=\"1\"} 6\n"}, []float64{11, 13, 7}},
		{"replaced by another", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 7\np{r=\"2\"} 1\n"}, []float64{11, 14}},
		{"all vanish and come back", []string{"p 5\nx 1\n", "", "p 5\nx 1\n"}, []float64{5, -1, 5}},
		{"all replaced", []string{"p{r=\"0\"} 5\n", "p{r=\"1\"} 1\n"}, []float64{5, 1}},
		{"counter vanishes, others go on", []string{"p 5\nx 1\n", "x 1\n", "p 1\nx 1\n"}, []float64{5, -1, 6}},
		{"restart of all after one of one", []string{"p{r=\"0\"} 5\np{r=\"1\"} 6\n", "p{r=\"0\"} 7\np{r=\"1\"} 2\n", "p{r=\"0\"} 1\np{r=\"1\"} 1\n"}, []float64{11, 15, 2}},
		{"new start of the process", []string{"process_start_time_seconds 100\np{r=\"0\"} 5\np{r=\"1\"} 6\n", "process_start_time_seconds 200\np{r=\"0\"} 7\np{r=\"1\"} 2\n"}, []float64{11, 9}},
		{"same start of the process", []string{"process_start_time_seconds 100\np{r=\"0\"} 5\np{r=\"1\"} 6\n", "process_start_time_seconds 100\np{r=\"0\"} 7\np{r=\"1\"} 2\n"}, []float64{11, 15}},
		{"copy that falls", []string{"p{pid=\"1\"} 5\np{pid=\"2\"} 6\n", "p{pid=\"1\"} 1\np{pid=\"2\"} 7\n"}, []float64{6, 7}},
		{"spelled with _total later", []string{"p 5\nx 1\n", "p_total 6\nx 1\n"}, []float64{5, 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, counterMapping)
			for i, page := range tc.pages {
				s := l.read("acme:up 1\n" + page)
				l.wantValue(s, config.PromptTokens, tc.want[i])
			}
		})
	}
}

// TestResetOfHistogram is about two ranks of which one is reset. Its first bucket
// does not show it: 3 is more than 2. All parts of a histogram are reset
// together, so that they stay in order.
func TestResetOfHistogram(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nhistograms: {ttft: [{series: t}]}")
	page := func(rank string, counts ...any) string {
		f := strings.ReplaceAll("t_bucket{r=R,le=\"1\"} %v\nt_bucket{r=R,le=\"2\"} %v\nt_bucket{r=R,le=\"+Inf\"} %v\nt_sum{r=R} %v\n", "R", fmt.Sprintf("%q", rank))
		return fmt.Sprintf(f, counts...)
	}
	s := l.read("acme:up 1\n" + page("0", 1, 2, 3, 4.5) + page("1", 2, 5, 9, 20))
	l.wantHistogram(s, config.TTFT, &Histogram{Bounds: []float64{1, 2}, Counts: []uint64{3, 7}, Count: 12, Sum: 24.5})
	s = l.read("acme:up 1\n" + page("0", 1, 2, 4, 7.5) + page("1", 3, 3, 3, 2))
	l.wantHistogram(s, config.TTFT, &Histogram{Bounds: []float64{1, 2}, Counts: []uint64{1 + 2 + 3, 2 + 5 + 3}, Count: 4 + 9 + 3, Sum: 7.5 + 20 + 2})
	s = l.read("acme:up 1\n" + page("0", 1, 2, 4, 7.5))
	l.wantHistogram(s, config.TTFT, &Histogram{Bounds: []float64{1, 2}, Counts: []uint64{6, 10}, Count: 16, Sum: 29.5})
	s = l.read("acme:up 1\n" + page("0", 0, 0, 1, 3))
	l.wantHistogram(s, config.TTFT, &Histogram{Bounds: []float64{1, 2}, Counts: []uint64{0, 0}, Count: 1, Sum: 3})
}

// TestNegativeObservation is about the sum of a histogram that falls while its
// counts rise: it is held, as a fall would look like a restart.
func TestNegativeObservation(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nhistograms: {ttft: [{series: t}]}")
	l.read("acme:up 1\nt_bucket{le=\"+Inf\"} 2\nt_sum 9\n")
	s := l.read("acme:up 1\nt_bucket{le=\"+Inf\"} 3\nt_sum 8.5\n")
	l.wantHistogram(s, config.TTFT, &Histogram{Count: 3, Sum: 9})
}

// TestOtherWay is about pages that are read in another way: other samples
// count, so nothing of before does.
func TestOtherWay(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nmodel_label: m\nvalues: {prompt_tokens: [{series: p}]}")
	const page = "acme:up 1\np{m=\"a\"} 5\np{m=\"b\"} 6\n"
	l.wantValue(l.read(page), config.PromptTokens, 11)
	l.want.Model = "a"
	l.wantValue(l.read(page), config.PromptTokens, 5)
	l.want.Model = "b"
	l.wantValue(l.read(page), config.PromptTokens, 6)
}

// TestChurn is about series that come and go for good: the total stays exact
// and what is kept of them does not grow.
func TestChurn(t *testing.T) {
	const pages, each = 100, 50
	l := newPageLab(t, counterMapping)
	for i := range pages {
		var b strings.Builder
		b.WriteString("acme:up 1\nx 1\n")
		for j := range each {
			fmt.Fprintf(&b, "p{key=\"%d-%d\"} 2\n", i, j)
		}
		l.wantValue(l.read(b.String()), config.PromptTokens, float64(2*each*(i+1)))
		if n := len(l.reader.cells); n > maxGone+each+1 {
			t.Fatalf("%d cells after %d pages, want at most %d", n, i+1, maxGone+each+1)
		}
	}
}

func TestPrefixCache(t *testing.T) {
	const mapping = `
sentinels: ["acme:up"]
prefix_cache:
  - {hits: {series: cached}, queries: {series: asked}, unit: tokens, zero_if_absent: all}
  - {hits: {series: reused}, queries: {series: reused, plus: {series: missed}}, unit: blocks}
  - {hits: {series: served}, queries: {series: called}, unit: requests}
`
	type step struct {
		after         time.Duration
		page          string
		hits, queries float64 // < 0: none
		ratio         float64
	}
	const minute = time.Minute
	for _, tc := range []struct {
		name  string
		unit  string
		steps []step
	}{
		{"first reading", "tokens", []step{{0, "asked 8\ncached 2\n", 2, 8, -1}}},
		{"since the first reading", "tokens", []step{{0, "asked 8\ncached 2\n", 2, 8, -1}, {minute, "asked 12\ncached 5\n", 5, 12, 0.75}}},
		{"hits not there yet", "tokens", []step{{0, "asked 8\n", 0, 8, -1}, {minute, "asked 12\n", 0, 12, 0}, {minute, "asked 16\ncached 2\n", 2, 16, 0.25}}},
		{"nothing asked", "tokens", []step{{0, "asked 8\ncached 2\n", 2, 8, -1}, {minute, "asked 8\ncached 2\n", 2, 8, -1}}},
		{"window", "tokens", []step{
			{0, "asked 0\ncached 0\n", 0, 0, -1},
			{4 * minute, "asked 100\ncached 100\n", 100, 100, 1},
			{4 * minute, "asked 104\ncached 101\n", 101, 104, 101. / 104}, // from the reading before the window began
			{1 * minute, "asked 108\ncached 102\n", 102, 108, 0.25},       // from the second one, 5 min ago
			{9 * minute, "asked 110\ncached 102\n", 102, 110, 0},          // from the one before
		}},
		{"restart", "tokens", []step{{0, "asked 80\ncached 20\n", 20, 80, -1}, {minute, "asked 88\ncached 22\n", 22, 88, 0.25}, {minute, "asked 4\ncached 4\n", 4, 4, 0.5}}},
		{"more hits than queries", "tokens", []step{{0, "asked 8\ncached 2\n", 2, 8, -1}, {minute, "asked 9\ncached 5\n", 5, 9, -1}}},
		{"second alternative", "blocks", []step{{0, "reused 3\nmissed 7\n", 3, 10, -1}, {minute, "reused 4\nmissed 10\n", 4, 14, 0.25}}},
		{"hits that this version may not count", "", []step{{0, "called 8\n", -1, -1, -1}}},
		{"hits that this version counts", "requests", []step{{0, "called 8\nserved 0\n", 0, 8, -1}, {minute, "called 12\nserved 1\n", 1, 12, 0.25}}},
		{"no cache", "", []step{{0, "cached 3\n", -1, -1, -1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, mapping)
			for i, st := range tc.steps {
				l.now = l.now.Add(st.after - 15*time.Second)
				s := l.read("acme:up 1\n" + st.page)
				l.wantValue(s, config.PrefixCacheHits, st.hits)
				l.wantValue(s, config.PrefixCacheAsked, st.queries)
				if s.PrefixCacheRatio != st.ratio || s.PrefixCacheUnit != tc.unit {
					t.Errorf("reading %d: ratio %v of %q, want %v of %q", i+1, s.PrefixCacheRatio, s.PrefixCacheUnit, st.ratio, tc.unit)
				}
			}
		})
	}
}

// TestOtherCacheCounters is about a page that shows better counters later: their
// values are unrelated to those of the others, so they are read from the next
// restart on.
func TestOtherCacheCounters(t *testing.T) {
	l := newPageLab(t, `
sentinels: ["acme:up"]
prefix_cache:
  - {hits: {series: cached}, queries: {series: asked}, unit: tokens}
  - {hits: {series: reused}, queries: {series: blocks}, unit: blocks}
`)
	for i, st := range []struct {
		page          string
		unit          string
		hits, queries float64
		ratio         float64
	}{
		{"blocks 4\nreused 1\n", "blocks", 1, 4, -1},
		{"blocks 8\nreused 3\nasked 800\ncached 200\n", "blocks", 3, 8, 0.5},
		{"blocks 10\nreused 3\nasked 900\ncached 300\n", "blocks", 3, 10, 2. / 6},
		{"blocks 2\nreused 1\nasked 20\ncached 5\n", "tokens", 5, 20, -1},
		{"blocks 4\nreused 1\nasked 40\ncached 20\n", "tokens", 20, 40, 0.75},
		{"blocks 5\nreused 2\n", "blocks", 2, 5, -1}, // better than nothing
	} {
		s := l.read("acme:up 1\n" + st.page)
		l.wantValue(s, config.PrefixCacheHits, st.hits)
		l.wantValue(s, config.PrefixCacheAsked, st.queries)
		if s.PrefixCacheUnit != st.unit || s.PrefixCacheRatio != st.ratio {
			t.Errorf("reading %d: ratio %v of %s, want %v of %s", i+1, s.PrefixCacheRatio, s.PrefixCacheUnit, st.ratio, st.unit)
		}
	}
}

// TestWindowIsBounded reads once a second: one query each, a hit in every
// second one.
func TestWindowIsBounded(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nprefix_cache: [{hits: {series: h}, queries: {series: q}, unit: tokens}]")
	for i := range 1000 {
		l.now = l.now.Add(-14 * time.Second)
		s := l.read(fmt.Sprintf("acme:up 1\nq %d\nh %d\n", 2*i, i))
		if i > 0 && s.PrefixCacheRatio != 0.5 {
			t.Fatalf("reading %d: ratio %v, want 0.5", i, s.PrefixCacheRatio)
		}
	}
	w := &l.reader.cache
	if n := len(w.past); n > windowSteps+2 {
		t.Errorf("%d readings are kept, want at most %d", n, windowSteps+2)
	}
	if age := l.now.Sub(w.past[0].at); age < RatioWindow || age > RatioWindow+11*time.Second {
		t.Errorf("the oldest reading is %v old, want %v and a step at most", age, RatioWindow)
	}
}
