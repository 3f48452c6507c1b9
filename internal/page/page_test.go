package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestRefused(t *testing.T) {
	const text = "text/plain; version=0.0.4"
	const mapping = `
sentinels: ["acme:up"]
values: {requests_running: [{series: run}], prompt_tokens: [{series: p}]}
histograms: {ttft: [{series: t}]}
`
	many := func(n int, name string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s{i=\"%d\"} 1\n", name, i)
		}
		return b.String()
	}
	for _, tc := range []struct {
		name        string
		contentType string
		page        string
		want        Reason
		says        []string // what the error names
	}{
		{"JSON", "application/json", `[{"iter": 1}]`, ReasonFormat, []string{"application/json"}},
		{"JSON as text", text, `[{"iter": 1}]`, ReasonFormat, []string{"line 1"}},
		{"HTML", "text/html; charset=utf-8", "<html>", ReasonFormat, []string{"text/html"}},
		{"HTML as text", text, "<!doctype html>\n<html>\n", ReasonFormat, []string{"line 1"}},
		{"protobuf", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited", "acme:up 1\n", ReasonFormat, []string{"protobuf"}},
		{"no media type", ";;;", "acme:up 1\n", ReasonFormat, nil},
		{"empty page", text, "", ReasonFormat, []string{"without series"}},
		{"comments only", text, "# TYPE acme_x gauge\n", ReasonFormat, []string{"without series"}},
		{"zero byte", text, "acme:up 1\n\x00run 3\n", ReasonFormat, nil},
		{"broken line", text, "acme:up 1\n\n# a comment\n\nrun{a=} 3\nrun 1\n", ReasonFormat, []string{"line 5"}},
		{"broken second line", text, "acme:up 1\nrun\n", ReasonFormat, []string{"line 2"}},
		{"broken line that is not mapped", text, "acme:up 1\nother x\n", ReasonFormat, []string{"line 2"}},
		{"cut off", text, "acme:up 1\nrun{a=\"b", ReasonFormat, []string{"line 2"}},
		{"OpenMetrics without end", "application/openmetrics-text; version=1.0.0", "acme:up 1\n", ReasonFormat, nil},

		{"unmapped", text, "# TYPE foo_x gauge\nfoo_x 1\nfoo_y 2\n", ReasonUnmapped, []string{`"foo_x"`, `"foo_y"`}},
		{"process alone", text, "process_start_time_seconds 1\n", ReasonUnmapped, nil},

		{"twice", text, "acme:up 1\nrun{a=\"1\",b=\"2\"} 1\nrun{a=\"1\",b=\"2\"} 2\n", ReasonDuplicate, []string{"run{"}},
		{"twice, labels in another order", text, "acme:up 1\nrun{a=\"1\",b=\"2\"} 1\nrun{b=\"2\",a=\"1\"} 2\n", ReasonDuplicate, nil},
		{"bucket twice", text, "acme:up 1\nt_bucket{le=\"1\"} 1\nt_bucket{le=\"1\"} 1\n", ReasonDuplicate, nil},

		{"histogram is a counter", text, "acme:up 1\n# TYPE t counter\nt 1\n", ReasonType, []string{`"t"`, "counter", "histogram"}},
		{"histogram is a summary", text, "acme:up 1\n# TYPE t summary\nt_sum 1\nt_count 1\n", ReasonType, []string{`"t"`, "summary"}},
		{"number is a histogram", text, "acme:up 1\n# TYPE run histogram\nrun_bucket{le=\"+Inf\"} 1\nrun_sum 1\nrun_count 1\n", ReasonType, []string{`"run"`, "histogram"}},
		{"number is a summary", text, "acme:up 1\n# TYPE run summary\nrun{quantile=\"0.5\"} 1\nrun_sum 1\nrun_count 1\n", ReasonType, []string{`"run"`, "summary"}},
		{"counter is a histogram", text, "acme:up 1\n# TYPE p_total histogram\np_total_bucket{le=\"+Inf\"} 1\n", ReasonType, []string{`"p_total"`}},

		{"too many mapped samples", text, "acme:up 1\n" + many(50_001, "run"), ReasonTooLarge, []string{"50000"}},
		{"too many samples", text, "acme:up 1\n" + many(200_001, "o"), ReasonTooLarge, []string{"200000"}},
		{"too long labels", text, "acme:up 1\nrun{a=\"" + strings.Repeat("x", 17_000) + "\"} 1\n", ReasonTooLarge, []string{`"run"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, mapping)
			reason, text := l.reason(tc.page, tc.contentType)
			if reason != tc.want {
				t.Errorf("reason %q (%s), want %q", reason, text, tc.want)
			}
			for _, s := range tc.says {
				if !strings.Contains(text, s) {
					t.Errorf("the error %q does not name %q", text, s)
				}
			}
			if len(text) > 1000 {
				t.Errorf("an error of %d bytes", len(text))
			}
			l.wantValue(l.read("acme:up 1\nrun 1\n"), config.RequestsRunning, 1) // the reader goes on
		})
	}
}

func TestBoundedError(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']")
	long := strings.Repeat("x", 100_000)
	for _, page := range []string{long + " 1\n", long, "a{b=\"" + long, "# TYPE x " + long + "\n"} {
		if _, text := l.reason(page, ""); len(text) > 1000 {
			t.Errorf("an error of %d bytes", len(text))
		}
	}
}

func TestAccepted(t *testing.T) {
	const mapping = "sentinels: ['acme:up']\nvalues: {requests_running: [{series: run}], prompt_tokens: [{series: p}]}"
	for _, tc := range []struct{ name, contentType, page string }{
		{"text", "text/plain; version=0.0.4; charset=utf-8", "# TYPE run gauge\nacme:up 1\nrun 2\np_total 3\n"},
		{"no content type", "", "acme:up 1\nrun 2\np_total 3\n"},
		{"bad parameter", "text/plain; version", "acme:up 1\nrun 2\np_total 3\n"},
		{"no line break at the end", "text/plain", "acme:up 1\nrun 2\np_total 3"},
		{"untyped", "text/plain", "# TYPE run untyped\nacme:up 1\nrun 2\np_total 3\n"},
		{"help and comments", "text/plain", "# HELP run \"a\" \\n b\n# what\nacme:up 1\nrun 2\n\np_total 3\n"},
		{"OpenMetrics", "application/openmetrics-text; version=1.0.0; charset=utf-8", "# TYPE run gauge\n# TYPE p counter\n# TYPE acme:up gauge\nacme:up 1\nrun 2\np_total 3 # {id=\"x\"} 1\np_created 1.7e9\n# EOF\n"},
		{"OpenMetrics, unknown", "application/openmetrics-text", "# TYPE run unknown\nacme:up 1\nrun 2\np_total 3\n# EOF\n"},
		{"same twice, not mapped", "text/plain", "acme:up 1\nrun 2\np_total 3\no 1\no 1\n"},
		{"other form is a histogram", "text/plain", "acme:up 1\nrun 2\n# TYPE p_total counter\np_total 3\n# TYPE p histogram\np_bucket{le=\"+Inf\"} 1\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, mapping)
			page := []byte(tc.page)
			s, err := l.reader.Read(page, tc.contentType, l.now, Want{})
			if err != nil {
				t.Fatal(err)
			}
			l.wantValue(s, config.RequestsRunning, 2)
			l.wantValue(s, config.PromptTokens, 3)
			if string(page) != tc.page {
				t.Errorf("the page was changed to %q", page)
			}
		})
	}
}

func TestRecognise(t *testing.T) {
	engines := map[string]*config.Mapping{}
	for name, text := range map[string]string{
		"alpha": "sentinels: ['alpha:up', shared]\nvalues: {requests_running: [{series: 'alpha:run'}]}",
		"beta":  "sentinels: ['beta:up', shared]\nvalues: {requests_running: [{series: 'alpha:run'}]}",
		"front": "sentinels: [front_up]\nfallback: true",
		"all":   "sentinels: [all_up]\nfallback: true",
	} {
		engines[name] = parseMapping(t, text)
	}
	own := map[string]*config.Mapping{"zeta": parseMapping(t, "sentinels: ['zeta:up', shared]")}
	m := mappingsOf(engines, own)
	for _, tc := range []struct{ page, engine, want string }{
		{"alpha:up 1\n", "", "alpha"},
		{"ray_beta_up 1\n", "", "beta"},
		{"x 1\nbeta_up{a=\"b\"} 1\n", "", "beta"},
		{"# TYPE beta:up gauge\nx 1\n", "", "beta"},
		{"# HELP beta:up alpha:up 1\nalpha:up 1\n", "", "alpha"},
		{"beta:up 1\nalpha:up 1\n", "", "alpha"},
		{"all_up 1\nbeta:up 1\n", "", "beta"},
		{"front_up 1\nall_up 1\n", "", "all"},
		{"front_up 1\n", "", "front"},
		{"shared 1\n", "", "zeta"},
		{"alpha:up 1\nzeta:up 1\n", "", "zeta"},
		{"alpha:up 1\nalpha:run 1\n", "beta", "beta"}, // has a series of it
		{"alpha:up 1\n", "beta", "alpha"},             // has none
		{"process_start_time_seconds 1\nalpha:up 1\n", "beta", "alpha"},
		{"alpha:up 1\n", "unheard of", "alpha"},
	} {
		s, err := m.NewReader().Read([]byte(tc.page), "", labEpoch, Want{Engine: tc.engine})
		if err != nil {
			t.Errorf("%q: %v", tc.page, err)
		} else if s.Engine != tc.want {
			t.Errorf("%q for %q is read as %s, want %s", tc.page, tc.engine, s.Engine, tc.want)
		}
	}
	got := slices.Sorted(maps.Keys(m.byName))
	if want := []string{"all", "alpha", "beta", "front", "zeta"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
}

// Some engines have no series before their first request. A page without any
// is theirs only where it is known that the engine is such a one.
func TestPageWithoutSeries(t *testing.T) {
	for _, tc := range []struct {
		want     Want
		expected string
		read     bool
	}{
		{Want{}, "", false},
		{Want{Engine: "acme"}, "", true},
		{Want{Found: "acme"}, "", true},
		{Want{Found: "other"}, "", false},
		{Want{Found: "acme"}, "expected: [requests_running]\n", false},
	} {
		l := newPageLab(t, "sentinels: ['acme:up']\n"+tc.expected+"values: {requests_running: [{series: run}]}")
		s, err := l.reader.Read([]byte("# nothing yet\n"), "text/plain", l.now, tc.want)
		if (err == nil) != tc.read {
			t.Errorf("%+v, %q: read: %t, want %t", tc.want, tc.expected, err == nil, tc.read)
		}
		if err == nil && (s.Engine != "acme" || len(s.Values) > 0) {
			t.Errorf("%+v: %+v", tc.want, s)
		}
	}
}

// A new release that renamed the sentinel is still read where probing knows the
// engine, and what went missing is said.
func TestRenamedSentinel(t *testing.T) {
	m := mappings(t, nil)
	page := []byte("python_info 1\nprocess_max_fds 9\nvllm:running 1\nvllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n")
	s, err := m.NewReader().Read(page, textFormat, time.Time{}, Want{Found: "vllm"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Engine != "vllm" || !slices.Equal(s.Missing, []config.Quantity{config.RequestsRunning}) {
		t.Errorf("engine %s, missing %v", s.Engine, s.Missing)
	}
	_, err = m.NewReader().Read(page, textFormat, time.Time{}, Want{})
	if err == nil || !strings.Contains(err.Error(), `knows "vllm:running"`) {
		t.Errorf("error %v, want the server's own series", err)
	}
}

// labEpoch is when the first page is read.
var labEpoch = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// pageLab reads pages with a mapping of its own, the engine acme.
type pageLab struct {
	*testing.T
	reader *Reader
	now    time.Time
	want   Want
}

func newPageLab(t *testing.T, mapping string) *pageLab {
	t.Helper()
	m := mappingsOf(nil, map[string]*config.Mapping{"acme": parseMapping(t, mapping)})
	return &pageLab{T: t, reader: m.NewReader(), now: labEpoch}
}

func parseMapping(tb testing.TB, text string) *config.Mapping {
	tb.Helper()
	e, err := config.ParseMapping([]byte(text), "acme.yml", config.ServerSoftware)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// read reads the next page, 15 s after the one before it.
func (l *pageLab) read(page string) *Snapshot {
	l.Helper()
	l.now = l.now.Add(15 * time.Second)
	s, err := l.reader.Read([]byte(page), "text/plain; version=0.0.4", l.now, l.want)
	if err != nil {
		l.Fatalf("Read: %v", err)
	}
	return s
}

// reason reads a page that must be refused, and returns why it was.
func (l *pageLab) reason(page, contentType string) (Reason, string) {
	l.Helper()
	s, err := l.reader.Read([]byte(page), contentType, l.now, l.want)
	if err == nil {
		l.Fatalf("Read: no error, and %+v", s)
	}
	return err.(*PageError).Reason, err.Error()
}

// wantValue compares a number; want < 0 is for none.
func (l *pageLab) wantValue(s *Snapshot, q config.Quantity, want float64) {
	l.Helper()
	got, ok := s.Values[q]
	switch {
	case want < 0 && ok:
		l.Errorf("%s = %v, want none", q, got)
	case want >= 0 && !ok:
		l.Errorf("%s is absent, want %v", q, want)
	case want >= 0 && got != want:
		l.Errorf("%s = %v, want %v", q, got, want)
	}
}

func (l *pageLab) wantHistogram(s *Snapshot, q config.Quantity, want *Histogram) {
	l.Helper()
	got := s.Histograms[q]
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		l.Errorf("%s = %+v, want %+v", q, got, want)
	case !slices.Equal(got.Bounds, want.Bounds) || !slices.Equal(got.Counts, want.Counts) || got.Count != want.Count || got.Sum != want.Sum:
		l.Errorf("%s = %+v, want %+v", q, *got, *want)
	}
}

func (l *pageLab) wantRequests(s *Snapshot, want map[string]float64) {
	l.Helper()
	if !maps.Equal(s.Requests, want) {
		l.Errorf("requests %v, want %v", s.Requests, want)
	}
}
