package collector

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// verdicts checks the counters of the series of newStore: correct, wrong,
// wrong_format, refused and repetition. An empty value is an absent sample.
func verdicts(t *testing.T, p *Probes, want ...string) {
	t.Helper()
	all := map[string]string{}
	for i, v := range []string{"correct", "wrong", "wrong_format", "refused", "repetition"} {
		all[`probe_checks_total verdict="`+v+`"`] = want[i]
	}
	has(t, p, all)
}

// Verdicts count whatever the outcome, from the start with the value 0, and only
// where answers are checked.
func TestChecks(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	answer := func(o result.Outcome, v result.Verdict) {
		r := success()
		r.Outcome, r.Answer.Verdict = o, v
		s.Observe(r)
	}
	answer(result.Success, result.VerdictCorrect)
	verdicts(t, p, "", "", "", "", "")
	s.configure(SeriesOptions{Verdicts: result.AnswerVerdicts()})
	verdicts(t, p, "0", "0", "0", "0", "0")
	answer(result.Success, result.VerdictCorrect)
	answer(result.Success, result.VerdictCorrect)
	answer(result.Success, result.VerdictWrong) // a question
	answer(result.CheckFailed, result.VerdictWrong)
	answer(result.CheckFailed, result.VerdictWrongFormat)
	answer(result.Success, result.VerdictRefused)
	answer(result.Truncated, result.VerdictRepetition)
	answer(result.ConnectError, "")
	answer(result.Success, "no such verdict")
	answer(result.Canceled, result.VerdictCorrect)
	s.configure(SeriesOptions{Verdicts: result.AnswerVerdicts()}) // changes nothing
	verdicts(t, p, "2", "2", "1", "1", "1")

	r := success()
	r.Model = "other"
	s.Observe(r)
	r.Model = "m"
	s.Observe(r)
	verdicts(t, p, "0", "0", "0", "0", "0")
	s.configure(SeriesOptions{})
	verdicts(t, p, "", "", "", "", "")
}

// A module has counters of the verdicts that its answers may have, and the times of
// valid calls where it asks for calls.
func TestCallsOfTools(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	hasCalls := func(counts map[result.Verdict]string, timed, first, complete string) {
		t.Helper()
		want := map[string]string{
			"probe_first_argument_seconds_count": timed, "probe_first_argument_seconds_sum": first,
			"probe_complete_call_seconds_count": timed, "probe_complete_call_seconds_sum": complete,
		}
		for _, v := range result.Verdicts() {
			want[`probe_checks_total verdict="`+string(v)+`"`] = counts[v]
		}
		has(t, p, want)
	}
	hasCalls(nil, "", "", "")
	s.configure(SeriesOptions{Verdicts: result.ToolCallVerdicts(), Calls: true})
	hasCalls(map[result.Verdict]string{
		result.VerdictValid: "0", result.VerdictBadJSON: "0", result.VerdictBadSchema: "0", result.VerdictWrongTool: "0", result.VerdictNoCall: "0", result.VerdictLeakedIntoContent: "0", result.VerdictTruncated: "0",
	}, "0", "0", "0")
	call := func(o result.Outcome, v result.Verdict, imprecise bool, first, complete time.Duration) {
		r := success()
		r.Outcome, r.Answer.Verdict, r.Imprecise, r.Call = o, v, imprecise, result.Call{FirstArgument: first, Complete: complete}
		s.Observe(r)
	}
	call(result.Success, result.VerdictValid, false, 250*time.Millisecond, 500*time.Millisecond)
	call(result.Success, result.VerdictValid, false, 500*time.Millisecond, time.Second)
	call(result.Success, result.VerdictLeakedIntoContent, false, 0, 0)
	call(result.TimeoutStall, "", false, 0, 0)
	call(result.Success, result.VerdictValid, true, time.Second, time.Second) // is counted, not timed
	s.configure(SeriesOptions{Verdicts: result.ToolCallVerdicts(), Calls: true})
	hasCalls(map[result.Verdict]string{
		result.VerdictValid: "3", result.VerdictBadJSON: "0", result.VerdictBadSchema: "0", result.VerdictWrongTool: "0", result.VerdictNoCall: "0", result.VerdictLeakedIntoContent: "1", result.VerdictTruncated: "0",
	}, "2", "0.75", "1.5")

	s.configure(SeriesOptions{Verdicts: result.StructuredVerdicts()})
	hasCalls(map[result.Verdict]string{result.VerdictValid: "3", result.VerdictBadJSON: "0", result.VerdictBadSchema: "0", result.VerdictTruncated: "0"}, "", "", "")
}

// reference keeps the same metrics in client_golang's vectors, in the plainest
// way there is.
type reference struct {
	*prometheus.Registry
	info, interval, timeout, success, lastRun, lastSuccess, lastTTFT, lastTPOT, lastSpeed, cert, quota *prometheus.GaugeVec
	results, skipped, prompt, cached, output, source, merged, imprecise, buffered, noEnd               *prometheus.CounterVec
	ttft, ttfo, tpot, gap, maxGap, duration                                                            *prometheus.HistogramVec
	phase, server                                                                                      *prometheus.SummaryVec
	eligible, bad, checks, cost                                                                        *prometheus.CounterVec
	threshold, objective, window, windowSamples                                                        *prometheus.GaugeVec
	configured                                                                                         *prometheus.GaugeVec
	disturbed, confirmations, noFinish, moreEvents, capIgnored                                         *prometheus.CounterVec
	ttfts                                                                                              map[string][]referenceSample // by endpoint
}

// newReference returns a reference for series with the labels of t.
func newReference(t target) *reference {
	described := make(map[string]Family)
	for _, f := range Catalogue() {
		described[f.Name] = f
	}
	reg := prometheus.NewRegistry()
	configured := []string{"a_zone", "team"}
	with := func(own []string) []string { return append(t.names(), own...) }
	opts := func(name string) prometheus.Opts {
		f := described["inference_"+name]
		return prometheus.Opts{Namespace: "inference", Name: name, Help: f.Help, Unit: f.Unit}
	}
	gauge := func(name string, own ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(name)), with(own))
		reg.MustRegister(v)
		return v
	}
	counter := func(name string, own ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts(opts(name)), with(own))
		reg.MustRegister(v)
		return v
	}
	summary := func(name string, own ...string) *prometheus.SummaryVec {
		o := opts(name)
		v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Namespace: o.Namespace, Name: o.Name, Help: o.Help, Unit: o.Unit}, with(own))
		reg.MustRegister(v)
		return v
	}
	histogram := func(name string, bounds []float64) *prometheus.HistogramVec {
		o := opts(name)
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: o.Namespace, Name: o.Name, Help: o.Help, Unit: o.Unit, Buckets: bounds,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMaxExemplars: -1,
		}, with(nil))
		reg.MustRegister(v)
		return v
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("endpoint_info")), append([]string{"endpoint", "model", "api", "engine", "url"}, configured...))
	reg.MustRegister(info)
	return &reference{
		Registry: reg, info: info,
		interval: gauge("probe_interval_seconds"), timeout: gauge("probe_timeout_seconds"),
		configured: gauge("probe_configured_timestamp_seconds"),
		success:    gauge("probe_success"), lastRun: gauge("probe_last_run_timestamp_seconds"),
		lastSuccess: gauge("probe_last_success_timestamp_seconds"), lastTTFT: gauge("probe_last_ttft_seconds"),
		lastTPOT: gauge("probe_last_tpot_seconds"), lastSpeed: gauge("probe_last_output_tokens_per_second"),
		cert: gauge("probe_tls_cert_not_after_timestamp_seconds"), quota: gauge("probe_rate_limit_remaining", "resource"),
		results: counter("probe_results_total", "outcome"), skipped: counter("probe_skipped_total", "reason"),
		prompt: counter("probe_prompt_tokens_total"), cached: counter("probe_cached_prompt_tokens_total"),
		output: counter("probe_output_tokens_total", "kind"), source: counter("probe_token_source_total", "source"),
		merged: counter("probe_merged_events_total"), imprecise: counter("probe_imprecise_total"), buffered: counter("probe_buffered_total"),
		noEnd: counter("probe_no_end_marker_total"), disturbed: counter("probe_disturbed_total"), confirmations: counter("probe_confirmations_total"),
		noFinish: counter("probe_no_finish_reason_total"), moreEvents: counter("probe_more_events_than_tokens_total"),
		capIgnored: counter("probe_max_tokens_ignored_total"),
		ttft:       histogram("probe_ttft_seconds", ttftBounds), ttfo: histogram("probe_ttfo_seconds", ttftBounds),
		tpot: histogram("probe_tpot_seconds", tpotBounds), gap: histogram("probe_inter_chunk_seconds", gapBounds),
		maxGap: histogram("probe_max_gap_seconds", gapBounds), duration: histogram("probe_duration_seconds", durationBounds),
		phase: summary("probe_phase_seconds", "phase"), server: summary("probe_server_time_seconds", "phase"),
		checks: counter("probe_checks_total", "verdict"), cost: counter("probe_cost_usd_total", "kind"),
		eligible: counter("probe_slo_eligible_total", "slo"), bad: counter("probe_slo_bad_total", "slo"),
		threshold: gauge("slo_threshold_seconds", "slo"), objective: gauge("slo_objective_ratio", "slo"),
		window: gauge("probe_ttft_window_seconds", "stat"), windowSamples: gauge("probe_ttft_window_samples"),
		ttfts: map[string][]referenceSample{},
	}
}

func (ref *reference) setEndpoint(i EndpointInfo) {
	ref.info.DeletePartialMatch(prometheus.Labels{"endpoint": i.Endpoint})
	ref.info.WithLabelValues(i.Endpoint, i.Model, i.API, i.Engine, i.URL, i.Labels["a_zone"], i.Labels["team"]).Set(1)
}

// create makes the series that exist from the start.
func (ref *reference) create(t target) {
	for _, o := range result.Outcomes() {
		ref.results.WithLabelValues(t.with(string(o))...)
	}
	for _, own := range []string{"overrun", "backoff", "limit", "budget", "context_length", "model_not_set", "prompt_truncated", "secret_missing", "resources"} {
		ref.skipped.WithLabelValues(t.with(own)...)
	}
	for _, own := range []string{"usage", "events"} {
		ref.source.WithLabelValues(t.with(own)...)
	}
	for _, own := range []string{"dns", "connect", "tls", "write", "first_byte", "close"} {
		ref.phase.WithLabelValues(t.with(own)...)
	}
	ref.output.WithLabelValues(t.with("answer")...)
	ref.lastRun.WithLabelValues(t.with()...)
	ref.lastSuccess.WithLabelValues(t.with()...)
	for _, v := range []*prometheus.CounterVec{ref.prompt, ref.merged, ref.imprecise, ref.buffered, ref.noEnd, ref.disturbed, ref.confirmations, ref.noFinish, ref.moreEvents, ref.capIgnored} {
		v.WithLabelValues(t.with()...)
	}
	for _, v := range []*prometheus.HistogramVec{ref.ttft, ref.ttfo, ref.tpot, ref.gap, ref.maxGap, ref.duration} {
		v.WithLabelValues(t.with()...)
	}
}

func (ref *reference) observe(t target, r *result.Result) {
	ref.results.WithLabelValues(t.with(string(r.Outcome))...).Inc()
	ref.countTokens(t, r.Tokens)
	if r.Outcome == result.Canceled {
		return
	}
	set := func(v *prometheus.GaugeVec, present bool, value float64, own ...string) {
		v.DeleteLabelValues(t.with(own...)...)
		if present {
			v.WithLabelValues(t.with(own...)...).Set(value)
		}
	}
	unix := func(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
	ok := r.Outcome == result.Success
	timed := ok && !r.Imprecise
	set(ref.success, true, map[bool]float64{true: 1}[ok])
	set(ref.lastRun, true, unix(r.Start))
	set(ref.quota, r.RateLimit.Requests >= 0, float64(r.RateLimit.Requests), "requests")
	set(ref.quota, r.RateLimit.Tokens >= 0, float64(r.RateLimit.Tokens), "tokens")
	set(ref.cert, !r.CertNotAfter.IsZero(), unix(r.CertNotAfter))
	set(ref.lastTTFT, timed && r.Timing.TTFT >= 0, r.Timing.TTFT.Seconds())
	set(ref.lastTPOT, timed && r.Timing.TPOT >= 0, r.Timing.TPOT.Seconds())
	set(ref.lastSpeed, timed && r.Timing.TPOT > 0, 1/r.Timing.TPOT.Seconds())
	for _, e := range r.Events {
		if e.Merged {
			ref.merged.WithLabelValues(t.with()...).Inc()
		}
	}
	if r.Imprecise {
		ref.imprecise.WithLabelValues(t.with()...).Inc()
	}
	if r.NoEndMarker && r.Outcome == result.Success {
		ref.noEnd.WithLabelValues(t.with()...).Inc()
	}
	if r.NoFinish && ok {
		ref.noFinish.WithLabelValues(t.with()...).Inc()
	}
	if r.MoreEvents && ok {
		ref.moreEvents.WithLabelValues(t.with()...).Inc()
	}
	if r.MaxTokensIgnored {
		ref.capIgnored.WithLabelValues(t.with()...).Inc()
	}
	if r.Buffered {
		ref.buffered.WithLabelValues(t.with()...).Inc()
	}
	if ok {
		set(ref.lastSuccess, true, unix(r.Start))
	}
	if timed {
		ref.observeLatency(t, r)
	}
}

func (ref *reference) countTokens(t target, n result.Tokens) {
	if n.Prompt >= 0 {
		ref.prompt.WithLabelValues(t.with()...).Add(float64(n.Prompt))
	}
	if n.Cached >= 0 {
		ref.cached.WithLabelValues(t.with()...).Add(float64(n.Cached))
	}
	if n.Output < 0 {
		return
	}
	ref.source.WithLabelValues(t.with(string(n.Source))...).Inc()
	answer := n.Output
	if n.Reasoning >= 0 {
		reasoning := min(n.Reasoning, n.Output)
		answer -= reasoning
		ref.output.WithLabelValues(t.with("reasoning")...).Add(float64(reasoning))
	}
	ref.output.WithLabelValues(t.with("answer")...).Add(float64(answer))
}

func (ref *reference) observeLatency(t target, r *result.Result) {
	var trace prometheus.Labels
	if r.TraceID != [16]byte{} {
		trace = prometheus.Labels{"trace_id": hex.EncodeToString(r.TraceID[:])}
	}
	for v, d := range map[*prometheus.HistogramVec]time.Duration{
		ref.ttft: r.Timing.TTFT, ref.ttfo: r.Timing.TTFO, ref.tpot: r.Timing.TPOT,
		ref.maxGap: r.Timing.MaxGap, ref.duration: r.Timing.Duration,
	} {
		if d >= 0 {
			v.WithLabelValues(t.with()...).(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), trace)
		}
	}
	for i := range r.Events {
		if i > 0 && !r.MoreEvents && !r.Events[i].Merged && !r.Events[i-1].Merged {
			ref.gap.WithLabelValues(t.with()...).Observe((r.Events[i].At - r.Events[i-1].At).Seconds())
		}
	}
	for i, d := range r.Timing.Phases {
		if d >= 0 {
			ref.phase.WithLabelValues(t.with(fmt.Sprint(result.Phase(i)))...).Observe(d.Seconds())
		}
	}
	for own, d := range map[string]time.Duration{"queue": r.Server.Queue, "prefill": r.Server.Prefill, "decode": r.Server.Decode} {
		if d >= 0 {
			ref.server.WithLabelValues(t.with(own)...).Observe(d.Seconds())
		}
	}
}
