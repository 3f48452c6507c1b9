package users

import (
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func limits(ttft, tpot, e2e time.Duration) *series.Objectives {
	return &series.Objectives{Share: 0.99, TTFT: ttft, TPOT: tpot, E2E: e2e}
}

// counts are those of availability, TTFT, TPOT and E2E.
func counts(all ...Count) (c [series.NumObjectives]Count) {
	copy(c[:], all)
	return c
}

// advance adds to the value of each series of a page that a pattern matches.
func advance(t *testing.T, text, pattern string, by float64) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^(` + pattern + `) ([0-9.e+]+)$`)
	if !line.MatchString(text) {
		t.Fatalf("no %s on the page", pattern)
	}
	return line.ReplaceAllStringFunc(text, func(s string) string {
		i := strings.LastIndexByte(s, ' ')
		v, err := strconv.ParseFloat(s[i+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		return s[:i+1] + strconv.FormatFloat(v+by, 'g', -1, 64)
	})
}

// observe adds observations of a histogram: by bounds, so many up to each and above the one before.
func observe(t *testing.T, text, name, labels string, observed map[string]float64) string {
	t.Helper()
	for value, n := range observed {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^` + name + `_bucket\{(?:.*,)?le="([^"]+)".*$`)
		text = line.ReplaceAllStringFunc(text, func(s string) string {
			bound, err := strconv.ParseFloat(line.FindStringSubmatch(s)[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			if bound < v || !strings.Contains(s, labels) {
				return s
			}
			return advance(t, s, regexp.QuoteMeta(s[:strings.LastIndexByte(s, ' ')]), n)
		})
		text = advance(t, text, name+`_count(?:\{.*`+regexp.QuoteMeta(labels)+`.*\})?`, n)
	}
	return text
}

// Requests on the pages of real engines, advanced by hand.
func TestPagesOfEngines(t *testing.T) {
	for _, tc := range []struct {
		page       string
		objectives *series.Objectives
		advance    func(t *testing.T, text string) string
		want       [series.NumObjectives]Count
	}{
		{
			// 0.25 and 2.5 s are bounds, 0.03 s lies between 0.025 and 0.05.
			page: "vllm-0.32", objectives: limits(250*time.Millisecond, 30*time.Millisecond, 2500*time.Millisecond),
			advance: func(t *testing.T, text string) string {
				text = observe(t, text, "vllm:time_to_first_token_seconds", "", map[string]float64{"0.25": 90, "0.5": 8, "+Inf": 2})
				text = observe(t, text, "vllm:request_time_per_output_token_seconds", "", map[string]float64{"0.025": 70, "0.05": 20, "0.075": 10})
				text = observe(t, text, "vllm:e2e_request_latency_seconds", "", map[string]float64{"1.0": 95, "5.0": 5})
				text = advance(t, text, `vllm:request_success_total\{.*"length".*`, 90)
				text = advance(t, text, `vllm:request_success_total\{.*"abort".*`, 7)
				text = advance(t, text, `vllm:request_success_total\{.*"error".*`, 3)
				// Of nine replies with a status of 5xx the engine may have counted three; 4 mistakes of clients.
				text += `http_requests_total{handler="/v1/chat/completions",method="POST",status="5xx"} 9` + "\n"
				text += `http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"} 4` + "\n"
				return advance(t, text, `http_requests_total\{handler="none",method="POST",status="4xx"\}`, 50)
			},
			want: counts(Count{102, 9, 12}, Count{100, 10, 10}, Count{100, 10, 30}, Count{100, 5, 5}),
		},
		{
			page: "sglang-0.5.23", objectives: limits(time.Second, 0, 0),
			advance: func(t *testing.T, text string) string {
				text = observe(t, text, "sglang:time_to_first_token_seconds", `is_streaming="true"`, map[string]float64{"1.0": 40, "2.0": 20})
				text = advance(t, text, `sglang:http_responses_total\{endpoint="/v1/chat/completions",method="POST",status_code="200"\}`, 50)
				text = advance(t, text, `sglang:http_responses_total\{endpoint="/metrics".*`, 80)
				text += `sglang:http_responses_total{endpoint="/v1/chat/completions",method="POST",status_code="503"} 10` + "\n"
				return text + `sglang:http_responses_total{endpoint="/v1/completions",method="POST",status_code="400"} 5` + "\n"
			},
			want: counts(Count{60, 10, 10}, Count{60, 20, 20}),
		},
		{
			page: "tgi", objectives: limits(time.Second, 0, time.Second), // no TTFT on the page
			advance: func(t *testing.T, text string) string {
				text = advance(t, text, `tgi_request_success`, 80)
				text = advance(t, text, `tgi_request_failure\{err="overloaded"\}`, 20)
				return advance(t, text, `tgi_request_failure\{err="validation"\}`, 30)
			},
			// The rejections are the errors, and may be others for all that is known.
			want: counts(Count{120, 20, 40}),
		},
		{
			page: "trtllm-1.2", objectives: limits(0, 0, 0),
			advance: func(t *testing.T, text string) string {
				text = advance(t, text, `trtllm_request_success_total\{.*`, 70)
				text = advance(t, text, `trtllm_request_error_total\{.*http_code="400".*`, 5)
				return advance(t, text, `trtllm_request_error_total\{.*http_code="503".*`, 6)
			},
			want: counts(Count{76, 6, 6}),
		},
		{
			page: "llamacpp", objectives: limits(time.Second, time.Second, time.Second), // no histograms, no counts
			advance: func(t *testing.T, text string) string {
				return advance(t, text, `llamacpp:tokens_predicted_total`, 1e6)
			},
		},
	} {
		t.Run(tc.page, func(t *testing.T) {
			text, err := os.ReadFile("../page/testdata/pages/servers/" + tc.page + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			m := page.NewMappings(page.Servers, nil)
			reader, tracker := m.NewReader(), NewTracker(tc.objectives)
			read := func(text string, at time.Time) *Reading {
				s, err := reader.Read([]byte(text), "text/plain; version=0.0.4", at, page.Want{})
				if err != nil {
					t.Fatal(err)
				}
				return tracker.Read([]page.Status{{Server: "a", Snapshot: s}}, nil)
			}
			if r := read(string(text), start); r != nil {
				t.Fatalf("the first page: %+v", r)
			}
			r := read(tc.advance(t, string(text)), start.Add(15*time.Second))
			if r == nil {
				r = new(Reading)
			} else if !r.Since.Equal(start) || !r.At.Equal(start.Add(15*time.Second)) {
				t.Errorf("from %s to %s", r.Since, r.At)
			}
			if d := cmp.Diff(tc.want, r.Counts); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// What is certain is never more than the truth, and what is possible never less, whatever the bounds.
func TestBoundsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	for range 5000 {
		bounds := make([]float64, 1+r.IntN(12))
		for i := range bounds {
			bounds[i] = math.Round(1000*math.Exp(4*r.NormFloat64()/3)) / 1000
		}
		slices.Sort(bounds)
		bounds = slices.Compact(bounds)
		limit := time.Duration(1e9 * math.Exp(4*r.NormFloat64()/3)).Round(time.Millisecond)
		if r.IntN(3) == 0 { // a bound
			limit = time.Duration(math.Round(1e9 * bounds[r.IntN(len(bounds))]))
		}
		limit = max(limit, time.Millisecond)
		h := &page.Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds))}
		truth := uint64(0)
		for range r.IntN(300) {
			v := math.Exp(4 * r.NormFloat64() / 3)
			h.Count++
			for i, b := range bounds {
				if v <= b {
					h.Counts[i]++
				}
			}
			if v > limit.Seconds() {
				truth++
			}
		}
		c := Over(h, limit.Seconds())
		if c.Bad > truth || truth > c.Possible || c.Possible > c.Eligible || c.Eligible != h.Count {
			t.Fatalf("%+v, of which %d are over %s, bounds %v", c, truth, limit, bounds)
		}
		if slices.Contains(bounds, limit.Seconds()) && c.Bad != c.Possible {
			t.Fatalf("%+v, although %s is among %v", c, limit, bounds)
		}
	}
}

// shows is a page with so many requests that ended well and with errors, of a process that started at an instant, each with a
// TTFT up to 1 s, or 2 s for those that are slow.
func shows(name string, at, started time.Time, good, failed float64, slow uint64) page.Status {
	n := uint64(good)
	return page.Status{Server: name, Snapshot: &page.Snapshot{
		Engine: "x", At: at, Started: started,
		Values:     map[config.Quantity]float64{config.PromptTokens: 1000 * good},
		Requests:   map[string]float64{"success": good, "error": failed},
		Errors:     page.Errors{Certain: failed},
		Histograms: map[config.Quantity]*page.Histogram{config.TTFT: {Bounds: []float64{1, 2}, Counts: []uint64{n - slow, n}, Count: n}},
	}}
}

// Restarts, replicas that come and go, and pages that are away.
func TestServersComeAndGo(t *testing.T) {
	tracker := NewTracker(limits(time.Second, 0, 0))
	at, born := start, start.Add(-time.Hour)
	read := func(name string, want [series.NumObjectives]Count, pages ...page.Status) {
		t.Helper()
		r := tracker.Read(pages, nil)
		if r == nil {
			r = new(Reading)
		}
		if d := cmp.Diff(want, r.Counts); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		at = at.Add(15 * time.Second)
	}
	none := counts()
	read("the first page", none, shows("a", at, born, 5000, 50, 500))
	read("one server", counts(Count{100, 0, 0}, Count{100, 10, 10}), shows("a", at, born, 5100, 50, 510))
	read("a new replica is a base", counts(Count{101, 1, 1}, Count{100, 0, 0}), shows("a", at, born, 5200, 51, 510), shows("b", at, born, 9000, 9, 9))
	read("both", counts(Count{150, 0, 0}, Count{150, 5, 5}), shows("a", at, born, 5300, 51, 515), shows("b", at, born, 9050, 9, 9))
	read("a restart counts what came since", counts(Count{72, 2, 2}, Count{70, 1, 1}), shows("a", at, at, 60, 2, 1), shows("b", at, born, 9060, 9, 9))
	read("a restart that may be none is a base", counts(Count{10, 0, 0}, Count{10, 0, 0}), shows("a", at, at.Add(time.Second), 90, 2, 1), shows("b", at, born, 9070, 9, 9))
	read("a counter that falls in the same process is not known", counts(Count{50, 0, 0}, Count{50, 0, 0}),
		shows("a", at, at.Add(-14*time.Second), 80, 2, 1), shows("b", at, born, 9120, 9, 9))
	for range 5 {
		read("one is away", counts(Count{10, 0, 0}, Count{10, 0, 0}), shows("b", at, born, 9060+10*at.Sub(start).Seconds()/15, 9, 9))
	}
	before := tracker.View(at).Counts
	a := shows("a", at, start.Add(76*time.Second), 380, 2, 1)
	read("what it counted meanwhile is of no interval", counts(Count{10, 0, 0}, Count{10, 0, 0}), a, shows("b", at, born, 9180, 9, 9))
	want := map[string]Count{
		"availability": {before["availability"].Eligible + 310, before["availability"].Bad, before["availability"].Possible},
		"ttft":         {before["ttft"].Eligible + 310, before["ttft"].Bad, before["ttft"].Possible},
	}
	if d := cmp.Diff(want, tracker.View(at).Counts); d != "" {
		t.Errorf("all that is counted (-want +got):\n%s", d)
	}
	at = at.Add(2 * time.Hour)
	read("after hours all pages are bases", none, shows("a", at, born, 99380, 2, 1), shows("b", at, born, 99180, 9, 9))
}

// An endpoint that nobody but the exporter asks has no users, however the probes and the readings meet.
func TestProbesAreNoUsers(t *testing.T) {
	tracker := NewTracker(limits(time.Second, 0, 0))
	r := rand.New(rand.NewPCG(31, 2))
	asked := 0.0
	for i := range 5000 {
		at := start.Add(time.Duration(i) * 15 * time.Second)
		if reading := tracker.Read([]page.Status{shows("a", at, start, 1000+asked, 0, uint64(asked))}, nil); reading != nil {
			t.Fatalf("after %s: %+v", at.Sub(start), reading)
		}
		for range r.IntN(3) { // the page counts some before the exporter does, and others later
			tracker.Probed()
		}
		asked += float64(r.IntN(3))
	}
}

// What servers count while a load test of our own runs is of no users, and the count goes on after it.
func TestLoadTestIsNoUsers(t *testing.T) {
	tracker := NewTracker(limits(time.Second, 0, 0))
	at := start
	read := func(good float64, slow uint64) *Reading {
		at = at.Add(15 * time.Second)
		return tracker.Read([]page.Status{shows("a", at, start, good, 0, slow)}, nil)
	}
	read(100, 0)
	read(200, 0)
	tracker.SetAside(math.MaxInt)
	for range 1000 { // probes go on beside it, which must not hide the users afterwards
		tracker.Probed()
	}
	if r := read(5000, 4000); r != nil {
		t.Errorf("%+v during the load test", r)
	}
	tracker.SetAside(1)
	if r := read(6000, 5000); r != nil {
		t.Errorf("%+v of the end of the load test", r)
	}
	if r := read(6100, 5001); r == nil || r.Counts[series.TTFT] != (Count{100, 1, 1}) {
		t.Errorf("got %+v after the load test, want 100 requests of which one is late", r)
	}
	if got, want := tracker.View(at).Counts["ttft"], (Count{200, 1, 1}); got != want {
		t.Errorf("got %+v in all, want %+v", got, want)
	}
}

// The page of a gateway counts where it shows requests that came to no server, and latencies where the servers never do.
func TestGateway(t *testing.T) {
	tracker := NewTracker(limits(time.Second, 0, 0))
	at := start
	read := func(gateway []page.Status, servers ...page.Status) [series.NumObjectives]Count {
		r := tracker.Read(servers, gateway)
		at = at.Add(15 * time.Second)
		if r == nil {
			return counts()
		}
		return r.Counts
	}
	server := func(good float64) page.Status {
		s := shows("a", at, start, good, 0, 0)
		delete(s.Snapshot.Histograms, config.TTFT)
		return s
	}
	front := func(good, failed float64) []page.Status { return []page.Status{shows("a", at, start, good, failed, 0)} }
	read(front(1000, 0), server(1000))
	if d := cmp.Diff(counts(Count{120, 20, 20}, Count{100, 0, 0}), read(front(1100, 20), server(1100))); d != "" {
		t.Errorf("servers without TTFT (-want +got):\n%s", d)
	}
	read(front(1200, 20), shows("a", at, start, 1200, 0, 0)) // it appears
	if d := cmp.Diff(counts(Count{110, 10, 10}, Count{100, 50, 50}), read(front(1300, 30), shows("a", at, start, 1300, 0, 50))); d != "" {
		t.Errorf("servers with TTFT (-want +got):\n%s", d)
	}
	if d := cmp.Diff(counts(Count{100, 0, 0}), read(front(1400, 30))); d != "" {
		t.Errorf("while the server's page is away (-want +got):\n%s", d)
	}
}

// The percentiles lie between bounds of the histograms, and need as many requests as those of probes.
func TestWindow(t *testing.T) {
	tracker := NewTracker(limits(time.Second, 0, 0))
	histogram := func(at time.Time, counts ...uint64) page.Status {
		h := &page.Histogram{Bounds: []float64{0.1, 0.5, 2}, Counts: counts[:3], Count: counts[3]}
		return page.Status{Server: "a", Snapshot: &page.Snapshot{At: at, Histograms: map[config.Quantity]*page.Histogram{config.TTFT: h}}}
	}
	at := start
	if tracker.View(at) != nil {
		t.Error("something is known before the first page")
	}
	for _, tc := range []struct {
		page page.Status
		want Window
	}{
		{histogram(at, 0, 0, 0, 0), Window{}},
		{histogram(at, 4, 9, 9, 9), Window{Samples: 9, Seconds: map[string]float64{}}},
		{histogram(at, 5, 10, 10, 10), Window{Samples: 10, Seconds: map[string]float64{"p50_lower": 0, "p50_upper": 0.1}}},
		{histogram(at, 40, 90, 98, 99), Window{Samples: 99, Seconds: map[string]float64{"p50_lower": 0.1, "p50_upper": 0.5}}},
		{histogram(at, 40, 90, 99, 100), Window{Samples: 100, Seconds: map[string]float64{"p50_lower": 0.1, "p50_upper": 0.5, "p99_lower": 0.5, "p99_upper": 2}}},
		{histogram(at, 40, 90, 99, 110), Window{Samples: 110, Seconds: map[string]float64{"p50_lower": 0.1, "p50_upper": 0.5, "p99_lower": 2}}},
	} {
		tracker.Read([]page.Status{tc.page}, nil)
		if d := cmp.Diff(tc.want, tracker.View(at).TTFT); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	other := func(n uint64) page.Status {
		st := histogram(at, n, n, n, n)
		st.Server, st.Snapshot.Histograms[config.TTFT].Bounds = "b", []float64{0.2, 0.4, 3}
		return st
	}
	tracker.Read([]page.Status{histogram(at, 40, 90, 99, 110), other(0)}, nil)
	tracker.Read([]page.Status{histogram(at, 50, 100, 109, 120), other(50)}, nil)
	if v := tracker.View(at); v.TTFT.Samples != 110 || v.Counts["ttft"].Eligible != 170 {
		t.Errorf("with two kinds of bounds: %+v", v)
	}
	if w := tracker.View(at.Add(61 * time.Minute)).TTFT; w.Samples != 0 {
		t.Errorf("%+v an hour later", w)
	}
}

// Where requests are bad, a reading says what is different from the hour before.
func TestWhy(t *testing.T) {
	tracker := NewTracker(limits(time.Second, 0, 0))
	at := start
	good, failed, tokens := 1000.0, 10.0, 1e6
	read := func(more, errors, length float64, slow uint64) string {
		at = at.Add(15 * time.Second)
		good, failed, tokens = good+more, failed+errors, tokens+more*length
		st := shows("a", at, start, good, failed, slow)
		st.Snapshot.Values[config.PromptTokens] = tokens
		if r := tracker.Read([]page.Status{st}, nil); r != nil {
			return r.Why
		}
		return ""
	}
	for range 100 {
		if why := read(50, 1, 500, 0); why != "" && at.Sub(start) > time.Minute {
			t.Fatalf("as ever: %q", why)
		}
	}
	for _, tc := range []struct {
		errors, length float64
		slow           uint64
		want           string
	}{
		{12, 500, 0, "of 62 requests 12 ended with an error"},
		{0, 5000, 40, "prompts of 5000 tokens in the mean, 500 in the hour before"},
		{0, 500, 80, ""},
	} {
		if why := read(50, tc.errors, tc.length, tc.slow); why != tc.want {
			t.Errorf("%q, want %q", why, tc.want)
		}
	}
}
