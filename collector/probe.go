package collector

import (
	"maps"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Indexes of the arrays of values; the families list their label values in the
// same order.
const (
	serverQueue, serverPrefill, serverDecode, numServerPhases = 0, 1, 2, 3
	outputAnswer, outputReasoning, numOutputs                 = 0, 1, 2
	sourceUsage, sourceEvents, numSources                     = 0, 1, 2
	resourceRequests, resourceTokens, numResources            = 0, 1, 2
)

// values is the state behind the samples of one series.
type values struct {
	now     func() time.Time
	created time.Time
	kind    api.Kind // "" until known

	interval, timeout             gauge // as configured
	configured                    gauge // since when
	success, lastRun, lastSuccess gauge
	lastTTFT, lastTPOT, lastSpeed gauge
	certNotAfter                  gauge
	rateLimit                     *[numResources]gauge // nil where the latest reply reports no quota

	results tally // by index in result.Outcomes
	skipped tally // by index in result.SkipReasons

	ttft, ttfo, tpot, interChunk, maxGap, duration histogram

	phases [result.NumPhases]summary
	server *[numServerPhases]summary // nil before a reply had times

	promptTokens, cachedTokens      uint64
	outputTokens                    [numOutputs]uint64
	cachedReported                  bool
	reasoningReported               bool
	tokenSources                    [numSources]uint64
	mergedEvents, imprecise, buffer uint64
	disturbed, confirmations        uint64
	noEndMarker, noFinish           uint64
	moreEvents, capIgnored          uint64

	vectors *vectors        // nil before a reply had any
	checks  checks          // nil where answers are not checked
	calls   *calls          // nil where none is asked for
	cost    *cost           // nil where tokens have no price
	slo     *slo            // nil without objectives
	steps   []estimate.Step // the latest of each metric
	events  *eventTokens    // nil before an event had several tokens
}

// newValues returns the state of a new series.
func newValues(now func() time.Time) *values {
	v := &values{
		now:        now,
		created:    now(),
		ttft:       newHistogram(&ttftBounds),
		ttfo:       newHistogram(&ttftBounds),
		tpot:       newHistogram(&tpotBounds),
		interChunk: newHistogram(&gapBounds),
		maxGap:     newHistogram(&gapBounds),
		duration:   newHistogram(&durationBounds),
	}
	v.lastRun.set(0)
	v.lastSuccess.set(0)
	return v
}

// configure sets what the options say of the values.
func (v *values) configure(o SeriesOptions) {
	v.cost = v.cost.at(o.Price)
	v.checks = v.checks.of(o.Verdicts)
	v.calls = v.calls.configured(o.Calls)
	v.slo = nil
	if o.SLO != nil {
		v.slo = newSLO(o.SLO, v.now())
	}
	if o.Interval > 0 {
		v.interval.set(o.Interval.Seconds())
		v.timeout.set(o.Timeout.Seconds())
		v.configured.set(unixSeconds(v.now()))
	}
}

// restart returns the state of a series that starts again with another model, of
// the same kind, with the same objectives and prices.
func (v *values) restart() *values {
	next := newValues(v.now)
	next.kind, next.interval, next.timeout, next.configured = v.kind, v.interval, v.timeout, v.configured
	next.checks = checks(nil).of(slices.Collect(maps.Keys(v.checks)))
	next.calls = (*calls)(nil).configured(v.calls != nil)
	if v.cost != nil {
		next.cost = (*cost)(nil).at(v.cost.price)
	}
	if v.slo != nil {
		next.slo = v.slo.restart(next.created)
	}
	return next
}

// skip counts a probe that did not run.
func (v *values) skip(reason result.SkipReason) {
	if i := slices.Index(result.SkipReasons(), reason); i >= 0 {
		v.skipped.add(int32(i), 1)
	}
}

// observe counts a result. Tokens count whatever the outcome, because they
// were spent; a canceled probe says nothing else of the endpoint, and one that is
// not timed nothing of its latency.
func (v *values) observe(r *result.Result, outcomes map[result.Outcome]int, timed bool) {
	if i, ok := outcomes[r.Outcome]; ok {
		v.results.add(int32(i), 1)
	}
	v.spend(r)
	if r.Outcome == result.Canceled {
		return
	}
	v.lastRun.set(unixSeconds(r.Start))
	v.setReplyState(r)
	v.checks.count(r.Answer.Verdict)
	v.mergedEvents += uint64(r.MergedEvents())
	if r.Imprecise {
		v.imprecise++
	}
	if r.Buffered {
		v.buffer++
	}
	if r.MaxTokensIgnored {
		v.capIgnored++
	}
	if r.Outcome != result.Success {
		v.success.set(0)
		v.clearLast()
		return
	}
	v.countFlaws(r)
	v.success.set(1)
	v.lastSuccess.set(unixSeconds(r.Start))
	v.clearLast()
	v.setVectors(r, timed)
	if timed {
		v.setLast(&r.Timing)
		v.observeLatency(r)
		v.calls.observe(r)
	}
}

// clearLast forgets what the latest probe measured.
func (v *values) clearLast() {
	for _, g := range []*gauge{&v.lastTTFT, &v.lastTPOT, &v.lastSpeed} {
		g.clear()
	}
	if v.vectors != nil {
		*v.vectors = vectors{items: v.vectors.items}
	}
}

// setRateLimit keeps the quota of the latest reply.
func (v *values) setRateLimit(l api.RateLimit) {
	if l.Requests < 0 && l.Tokens < 0 {
		v.rateLimit = nil
		return
	}
	if v.rateLimit == nil {
		v.rateLimit = new([numResources]gauge)
	}
	for i, left := range [numResources]int{resourceRequests: l.Requests, resourceTokens: l.Tokens} {
		v.rateLimit[i].clear()
		if left >= 0 {
			v.rateLimit[i].set(float64(left))
		}
	}
}

// setReplyState keeps what the reply has besides the answer. The quota is
// that of the latest probe only; a certificate stays known over probes that
// got no reply, so that an outage does not hide its expiry.
func (v *values) setReplyState(r *result.Result) {
	v.setRateLimit(r.RateLimit)
	switch {
	case !r.CertNotAfter.IsZero():
		v.certNotAfter.set(unixSeconds(r.CertNotAfter))
	case r.Status != 0:
		v.certNotAfter.clear()
	}
}

// unixSeconds returns t as a Unix time in seconds.
func unixSeconds(t time.Time) float64 {
	return float64(t.UnixNano()) / 1e9
}

// probeFamily is a family of the series of probes.
type probeFamily = familyOf[*values]

// probeFamilies returns the per-probe families in the order of the
// documentation. A family that is here is exposed and documented.
func probeFamilies() []*probeFamily {
	generation, vectors := []api.Kind{api.Generation}, []api.Kind{api.Embedding, api.Rerank}
	all := stateFamilies()
	all = append(all, sloFamilies()...)
	all = append(all, of(generation, windowFamilies()...)...)
	all = append(all, durationFamilies()...)
	all = append(all, of(generation, latencyFamilies()...)...)
	all = append(all, of(generation, lastFamilies()...)...)
	all = append(all, promptTokensFamily())
	all = append(all, of(generation, tokenFamilies()...)...)
	all = append(all, costFamily())
	all = append(all, stepFamilies()...)
	all = append(all, of(generation, smoothnessFamilies()...)...)
	all = append(all, of(generation, checksFamily())...)
	all = append(all, of(generation, callFamilies()...)...)
	all = append(all, untimedFamilies()...)
	all = append(all, of(generation, accuracyFamilies()...)...)
	return append(all, of(vectors, vectorFamilies()...)...)
}

// stateFamilies are how probes end.
func stateFamilies() []*probeFamily {
	return []*probeFamily{
		probeGauge("probe_success", "",
			"1 if the latest probe succeeded, 0 otherwise. Canceled probes are ignored.",
			func(v *values) gauge { return v.success }),
		probeGauge("probe_last_run_timestamp_seconds", "seconds",
			"Unix time at which the latest probe with a result started; 0 before the first. Canceled probes are ignored.",
			func(v *values) gauge { return v.lastRun }),
		probeGauge("probe_last_success_timestamp_seconds", "seconds",
			"Unix time at which the latest successful probe started; 0 before the first success.",
			func(v *values) gauge { return v.lastSuccess }),
		probeGauge("probe_interval_seconds", "seconds",
			"Time between the starts of consecutive probes, as configured. An endpoint without a probe for three intervals is not monitored.",
			func(v *values) gauge { return v.interval }),
		probeGauge("probe_timeout_seconds", "seconds",
			"Maximum duration of a probe, as configured.",
			func(v *values) gauge { return v.timeout }),
		probeGauge("probe_configured_timestamp_seconds", "seconds",
			"Unix time since when the endpoint is to be probed with the module: the start of the exporter, or the change of the configuration or of discovery that added or changed either.",
			func(v *values) gauge { return v.configured }),
		probeCounters("probe_results_total", "outcome", labelValues(result.Outcomes()),
			"Probes by outcome. Canceled probes, which the exporter ended itself (shutdown, reload, or a confirmation of a failure when the next probe was due), count neither for nor against an endpoint.",
			func(v *values, i int) uint64 { return v.results.of(i) }),
		probeCounters("probe_skipped_total", "reason", labelValues(result.SkipReasons()),
			"Probes that were due and did not run: the previous probe was still running (overrun), the server asked to wait or two probes in a row timed out (backoff), too many probes were in flight (limit), a budget would have been exceeded (budget), the prompt and the answer do not fit into the model's context (context_length), the server lists several models and the configuration names none (model_not_set), the server truncates the prompt (prompt_truncated), a secret, file or credential that the requests need is missing or cannot be used (secret_missing), or the exporter lacks file descriptors, memory or ports (resources).",
			func(v *values, i int) uint64 { return v.skipped.of(i) }),
		probeGauges("probe_rate_limit_remaining", "resource", []string{"requests", "tokens"},
			"Remaining quota, as reported in the reply to the latest probe. Absent if it was not reported.",
			func(v *values) []gauge {
				if v.rateLimit == nil {
					return nil
				}
				return v.rateLimit[:]
			}),
		probeGauge("probe_tls_cert_not_after_timestamp_seconds", "seconds",
			"Unix time at which the first certificate of the server's chain expires. Absent without TLS.",
			func(v *values) gauge { return v.certNotAfter }),
	}
}

// sizeLabels are the labels that only some series have: the lengths those of a
// module that asks with several, and the number of requests those of bursts.
func sizeLabels() []string { return []string{"input_tokens", "output_tokens", "concurrency"} }

// newProbeFamily returns a family with the labels of every probe family.
func newProbeFamily(f Family, bounds []float64, emit func(e encoder, f *family, v *values)) *probeFamily {
	f.Group = GroupProbe
	return &probeFamily{newFamily(f, append([]string{"endpoint", "model", "module", "prefix"}, sizeLabels()...), bounds), emit}
}

// probeGauge returns a family of one gauge for each series.
func probeGauge(name, unit, help string, get func(v *values) gauge) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Gauge, Unit: unit, Help: help}, nil,
		func(e encoder, _ *family, v *values) {
			emitGauge(e, 0, get(v))
		})
}

// probeGauges returns a family of one gauge for each value of a label.
func probeGauges(name, label string, set []string, help string, get func(v *values) []gauge) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Gauge, Labels: []string{label}, Values: set, Help: help}, nil,
		func(e encoder, f *family, v *values) {
			emitGauges(e, f, get(v))
		})
}

// probeCounter returns a family of one counter for each series, which get may
// call absent.
func probeCounter(name, unit, help string, get func(v *values) (n uint64, present bool)) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Counter, Unit: unit, Help: help}, nil,
		func(e encoder, _ *family, v *values) {
			if n, present := get(v); present {
				e.counter(0, float64(n))
			}
		})
}

// flawCounter returns a family of one counter of what ought not to happen, absent from a
// compact page at zero.
func flawCounter(name, help string, get func(v *values) uint64) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Counter, Help: help}, nil,
		func(e encoder, _ *family, v *values) {
			if n := get(v); n > 0 || !e.compact() {
				e.counter(0, float64(n))
			}
		})
}

// probeCounters returns a family of one counter for each value of a label; on a compact
// page those at zero are absent but for successes.
func probeCounters(name, label string, set []string, help string, get func(v *values, i int) uint64) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Counter, Labels: []string{label}, Values: set, Help: help}, nil,
		func(e encoder, f *family, v *values) {
			for _, i := range f.order {
				if n := get(v, i); n > 0 || !e.compact() || f.Values[i] == string(result.Success) {
					e.counter(i, float64(n))
				}
			}
		})
}

// probeHistogram returns a family of one histogram in seconds for each series.
func probeHistogram(name string, bounds []float64, help string, get func(v *values) *histogram) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Histogram, Unit: "seconds", Help: help}, bounds,
		func(e encoder, _ *family, v *values) { e.histogram(get(v)) })
}

// probeSummary returns a family of one summary in seconds for each phase,
// some of them only once they have an observation. get may return none at all.
func probeSummary(name string, phases []string, help string, get func(v *values) []summary, showEmpty func(i int) bool) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Summary, Unit: "seconds", Labels: []string{"phase"}, Values: phases, Help: help}, nil,
		func(e encoder, f *family, v *values) {
			all := get(v)
			if all == nil {
				return
			}
			for _, i := range f.order {
				if all[i].count > 0 || showEmpty(i) && !e.compact() {
					e.summary(i, &all[i])
				}
			}
		})
}

// labelValues returns a closed set as strings.
func labelValues[T ~string](set []T) []string {
	out := make([]string, len(set))
	for i, v := range set {
		out[i] = string(v)
	}
	return out
}
