package collector

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// epoch is when the tests' probes start.
var epoch = time.Unix(1_700_000_000, 0)

// success returns a success with every duration, in the shape that the prober
// gives it: counts that the server did not report are unknown.
func success() *result.Result {
	return &result.Result{
		Start: epoch, Outcome: result.Success, Status: 200, Kind: api.Generation, Model: "m", Clock: result.ClockKernel,
		Timing: result.Timing{
			TTFT: 200 * time.Millisecond, TTFO: 300 * time.Millisecond, TPOT: 20 * time.Millisecond, PerCharacter: 5 * time.Millisecond,
			MaxGap: 50 * time.Millisecond, Duration: time.Second,
			Phases: [result.NumPhases]time.Duration{result.PhaseTLS: result.Absent, result.PhaseDecode: 700 * time.Millisecond},
		},
		Tokens: result.Tokens{Prompt: 100, Cached: -1, Output: 36, Reasoning: -1, Source: result.TokensFromUsage}, Characters: 150,
		Server:    api.ServerTimes{Queue: -1, Prefill: -1, Decode: -1},
		RateLimit: api.RateLimit{Requests: -1, Tokens: -1},
	}
}

// embedded returns a success of an endpoint that embeds: 8 vectors of 3
// dimensions for 100 tokens, a second after 200 ms of connecting.
func embedded() *result.Result {
	r := success()
	r.Kind = api.Embedding
	r.Timing = result.Timing{
		TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, MaxGap: result.Absent, Duration: 1200 * time.Millisecond,
		Phases: [result.NumPhases]time.Duration{
			result.PhaseConnect: 200 * time.Millisecond, result.PhaseTLS: result.Absent, result.PhaseWrite: time.Millisecond,
			result.PhaseFirstByte: 990 * time.Millisecond, result.PhaseFirstToken: result.Absent, result.PhaseDecode: result.Absent,
			result.PhaseClose: 9 * time.Millisecond,
		},
	}
	r.Tokens = result.Tokens{Prompt: 100, Cached: -1, Output: -1, Reasoning: -1}
	r.Vectors = api.Vectors{Items: 8, Dimensions: 3, Norm: 1}
	return r
}

// An endpoint that embeds has no tokens that come one by one, and no series
// that would pretend so.
func TestVectors(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Kind: api.Embedding})
	s.Observe(embedded())
	got := samples(t, p)
	for name := range got {
		for _, absent := range []string{"ttft", "ttfo", "tpot", "chunk", "gap", "output", "token_source", "merged", "buffered", "decode", `"first_token"`} {
			if strings.Contains(name, absent) {
				t.Errorf("an endpoint that embeds has %s", name)
			}
		}
	}
	f := func(name, want string) {
		t.Helper()
		for full, v := range got {
			if strings.HasPrefix(full, namePrefix+name+"{") {
				if v != want {
					t.Errorf("%s = %s, want %s", full, v, want)
				}
				return
			}
		}
		t.Errorf("no %s", name)
	}
	f("probe_items_total", "8")
	f("probe_last_items_per_second", "8") // 8 texts in 1.2 s less 0.2 s of connecting
	f("probe_last_input_tokens_per_second", "100")
	f("probe_vector_dimensions", "3")
	f("probe_vector_norm", "1")
	f("probe_duration_seconds_count", "1")

	s.Observe(failure())
	for name := range samples(t, p) {
		if strings.Contains(name, "last_items") || strings.Contains(name, "vector_") {
			t.Errorf("%s after a failure", name)
		}
	}
}

// While nobody knows what an endpoint does, only what holds for all kinds is
// shown.
func TestUnknownKind(t *testing.T) {
	p := NewProbes(time.Now)
	p.Open(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, SeriesOptions{})
	got := samples(t, p)
	for name := range got {
		if strings.Contains(name, "ttft") || strings.Contains(name, "items") {
			t.Errorf("%s of an unknown kind", name)
		}
	}
	if len(got) == 0 {
		t.Error("nothing is shown")
	}
}

// failure returns a failure without a reply.
func failure() *result.Result {
	r := success()
	r.Outcome, r.Status, r.Start = result.ConnectError, 0, epoch.Add(time.Minute)
	r.Tokens = result.Tokens{Prompt: -1, Cached: -1, Output: -1, Reasoning: -1}
	r.Characters = 0
	return r
}

// samples reads a text page: a map of name and labels to the value.
func samples(t *testing.T, p Store) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for line := range strings.Lines(pageOf(t, p, expfmt.FmtText)) {
		if !strings.HasPrefix(line, "#") {
			i := strings.LastIndexByte(line, ' ')
			out[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return out
}

// pageOf returns the page of a store alone.
func pageOf(t *testing.T, p Store, format expfmt.Format) string {
	t.Helper()
	var b bytes.Buffer
	if err := NewExposition(prometheus.NewRegistry(), p).Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// decodeOne returns the only family that e has gathered.
func decodeOne(t *testing.T, e *protoEncoder) *dto.MetricFamily {
	t.Helper()
	var b bytes.Buffer
	e.w = &b
	e.end()
	return decode(t, &b)[0]
}

// named returns an endpoint by its name, and by its labels unless they are nil. It opens one that is not
// there; the page then describes none.
func (p *Probes) named(name string, labels map[string]string) *Endpoint {
	for e := range p.endpoints {
		if e.info.Endpoint == name && (labels == nil || maps.Equal(labels, e.info.Labels)) {
			return e
		}
	}
	p.infos = nil
	return p.OpenEndpoint(EndpointInfo{Endpoint: name, Labels: labels})
}

// Open returns the series of an endpoint by its name.
func (p *Probes) Open(id result.SeriesID, o SeriesOptions) *Series {
	return p.named(id.Endpoint, nil).Open(id, o)
}

// Observe adds a result that nobody judged.
func (s *Series) Observe(r *result.Result) { s.Add(&series.Observation{Result: r}) }

// newStore returns a store with a stopped clock, and one series.
func newStore() (*Probes, *Series) {
	p := NewProbes(func() time.Time { return epoch })
	return p, p.Open(result.SeriesID{Endpoint: "e", Module: "i", Prefix: "cold"}, SeriesOptions{})
}

// has checks samples of the series of newStore by family and own label. An
// empty value is an absent sample.
func has(t *testing.T, p *Probes, want map[string]string) {
	t.Helper()
	got := samples(t, p)
	for name, value := range want {
		family, own, _ := strings.Cut(name, " ")
		pairs := []string{`endpoint="e"`, `model="m"`, `module="i"`, `prefix="cold"`}
		if own != "" {
			pairs = append(pairs, own)
		}
		slices.Sort(pairs)
		key := namePrefix + family + "{" + strings.Join(pairs, ",") + "}"
		if got[key] != value {
			t.Errorf("%s = %q, want %q", key, got[key], value)
		}
	}
}

func TestSuccess(t *testing.T) {
	p, s := newStore()
	r := success()
	r.Events = []result.Event{
		{At: 0}, {At: 10 * time.Millisecond}, {At: 30 * time.Millisecond, Merged: true}, {At: 31 * time.Millisecond}, {At: 71 * time.Millisecond},
	}
	r.Server.Prefill = 150 * time.Millisecond
	r.RateLimit.Tokens = 7
	r.CertNotAfter = epoch.Add(time.Hour)
	r.Buffered, r.NoFinish, r.NoEndMarker = true, true, true
	s.Observe(r)
	has(t, p, map[string]string{
		"probe_success":                                  "1",
		"probe_last_run_timestamp_seconds":               "1.7e+09",
		"probe_last_success_timestamp_seconds":           "1.7e+09",
		`probe_results_total outcome="success"`:          "1",
		`probe_results_total outcome="empty"`:            "0",
		"probe_ttft_seconds_sum":                         "0.2",
		"probe_ttfo_seconds_sum":                         "0.3",
		"probe_tpot_seconds_sum":                         "0.02",
		"probe_max_gap_seconds_sum":                      "0.05",
		"probe_duration_seconds_sum":                     "1",
		"probe_duration_seconds_count":                   "1",
		"probe_inter_chunk_seconds_count":                "2", // the two gaps beside the merged event are left out
		"probe_inter_chunk_seconds_sum":                  "0.05",
		"probe_last_ttft_seconds":                        "0.2",
		"probe_last_tpot_seconds":                        "0.02",
		"probe_last_output_tokens_per_second":            "50",
		"probe_last_output_characters_per_second":        "200",
		"probe_output_characters_total":                  "150",
		`probe_phase_seconds_sum phase="decode"`:         "0.7",
		`probe_phase_seconds_count phase="tls"`:          "0",
		`probe_server_time_seconds_sum phase="prefill"`:  "0.15",
		`probe_server_time_seconds_sum phase="queue"`:    "",
		"probe_prompt_tokens_total":                      "100",
		"probe_cached_prompt_tokens_total":               "",
		`probe_output_tokens_total kind="answer"`:        "36",
		`probe_output_tokens_total kind="reasoning"`:     "",
		`probe_token_source_total source="usage"`:        "1",
		`probe_token_source_total source="events"`:       "0",
		"probe_merged_events_total":                      "1",
		"probe_imprecise_total":                          "0",
		"probe_disturbed_total":                          "0",
		"probe_confirmations_total":                      "0",
		"probe_buffered_total":                           "1",
		"probe_no_finish_reason_total":                   "1",
		"probe_no_end_marker_total":                      "1",
		"probe_more_events_than_tokens_total":            "0",
		"probe_max_tokens_ignored_total":                 "0",
		`probe_skipped_total reason="overrun"`:           "0",
		`probe_skipped_total reason="budget"`:            "0",
		`probe_skipped_total reason="context_length"`:    "0",
		`probe_rate_limit_remaining resource="tokens"`:   "7",
		`probe_rate_limit_remaining resource="requests"`: "",
		"probe_tls_cert_not_after_timestamp_seconds":     "1.7000036e+09",
	})
}

func TestTokens(t *testing.T) {
	p, s := newStore()
	r := success()
	r.Tokens = result.Tokens{Prompt: 100, Cached: 0, Output: 30, Reasoning: 20, Source: result.TokensFromUsage}
	s.Observe(r)
	r.Tokens = result.Tokens{Prompt: 50, Cached: 48, Output: 4, Reasoning: -1, Source: result.TokensFromEvents}
	r.Outcome = result.Truncated // tokens are spent whatever the outcome
	s.Observe(r)
	r.Tokens = result.Tokens{Prompt: 1, Cached: -1, Output: 2, Reasoning: 3, Source: result.TokensFromUsage}
	r.Outcome = result.Canceled
	s.Observe(r)
	has(t, p, map[string]string{
		"probe_prompt_tokens_total":                  "151",
		"probe_cached_prompt_tokens_total":           "48",
		`probe_output_tokens_total kind="answer"`:    "14",
		`probe_output_tokens_total kind="reasoning"`: "22", // never more than the output
		`probe_token_source_total source="usage"`:    "2",
		`probe_token_source_total source="events"`:   "1",
	})
}

func TestAbsence(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	has(t, p, map[string]string{
		"probe_success": "", "probe_last_run_timestamp_seconds": "0", "probe_last_success_timestamp_seconds": "0",
		"probe_last_ttft_seconds": "", "probe_tls_cert_not_after_timestamp_seconds": "",
		`probe_results_total outcome="timeout_total"`: "0", "probe_ttft_seconds_count": "0",
	})

	s.Observe(failure())
	has(t, p, map[string]string{
		"probe_success": "0", "probe_last_run_timestamp_seconds": "1.70000006e+09", "probe_last_success_timestamp_seconds": "0",
		"probe_ttft_seconds_count": "0", "probe_last_ttft_seconds": "", `probe_results_total outcome="connect_error"`: "1",
	})

	ok := success()
	ok.CertNotAfter = epoch
	ok.RateLimit.Requests = 3
	s.Observe(ok)
	s.Observe(failure())
	has(t, p, map[string]string{
		"probe_success": "0", "probe_last_success_timestamp_seconds": "1.7e+09",
		"probe_last_ttft_seconds": "", "probe_last_tpot_seconds": "", "probe_last_output_tokens_per_second": "",
		"probe_last_output_characters_per_second": "", "probe_output_characters_total": "150",
		"probe_ttft_seconds_count": "1", `probe_phase_seconds_count phase="decode"`: "1",
		"probe_tls_cert_not_after_timestamp_seconds":     "1.7e+09", // an outage does not hide the expiry
		`probe_rate_limit_remaining resource="requests"`: "",
	})

	plain := success()
	plain.Timing.TPOT, plain.Timing.PerCharacter = result.Absent, result.Absent
	s.Observe(plain)
	has(t, p, map[string]string{
		"probe_last_ttft_seconds": "0.2", "probe_last_tpot_seconds": "", "probe_last_output_tokens_per_second": "",
		"probe_tpot_seconds_count": "1", "probe_ttft_seconds_count": "2",
		"probe_tls_cert_not_after_timestamp_seconds": "",
	})
}

func TestCanceledChangesNothing(t *testing.T) {
	p, s := newStore()
	s.Observe(success())
	before := samples(t, p)
	r := failure()
	r.Outcome = result.Canceled
	s.Observe(r)
	after := samples(t, p)
	key := namePrefix + `probe_results_total{endpoint="e",model="m",module="i",outcome="canceled",prefix="cold"}`
	if after[key] != "1" {
		t.Errorf("%s = %q, want 1", key, after[key])
	}
	after[key] = before[key]
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("a canceled probe changed (-before +after):\n%s", d)
	}
}

func TestModel(t *testing.T) {
	now := epoch
	p := NewProbes(func() time.Time { return now })
	s := p.Open(result.SeriesID{Endpoint: "e", Module: "i", Prefix: "cold"}, SeriesOptions{})
	results := func(model string) string {
		if model != "" {
			model = `model="` + model + `",`
		}
		return namePrefix + `probe_results_total{endpoint="e",` + model + `module="i",outcome="connect_error",prefix="cold"}`
	}
	observe := func(model string) {
		r := failure()
		r.Model = model
		s.Observe(r)
	}
	f := func(model, want string) {
		t.Helper()
		got := samples(t, p)
		if got[results(model)] != want {
			t.Errorf("%s = %q, want %q", results(model), got[results(model)], want)
		}
		for key := range got {
			if model != "" && !strings.Contains(key, `model="`+model+`"`) {
				t.Errorf("%s has not the model %q", key, model)
			}
		}
	}
	observe("")
	f("", "1")
	observe("a") // the first name keeps the values
	f("a", "2")
	observe("") // not known this time: still the same model
	f("a", "3")
	now = now.Add(time.Hour)
	observe("b") // another model starts at zero
	f("b", "1")
	if got := s.created; !got.Equal(now) {
		t.Errorf("created = %v, want %v", got, now)
	}
	long := strings.Repeat("x", 127) + "é"
	observe(long)
	f(strings.Repeat("x", 127), "1")
	observe(long)
	f(strings.Repeat("x", 127), "2")
}

func TestSeriesIdentity(t *testing.T) {
	p := NewProbes(time.Now)
	a, b := p.named("e", map[string]string{"team": "a"}), p.named("e", map[string]string{"team": "b"})
	id := result.SeriesID{Endpoint: "e", Module: "i", Prefix: "cold"}
	other := result.SeriesID{Endpoint: "e", Module: "i", Prefix: "warm"}
	s := a.Open(id, SeriesOptions{})
	if a.Open(id, SeriesOptions{Interval: 15 * time.Second}) != s {
		t.Error("the same ID gave another series")
	}
	if page := pageOf(t, p, expfmt.FmtText); !strings.Contains(page, `inference_probe_interval_seconds{endpoint="e",module="i",prefix="cold",team="a"} 15`) {
		t.Errorf("the series has not its latest options:\n%s", page)
	}
	if a.Open(other, SeriesOptions{}) == s {
		t.Error("another ID gave the same series")
	}
	if b.Open(id, SeriesOptions{}) == s {
		t.Error("another endpoint gave the same series")
	}
	a.Close()
	page := pageOf(t, p, expfmt.FmtText)
	if strings.Contains(page, `team="a"`) || !strings.Contains(page, `team="b"`) {
		t.Error("the wrong series were removed")
	}
	b.Close()
	s.Observe(success()) // must not bring it back
	if page := pageOf(t, p, expfmt.FmtText); page != "" {
		t.Errorf("an empty store wrote %q", page)
	}
}

func TestEndpointInfo(t *testing.T) {
	p := NewProbes(time.Now)
	b := p.OpenEndpoint(EndpointInfo{Endpoint: "b", URL: "http://b"})
	a := p.OpenEndpoint(EndpointInfo{Endpoint: "a", URL: "http://a", API: "openai-chat", Labels: map[string]string{"team": "x", "url": "reserved"}})
	b.SetServed(&result.Result{Model: "m", API: "openai-chat"})
	const want = `# HELP inference_endpoint_info Always 1. Describes an endpoint: the model it serves, its API, its engine and its URL.
# TYPE inference_endpoint_info gauge
inference_endpoint_info{api="openai-chat",endpoint="a",team="x",url="http://a"} 1
inference_endpoint_info{api="openai-chat",endpoint="b",model="m",url="http://b"} 1
`
	if d := cmp.Diff(want, pageOf(t, p, expfmt.FmtText)); d != "" {
		t.Errorf("page (-want +got):\n%s", d)
	}
	a.Close()
	b.Close()
	if got := pageOf(t, p, expfmt.FmtText); got != "" {
		t.Errorf("page without endpoints = %q", got)
	}
}
