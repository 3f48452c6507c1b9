package collector

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober"
)

// found returns findings in the order of prober.Workloads; nil is none.
func found(model string, all ...workload.Finding) *workload.Findings {
	f := &workload.Findings{Model: model}
	for _, w := range prober.Workloads() {
		i := slices.IndexFunc(all, func(v workload.Finding) bool { return reflect.TypeOf(v) == reflect.TypeOf(w.Finding) })
		if i < 0 {
			f.All = append(f.All, nil)
		} else {
			f.All = append(f.All, all[i])
		}
	}
	return f
}

// completed returns everyFinding with findings of the workloads that have none there.
func completed(model string) *workload.Findings {
	f := everyFinding(model)
	for i, w := range prober.Workloads() {
		if f.All[i] == nil {
			f.All[i] = reflect.New(reflect.TypeOf(w.Finding).Elem()).Interface().(workload.Finding)
			fill(reflect.ValueOf(f.All[i]))
		}
	}
	return f
}

// fill sets all that v has, so that everything is known.
func fill(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case v.CanInt():
		v.SetInt(3)
	case v.CanUint():
		v.SetUint(3)
	case v.CanFloat():
		v.SetFloat(0.25)
	}
}

// everyFinding returns findings with everything known, of the workloads with values of their own here.
func everyFinding(model string) *workload.Findings {
	hits, logprob := 0.9375, -1.5
	similarity, order, distance := 0.75, 0.5, 0.25
	return found(model, &load.Finding{
		Prefill: &load.Prefill{
			TokensPerSecond: workload.Interval{Value: 8000, Lower: 7900, Upper: 8100},
			FixedSeconds:    workload.Interval{Value: 0.05, Lower: 0.04, Upper: 0.06},
		},
		HitRatio: &hits, Benefit: &workload.Interval{Value: 0.2, Lower: -0.1, Upper: 0.5}, ColdCached: 3, ColdReported: true,
		Likeness: &load.Likeness{Input: 0.0625, Output: 0.5, Requests: 4321, Seconds: 2400},
		Turns: []load.Turn{
			{Affinity: result.AffinityNone, Number: 1, TTFT: new(0.5)},
			{Affinity: result.AffinitySession, Number: 1, HitRatio: new(0.0), TTFT: new(0.4)},
			{Affinity: result.AffinitySession, Number: 2, HitRatio: new(0.75), TTFT: new(0.125), SameReplica: new(0.5)},
		},
	}, &load.BurstFinding{
		Knee:    &load.Burst{Concurrency: 8, TokensPerSecond: 512},
		MaxGood: &load.Burst{Concurrency: 4, TokensPerSecond: 350},
		Bursts: []load.Burst{
			{Concurrency: 1, TokensPerSecond: 100, StartSpread: 0},
			{Concurrency: 4, TokensPerSecond: 350, StartSpread: time.Millisecond},
			{Concurrency: 8, Failed: 8, StartSpread: -1},
		},
		Arrivals: &config.Arrivals{Process: config.ArrivalRecorded, Profile: config.Profile{0, time.Second, 8 * time.Second}},
	}, &drift.Finding{
		Changes:    map[drift.Source]uint64{drift.SourceAnswer: 5, drift.SourceModel: 7, drift.SourceLogprob: 1, drift.SourceEmbedding: 2, drift.SourceRerank: 3},
		Watched:    [8]bool{true, true, false, true, false, false, true, true},
		LastChange: [8]time.Time{epoch, {}, epoch, epoch.Add(time.Hour)},
		Logprob:    &logprob,
		Shift:      drift.Shift{Logprobs: new(0.125)},
		Drift:      &drift.Drift{Similarity: &similarity, Order: &order, Distance: &distance},
	}, &answers.Finding{Answers: 5000, Signs: [7]answers.Sign{
		{Count: 3, Usual: new(0.25)}, {Count: 2}, {Usual: new(0.0)}, {Usual: new(0.0)}, {Count: 4, Usual: new(0.0), Since: epoch, Seen: 2, Looked: 101}, {Usual: new(0.0)}, {Usual: new(0.0)},
	}}, loadTest())
}

// loadTest returns a finding whose levels of 4 and 8 users are complete, the first with all that can be known.
func loadTest() *loadtest.Finding {
	p99 := loadtest.Quantile{Value: 0.5, Lower: 0.375, Upper: 0.75}
	return &loadtest.Finding{
		At: epoch, End: loadtest.Slow, Kind: config.LoadUsers, Target: 8, Input: 704, Output: 64,
		Levels: []loadtest.Level{
			{
				Level: 4, Complete: true, Requests: 400, Failed: 1, Late: 2, InFlight: 3.5, Goodput: new(0.875), OutputTokensPerSecond: 640,
				OutputTokensPerSecondPerGPU: 320, USDPerMillionOutputTokens: 1.5, Verdict: loadtest.Met,
				TTFT: loadtest.Quantiles{P50: loadtest.Quantile{Value: 0.25, Lower: 0.125, Upper: 0.5}, P99: p99}, TPOT: loadtest.Quantiles{P99: p99},
			},
			{Level: 8, At: time.Unix(1_600_000_000, 0), Complete: true, Requests: 100, Verdict: loadtest.Missed},
		},
		MaxGood: &loadtest.Capacity{Level: 4, InFlight: 3.5, Confidence: 0.96875}, Knee: &loadtest.Capacity{Level: 8},
	}
}

// FindingsID is where findings are shown.
type FindingsID struct {
	Endpoint, Module string
	Labels           map[string]string
}

// OpenFindings returns the series of findings of an endpoint by its name and labels.
func (p *Probes) OpenFindings(id FindingsID) *FindingsSeries {
	return p.named(id.Endpoint, id.Labels).OpenFindings(id.Module)
}

// newFindings returns a store with findings of one series only.
func newFindings(f *workload.Findings) (*Probes, *FindingsSeries) {
	p := NewProbes(func() time.Time { return epoch })
	s := p.OpenFindings(FindingsID{Endpoint: "e", Module: "i"})
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
	p, _ := newFindings(found("m", everyFinding("m").All[:len(prober.Workloads())-1]...))
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
		`burst_max_good_concurrency{}`:                                           "4",
		`burst_max_good_tokens_per_second{}`:                                     "350",
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
		`identity_changes_total{,source="answer"}`:                               "5",
		`identity_changes_total{,source="system_fingerprint"}`:                   "0",
		`identity_changes_total{,source="logprob"}`:                              "1",
		`identity_changes_total{,source="embedding"}`:                            "2",
		`identity_changes_total{,source="rerank"}`:                               "3",
		`embedding_cosine_similarity{}`:                                          "0.75",
		`rerank_order_correlation{}`:                                             "0.5",
		`reference_distance_ratio{}`:                                             "0.25",
		`identity_last_change_timestamp_seconds{,source="answer"}`:               "1.7e+09",
		`identity_last_change_timestamp_seconds{,source="logprob"}`:              "1.7000036e+09",

		`integrity_answers_total{}`: "5000",
		`integrity_findings_total{endpoint="e",finding="foreign_script",model="m",module="i"}`:          "3",
		`integrity_findings_total{endpoint="e",finding="repetition",model="m",module="i"}`:              "2",
		`integrity_findings_total{endpoint="e",finding="repeated_token",model="m",module="i"}`:          "0",
		`integrity_findings_total{endpoint="e",finding="control_character",model="m",module="i"}`:       "0",
		`integrity_findings_total{endpoint="e",finding="special_token",model="m",module="i"}`:           "4",
		`integrity_findings_total{endpoint="e",finding="reasoning_tag",model="m",module="i"}`:           "0",
		`integrity_findings_total{endpoint="e",finding="no_finish_reason",model="m",module="i"}`:        "0",
		`integrity_usual_ratio{endpoint="e",finding="foreign_script",model="m",module="i"}`:             "0.25",
		`integrity_usual_ratio{endpoint="e",finding="repeated_token",model="m",module="i"}`:             "0",
		`integrity_usual_ratio{endpoint="e",finding="control_character",model="m",module="i"}`:          "0",
		`integrity_usual_ratio{endpoint="e",finding="special_token",model="m",module="i"}`:              "0",
		`integrity_usual_ratio{endpoint="e",finding="reasoning_tag",model="m",module="i"}`:              "0",
		`integrity_usual_ratio{endpoint="e",finding="no_finish_reason",model="m",module="i"}`:           "0",
		`integrity_raised{endpoint="e",finding="foreign_script",model="m",module="i"}`:                  "0",
		`integrity_raised{endpoint="e",finding="repeated_token",model="m",module="i"}`:                  "0",
		`integrity_raised{endpoint="e",finding="control_character",model="m",module="i"}`:               "0",
		`integrity_raised{endpoint="e",finding="special_token",model="m",module="i"}`:                   "1",
		`integrity_raised{endpoint="e",finding="reasoning_tag",model="m",module="i"}`:                   "0",
		`integrity_raised{endpoint="e",finding="no_finish_reason",model="m",module="i"}`:                "0",
		`integrity_raised_timestamp_seconds{endpoint="e",finding="special_token",model="m",module="i"}`: "1.7e+09",
	})
}

// A metric may have both the series of a finding and a label of its own.
func TestFindingsOfALoadTest(t *testing.T) {
	p, _ := newFindings(found("m", loadTest()))
	want := map[string]string{`load_end_timestamp_seconds{}`: "1.7e+09", `load_running{}`: "0"}
	for name, v := range map[string]string{"max_good": "4", "max_good_in_flight": "3.5", "max_good_confidence_ratio": "0.96875", "knee": "8", "target": "8", "target_missed": "1", "target_timestamp_seconds": "1.6e+09", "input_tokens": "704", "output_tokens": "64"} {
		want[fmt.Sprintf(`load_%s{endpoint="e",load="users",model="m",module="i"}`, name)] = v
	}
	for _, end := range loadtest.Ends() {
		want[fmt.Sprintf("load_end{end=%q,}", end)] = map[bool]string{true: "1", false: "0"}[end == loadtest.Slow]
	}
	level := func(level, own string, values map[string]string) {
		for name, v := range values {
			want[fmt.Sprintf(`load_%s{endpoint="e",level=%q,load="users",model="m",module="i"%s}`, name, level, own)] = v
		}
	}
	level("4", "", map[string]string{
		"requests": "400", "failed_requests": "1", "late_requests": "2", "in_flight": "3.5", "goodput_ratio": "0.875",
		"output_tokens_per_second": "640", "output_tokens_per_second_per_gpu": "320", "usd_per_million_output_tokens": "1.5",
	})
	level("8", "", map[string]string{"requests": "100", "failed_requests": "0", "late_requests": "0", "in_flight": "0"})
	level("4", `,stat="p50"`, map[string]string{"ttft_seconds": "0.25"})
	level("4", `,stat="p50_lower"`, map[string]string{"ttft_seconds": "0.125"})
	level("4", `,stat="p50_upper"`, map[string]string{"ttft_seconds": "0.5"})
	level("4", `,stat="p99"`, map[string]string{"ttft_seconds": "0.5", "tpot_seconds": "0.5"})
	level("4", `,stat="p99_lower"`, map[string]string{"ttft_seconds": "0.375", "tpot_seconds": "0.375"})
	level("4", `,stat="p99_upper"`, map[string]string{"ttft_seconds": "0.75", "tpot_seconds": "0.75"})
	wantSamples(t, findingsOf(t, p), want)

	undecided := loadTest()
	undecided.Levels[1].Verdict, undecided.MaxGood, undecided.Knee = loadtest.Undecided, nil, nil
	p, _ = newFindings(found("m", undecided))
	for name := range findingsOf(t, p) {
		if strings.HasPrefix(name, "load_max_good") || strings.HasPrefix(name, "load_knee") || strings.HasPrefix(name, "load_target_missed") {
			t.Errorf("%s of a target that is undecided", name)
		}
	}
}

// What is not known is not shown.
func TestFindingsAbsent(t *testing.T) {
	f := func(name string, findings *workload.Findings, want map[string]string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			p, _ := newFindings(findings)
			wantSamples(t, findingsOf(t, p), want)
		})
	}
	f("nothing", nil, nil)
	f("nothing yet", found("m"), nil)
	f("a cold reply that reports the cache", found("m", &load.Finding{ColdReported: true}), map[string]string{`cold_cached_total{}`: "0"})
	f("open bounds", found("m",
		&load.Finding{Benefit: &workload.Interval{Value: 1, Lower: math.Inf(-1), Upper: math.NaN()}},
		&load.BurstFinding{Knee: &load.Burst{Concurrency: 4}},
	), map[string]string{
		`prefix_benefit_seconds{,stat="estimate"}`: "1", `burst_knee_concurrency{}`: "4",
	})
	f("a shorter run than before", found("m", &load.BurstFinding{Bursts: []load.Burst{{Concurrency: 2, StartSpread: -1}}}), map[string]string{
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
	s := p.OpenFindings(FindingsID{Endpoint: "e", Module: "i", Labels: map[string]string{"team": "a", "concurrency": "reserved"}})
	f := func(model string, created time.Time) {
		t.Helper()
		s.Set(everyFinding(model))
		for name := range samples(t, p) {
			if got := strings.Contains(name, `model="`+model+`"`); got != (model != "") || strings.Contains(name, "reserved") {
				t.Errorf("labels of %s, want model %q", name, model)
			}
		}
		all := createdOf(t, p)
		if len(all) != 14 {
			t.Fatalf("%d counters, want 14", len(all))
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

func TestFindingsClose(t *testing.T) {
	p := NewProbes(time.Now)
	e, other := p.named("e", map[string]string{"team": "a"}), p.named("e", map[string]string{"team": "b"})
	s := e.OpenFindings("i")
	s.Set(everyFinding("m"))
	other.OpenFindings("i").Set(everyFinding("m"))
	e.Close()
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
// values. Only one has bursts, turns and a load test: client_golang sorts by the concurrency, the
// affinity and the end first.
func TestFindingsEqualClientGolang(t *testing.T) {
	p, registry := NewProbes(time.Now), prometheus.NewRegistry()
	for i, target := range targets(false) {
		f := everyFinding(target.model)
		if l, b := f.All[0].(*load.Finding), f.All[1].(*load.BurstFinding); i > 0 {
			l.Turns, b.Bursts, f.All[len(f.All)-1] = nil, nil, nil
			l.ColdCached, l.Prefill.FixedSeconds.Lower = uint64(i), -float64(i)
		}
		p.OpenFindings(target.findings()).Set(f)
		for w, all := range prober.Workloads() {
			for _, m := range all.Metrics() {
				register(registry, target, m, f.All[w])
			}
		}
	}
	compare(t, p, registry)
}

// register adds the samples of a finding to client_golang's vector of a metric.
func register(reg *prometheus.Registry, t target, m workload.Metric, found workload.Finding) {
	labels := []string{"endpoint", "model", "module", "a_zone", "team"}
	values := []string{t.Endpoint, t.model, t.Module, t.Labels["a_zone"], t.Labels["team"]}
	if found == nil {
		return
	}
	add := func(i int, names, own []string) {
		v := m.Value(found, i)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		names, own = append(slices.Clone(labels), names...), append(slices.Clone(values), own...)
		if strings.HasSuffix(m.Name, "_total") {
			registered(reg, prometheus.NewCounterVec(prometheus.CounterOpts(describedOpts("probe_"+m.Name)), names)).WithLabelValues(own...).Add(v)
		} else {
			registered(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts(describedOpts("probe_"+m.Name)), names)).WithLabelValues(own...).Set(v)
		}
	}
	names, series := m.Each, [][]workload.Label{nil}
	if m.Each != nil {
		series = found.(workload.Several).Series()
	}
	for i, of := range series {
		var own []string
		for _, l := range of {
			own = append(own, l.Value)
		}
		if m.Label == "" {
			add(i, names, own)
			continue
		}
		for j, v := range m.Values {
			add(i*len(m.Values)+j, append(slices.Clone(names), m.Label), append(slices.Clone(own), v))
		}
	}
}

// registered returns the vector of a family that has the labels.
func registered[V prometheus.Collector](reg *prometheus.Registry, v V) V {
	if err := reg.Register(v); err != nil {
		return err.(prometheus.AlreadyRegisteredError).ExistingCollector.(V)
	}
	return v
}
