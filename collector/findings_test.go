package collector

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// everyFinding returns findings with everything known.
func everyFinding(model string) *estimate.Findings {
	hits, logprob := 0.9375, -1.5
	similarity, order, distance := 0.75, 0.5, 0.25
	return &estimate.Findings{
		Model: model,
		Prefill: &estimate.Prefill{
			TokensPerSecond: estimate.Interval{Value: 8000, Lower: 7900, Upper: 8100},
			FixedSeconds:    estimate.Interval{Value: 0.05, Lower: 0.04, Upper: 0.06},
		},
		HitRatio: &hits, Benefit: &estimate.Interval{Value: 0.2, Lower: -0.1, Upper: 0.5}, ColdCached: 3, ColdTold: true,
		Knee:    &estimate.Knee{Concurrency: 8, TokensPerSecond: 512},
		Carried: &estimate.Carried{Concurrency: 4, TokensPerSecond: 350},
		Changes: [8]uint64{5, 0, 7, 1, 0, 0, 2, 3}, Watched: [8]bool{true, true, false, true, false, false, true, true},
		LastChange: [8]time.Time{epoch, {}, epoch, epoch.Add(time.Hour)},
		Logprob:    &logprob,
		Likeness:   &estimate.Likeness{Input: 0.0625, Output: 0.5, Requests: 4321, Span: 40 * time.Minute},
		Turns: []estimate.Turn{
			{Affinity: result.AffinityNone, Number: 1, TTFT: new(0.5)},
			{Affinity: result.AffinitySession, Number: 1, HitRatio: new(0.0), TTFT: new(0.4)},
			{Affinity: result.AffinitySession, Number: 2, HitRatio: new(0.75), TTFT: new(0.125), SameReplica: new(0.5)},
		},
		Shift: &estimate.Shift{Scored: true, Value: 0.125},
		Drift: &estimate.Drift{Similarity: &similarity, Order: &order, Distance: &distance},
		Bursts: []estimate.Burst{
			{Concurrency: 1, TokensPerSecond: 100, StartSpread: 0},
			{Concurrency: 4, TokensPerSecond: 350, StartSpread: time.Millisecond},
			{Concurrency: 8, Failed: 8, StartSpread: -1},
		},
		Arrivals: &config.Arrivals{Process: config.ArrivalRecorded, Profile: config.Profile{0, time.Second, 8 * time.Second}},
		Integrity: &estimate.Integrity{Answers: 5000, Signs: [6]estimate.Sign{
			{Count: 3, Usual: 0.25}, {Count: 2, Usual: -1}, {}, {Count: 4, Since: epoch, Seen: 2, Looked: 101},
		}},
	}
}

// newFindings returns a store with findings of one series only.
func newFindings(f *estimate.Findings) (*Probes, *FindingsSeries) {
	p := NewProbes(func() time.Time { return epoch })
	s := p.Findings(FindingsID{Endpoint: "e", Module: "i"})
	s.Set(f)
	return p, s
}

// findingsOf returns the samples of a store without what they have in common.
func findingsOf(t *testing.T, p *Probes) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, v := range samples(t, p) {
		name = strings.TrimPrefix(name, "inference_probe_")
		out[strings.Replace(name, `endpoint="e",model="m",module="i"`, "", 1)] = v
	}
	return out
}

func TestFindings(t *testing.T) {
	p, _ := newFindings(everyFinding("m"))
	wantSamples(t, findingsOf(t, p), map[string]string{
		`first_token_logprob_shift{}`:                                            "0.125",
		`prefill_tokens_per_second{,stat="estimate"}`:                            "8000",
		`prefill_tokens_per_second{,stat="lower"}`:                               "7900",
		`prefill_tokens_per_second{,stat="upper"}`:                               "8100",
		`ttft_fixed_seconds{,stat="estimate"}`:                                   "0.05",
		`ttft_fixed_seconds{,stat="lower"}`:                                      "0.04",
		`ttft_fixed_seconds{,stat="upper"}`:                                      "0.06",
		`prefix_cache_hit_ratio{}`:                                               "0.9375",
		`prefix_benefit_seconds{,stat="estimate"}`:                               "0.2",
		`prefix_benefit_seconds{,stat="lower"}`:                                  "-0.1",
		`prefix_benefit_seconds{,stat="upper"}`:                                  "0.5",
		`cold_cached_total{}`:                                                    "3",
		`burst_failed{concurrency="1",}`:                                         "0",
		`burst_failed{concurrency="4",}`:                                         "0",
		`burst_failed{concurrency="8",}`:                                         "8",
		`burst_output_tokens_per_second{concurrency="1",}`:                       "100",
		`burst_output_tokens_per_second{concurrency="4",}`:                       "350",
		`burst_start_spread_seconds{concurrency="1",}`:                           "0",
		`burst_start_spread_seconds{concurrency="4",}`:                           "0.001",
		`burst_knee_concurrency{}`:                                               "8",
		`burst_knee_tokens_per_second{}`:                                         "512",
		`burst_carried_concurrency{}`:                                            "4",
		`burst_carried_tokens_per_second{}`:                                      "350",
		`arrivals_per_second{endpoint="e",kind="recorded",model="m",module="i"}`: "0.25",
		`turn_prefix_cache_hit_ratio{affinity="session",,turn="1"}`:              "0",
		`turn_prefix_cache_hit_ratio{affinity="session",,turn="2"}`:              "0.75",
		`turn_ttft_seconds{affinity="session",,turn="1"}`:                        "0.4",
		`turn_ttft_seconds{affinity="session",,turn="2"}`:                        "0.125",
		`turn_ttft_seconds{affinity="none",,turn="1"}`:                           "0.5",
		`turn_same_replica_ratio{affinity="session",,turn="2"}`:                  "0.5",
		`traffic_input_distance_ratio{}`:                                         "0.0625",
		`traffic_output_distance_ratio{}`:                                        "0.5",
		`traffic_requests{}`:                                                     "4321",
		`traffic_window_seconds{}`:                                               "2400",
		`reference_logprob{}`:                                                    "-1.5",
		`fingerprint_changes_total{,source="answer"}`:                            "5",
		`fingerprint_changes_total{,source="system_fingerprint"}`:                "0",
		`fingerprint_changes_total{,source="logprob"}`:                           "1",
		`fingerprint_changes_total{,source="embedding"}`:                         "2",
		`fingerprint_changes_total{,source="rerank"}`:                            "3",
		`embedding_cosine_similarity{}`:                                          "0.75",
		`rerank_order_correlation{}`:                                             "0.5",
		`reference_distance_ratio{}`:                                             "0.25",
		`fingerprint_last_change_timestamp_seconds{,source="answer"}`:            "1.7e+09",
		`fingerprint_last_change_timestamp_seconds{,source="logprob"}`:           "1.7000036e+09",

		`integrity_answers_total{}`: "5000",
		`integrity_findings_total{endpoint="e",finding="foreign_script",model="m",module="i"}`:          "3",
		`integrity_findings_total{endpoint="e",finding="repetition",model="m",module="i"}`:              "2",
		`integrity_findings_total{endpoint="e",finding="control_character",model="m",module="i"}`:       "0",
		`integrity_findings_total{endpoint="e",finding="special_token",model="m",module="i"}`:           "4",
		`integrity_findings_total{endpoint="e",finding="reasoning_tag",model="m",module="i"}`:           "0",
		`integrity_findings_total{endpoint="e",finding="no_finish_reason",model="m",module="i"}`:        "0",
		`integrity_usual_ratio{endpoint="e",finding="foreign_script",model="m",module="i"}`:             "0.25",
		`integrity_usual_ratio{endpoint="e",finding="control_character",model="m",module="i"}`:          "0",
		`integrity_usual_ratio{endpoint="e",finding="special_token",model="m",module="i"}`:              "0",
		`integrity_usual_ratio{endpoint="e",finding="reasoning_tag",model="m",module="i"}`:              "0",
		`integrity_usual_ratio{endpoint="e",finding="no_finish_reason",model="m",module="i"}`:           "0",
		`integrity_raised{endpoint="e",finding="foreign_script",model="m",module="i"}`:                  "0",
		`integrity_raised{endpoint="e",finding="control_character",model="m",module="i"}`:               "0",
		`integrity_raised{endpoint="e",finding="special_token",model="m",module="i"}`:                   "1",
		`integrity_raised{endpoint="e",finding="reasoning_tag",model="m",module="i"}`:                   "0",
		`integrity_raised{endpoint="e",finding="no_finish_reason",model="m",module="i"}`:                "0",
		`integrity_raised_timestamp_seconds{endpoint="e",finding="special_token",model="m",module="i"}`: "1.7e+09",
	})
}

// What is not known is not shown.
func TestFindingsAbsent(t *testing.T) {
	f := func(name string, findings *estimate.Findings, want map[string]string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			p, _ := newFindings(findings)
			wantSamples(t, findingsOf(t, p), want)
		})
	}
	f("nothing", nil, nil)
	f("nothing yet", &estimate.Findings{Model: "m"}, nil)
	f("a cold reply that reports the cache", &estimate.Findings{Model: "m", ColdTold: true}, map[string]string{`cold_cached_total{}`: "0"})
	f("open bounds", &estimate.Findings{
		Model: "m", Benefit: &estimate.Interval{Value: 1, Lower: math.Inf(-1), Upper: math.NaN()},
		Knee: &estimate.Knee{Concurrency: 4},
	}, map[string]string{
		`prefix_benefit_seconds{,stat="estimate"}`: "1", `burst_knee_concurrency{}`: "4",
	})
	f("a shorter run than before", &estimate.Findings{Model: "m", Bursts: []estimate.Burst{{Concurrency: 2, StartSpread: -1}}}, map[string]string{
		`burst_failed{concurrency="2",}`: "0",
	})
}

// createdOf returns the created timestamps of the counters of a store.
func createdOf(t *testing.T, p *Probes) []time.Time {
	t.Helper()
	var out []time.Time
	for _, f := range decode(t, strings.NewReader(pageOf(t, p, expfmt.FmtProtoDelim))) {
		for _, m := range f.Metric {
			if m.Counter != nil {
				out = append(out, m.Counter.GetCreatedTimestamp().AsTime())
			}
		}
	}
	return out
}

// Another model starts again; what becomes known first does not.
func TestFindingsOfModels(t *testing.T) {
	now := epoch
	p := NewProbes(func() time.Time { return now })
	s := p.Findings(FindingsID{Endpoint: "e", Module: "i", Labels: map[string]string{"team": "a", "concurrency": "reserved"}})
	f := func(model string, created time.Time) {
		t.Helper()
		s.Set(everyFinding(model))
		for name := range samples(t, p) {
			if got := strings.Contains(name, `model="`+model+`"`); got != (model != "") || strings.Contains(name, "reserved") {
				t.Errorf("labels of %s, want model %q", name, model)
			}
		}
		all := createdOf(t, p)
		if len(all) != 13 {
			t.Fatalf("%d counters, want 13", len(all))
		}
		for _, got := range all {
			if !got.Equal(created) {
				t.Errorf("created %v, want %v", got, created)
			}
		}
		now = now.Add(time.Hour)
	}
	f("", epoch)
	f("a", epoch)
	f("a", epoch)
	f("b", epoch.Add(3*time.Hour))
	f("b", epoch.Add(3*time.Hour))
	s.Set(nil)
	if page := pageOf(t, p, expfmt.FmtText); page != "" {
		t.Errorf("without findings the page is %q", page)
	}
	f("b", epoch.Add(5*time.Hour))
}

func TestFindingsIdentity(t *testing.T) {
	p := NewProbes(time.Now)
	id := FindingsID{Endpoint: "e", Module: "i", Labels: map[string]string{"team": "a"}}
	other := FindingsID{Endpoint: "e", Module: "i", Labels: map[string]string{"team": "b"}}
	s := p.Findings(id)
	if p.Findings(id) != s {
		t.Error("the same ID gave another series")
	}
	if p.Findings(other) == s {
		t.Error("other labels gave the same series")
	}
	s.Set(everyFinding("m"))
	p.Findings(other).Set(everyFinding("m"))
	p.RemoveFindings(id)
	page := pageOf(t, p, expfmt.FmtText)
	if strings.Contains(page, `team="a"`) || !strings.Contains(page, `team="b"`) {
		t.Error("the wrong series was removed")
	}
	s.Set(everyFinding("n")) // must not come back
	if strings.Contains(pageOf(t, p, expfmt.FmtText), `team="a"`) {
		t.Error("a removed series came back")
	}
}

// Findings are set while pages are written.
func TestFindingsWhileScraped(t *testing.T) {
	p, s := newFindings(nil)
	var set sync.WaitGroup
	set.Go(func() {
		for i := range 100 {
			s.Set(everyFinding([]string{"a", "b"}[i%2]))
			s.Set(nil)
		}
		s.Set(everyFinding("m"))
	})
	for range 20 {
		pageOf(t, p, expfmt.FmtText)
	}
	set.Wait()
	if got := findingsOf(t, p)["cold_cached_total{}"]; got != "3" {
		t.Errorf("cold_cached_total = %q, want 3", got)
	}
}

// The families of several endpoints are what client_golang makes of the same
// values. Only one has bursts and turns: client_golang sorts by the concurrency and the
// affinity first.
func TestFindingsEqualClientGolang(t *testing.T) {
	p, ref := NewProbes(time.Now), newFindingsReference()
	for i, target := range targets(false) {
		f := everyFinding(target.model)
		if i > 0 {
			f.Bursts, f.Turns = nil, nil
		}
		f.ColdCached, f.Prefill.FixedSeconds.Lower = uint64(i), -float64(i)
		p.Findings(target.findings()).Set(f)
		ref.set(target, f)
	}
	compare(t, p, ref.registry)
}

// findingsReference keeps findings in client_golang's vectors.
type findingsReference struct{ registry *prometheus.Registry }

func newFindingsReference() *findingsReference {
	return &findingsReference{prometheus.NewRegistry()}
}

// registered returns the vector of a family that has the labels.
func registered[V prometheus.Collector](reg *prometheus.Registry, v V) V {
	if err := reg.Register(v); err != nil {
		return err.(prometheus.AlreadyRegisteredError).ExistingCollector.(V)
	}
	return v
}

func (ref *findingsReference) set(t target, f *estimate.Findings) {
	names := func(own []string) []string {
		return append([]string{"endpoint", "model", "module", "a_zone", "team"}, own...)
	}
	values := func(own []string) []string {
		return append([]string{t.Endpoint, t.model, t.Module, t.Labels["a_zone"], t.Labels["team"]}, own...)
	}
	gauge := func(name string, v float64, own ...string) {
		var label []string
		if len(own) > 0 {
			label = own[:1]
		}
		vec := registered(ref.registry, prometheus.NewGaugeVec(prometheus.GaugeOpts(describedOpts(name)), names(label)))
		vec.WithLabelValues(values(own[len(label):])...).Set(v)
	}
	counter := func(name string, n uint64, own ...string) {
		var label []string
		if len(own) > 0 {
			label = own[:1]
		}
		vec := registered(ref.registry, prometheus.NewCounterVec(prometheus.CounterOpts(describedOpts(name)), names(label)))
		vec.WithLabelValues(values(own[len(label):])...).Add(float64(n))
	}
	interval := func(name string, i estimate.Interval) {
		gauge(name, i.Value, "stat", "estimate")
		gauge(name, i.Lower, "stat", "lower")
		gauge(name, i.Upper, "stat", "upper")
	}
	interval("probe_prefill_tokens_per_second", f.Prefill.TokensPerSecond)
	interval("probe_ttft_fixed_seconds", f.Prefill.FixedSeconds)
	interval("probe_prefix_benefit_seconds", *f.Benefit)
	gauge("probe_prefix_cache_hit_ratio", *f.HitRatio)
	gauge("probe_reference_logprob", *f.Logprob)
	turn := func(name string, v float64, affinity, number string) {
		vec := registered(ref.registry, prometheus.NewGaugeVec(prometheus.GaugeOpts(describedOpts("probe_turn_"+name)), names([]string{"affinity", "turn"})))
		vec.WithLabelValues(values([]string{affinity, number})...).Set(v)
	}
	gauge("probe_first_token_logprob_shift", 0.125)
	gauge("probe_traffic_input_distance_ratio", 0.0625)
	gauge("probe_traffic_output_distance_ratio", 0.5)
	gauge("probe_traffic_requests", 4321)
	gauge("probe_traffic_window_seconds", 2400)
	gauge("probe_burst_knee_concurrency", 8)
	gauge("probe_burst_knee_tokens_per_second", 512)
	gauge("probe_burst_carried_concurrency", 4)
	gauge("probe_burst_carried_tokens_per_second", 350)
	gauge("probe_arrivals_per_second", 0.25, "kind", "recorded")
	if f.ColdTold {
		counter("probe_cold_cached_total", f.ColdCached)
	}
	counter("probe_fingerprint_changes_total", 5, "source", "answer")
	counter("probe_fingerprint_changes_total", 0, "source", "system_fingerprint")
	counter("probe_fingerprint_changes_total", 1, "source", "logprob")
	counter("probe_fingerprint_changes_total", 2, "source", "embedding")
	counter("probe_fingerprint_changes_total", 3, "source", "rerank")
	gauge("probe_embedding_cosine_similarity", *f.Drift.Similarity)
	gauge("probe_rerank_order_correlation", *f.Drift.Order)
	gauge("probe_reference_distance_ratio", *f.Drift.Distance)
	gauge("probe_fingerprint_last_change_timestamp_seconds", 1.7e9, "source", "answer")
	gauge("probe_fingerprint_last_change_timestamp_seconds", 1.7e9+3600, "source", "logprob")
	counter("probe_integrity_answers_total", 5000)
	for i, finding := range result.Signs() {
		counter("probe_integrity_findings_total", []uint64{3, 2, 0, 4, 0, 0}[i], "finding", string(finding))
		if finding != result.SignRepetition {
			gauge("probe_integrity_usual_ratio", []float64{0.25, -1, 0, 0, 0, 0}[i], "finding", string(finding))
			gauge("probe_integrity_raised", []float64{0, -1, 0, 1, 0, 0}[i], "finding", string(finding))
		}
	}
	gauge("probe_integrity_raised_timestamp_seconds", 1.7e9, "finding", "special_token")
	if f.Bursts == nil {
		return
	}
	turn("ttft_seconds", 0.5, "none", "1")
	turn("ttft_seconds", 0.4, "session", "1")
	turn("ttft_seconds", 0.125, "session", "2")
	turn("prefix_cache_hit_ratio", 0, "session", "1")
	turn("prefix_cache_hit_ratio", 0.75, "session", "2")
	turn("same_replica_ratio", 0.5, "session", "2")
	for i, own := range []string{"1", "4", "8"} {
		gauge("probe_burst_failed", []float64{0, 0, 8}[i], "concurrency", own)
		if i < 2 {
			gauge("probe_burst_output_tokens_per_second", []float64{100, 350}[i], "concurrency", own)
			gauge("probe_burst_start_spread_seconds", []float64{0, 0.001}[i], "concurrency", own)
		}
	}
}
