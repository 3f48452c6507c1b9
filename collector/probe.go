package collector

import (
	"slices"
	"time"

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
	rateLimit                     [numResources]gauge

	results []uint64 // by index in result.Outcomes
	skipped []uint64 // by index in result.SkipReasons

	ttft, ttfo, tpot, interChunk, maxGap, duration histogram

	phases [result.NumPhases]summary
	server [numServerPhases]summary // published once seen

	promptTokens, cachedTokens      uint64
	cachedReported                  bool
	outputTokens                    [numOutputs]uint64
	reasoningReported               bool
	tokenSources                    [numSources]uint64
	mergedEvents, imprecise, buffer uint64
	disturbed                       uint64
	noEndMarker, noFinish           uint64
	moreEvents                      uint64

	items                                  uint64
	lastItems, lastInput, dimensions, norm gauge

	checks []uint64 // by index in check.Verdicts; nil where answers are not checked
	cost   *cost    // nil where tokens have no price
	slo    *slo     // nil without objectives
}

// newValues returns the state of a new series.
func newValues(now func() time.Time) *values {
	v := &values{
		now:        now,
		created:    now(),
		results:    make([]uint64, len(result.Outcomes())),
		skipped:    make([]uint64, len(result.SkipReasons())),
		ttft:       newHistogram(ttftBounds),
		ttfo:       newHistogram(ttftBounds),
		tpot:       newHistogram(tpotBounds),
		interChunk: newHistogram(gapBounds),
		maxGap:     newHistogram(gapBounds),
		duration:   newHistogram(durationBounds),
	}
	v.lastRun.set(0)
	v.lastSuccess.set(0)
	return v
}

// configure sets what the options say of the values.
func (v *values) configure(o SeriesOptions) {
	v.cost = v.cost.at(o.Price)
	switch {
	case !o.ChecksAnswers:
		v.checks = nil
	case v.checks == nil:
		v.checks = newChecks()
	}
	v.slo = nil
	if o.SLO != nil {
		v.slo = newSLO(o.SLO.Objective, [numSLOs]time.Duration{
			sloTTFT: time.Duration(o.SLO.TTFT), sloTPOT: time.Duration(o.SLO.TPOT), sloE2E: time.Duration(o.SLO.E2E),
		}, v.now())
	}
	if o.Interval > 0 {
		v.interval.set(o.Interval.Seconds())
		v.timeout.set(o.Timeout.Seconds())
		v.configured.set(unixSeconds(v.now()))
	}
}

// restart returns the state of a series that begins anew with another model, of
// the same kind, with the same objectives and prices.
func (v *values) restart() *values {
	next := newValues(v.now)
	next.kind, next.interval, next.timeout, next.configured = v.kind, v.interval, v.timeout, v.configured
	if v.checks != nil {
		next.checks = newChecks()
	}
	if v.cost != nil {
		next.cost = &cost{price: v.cost.price}
	}
	if v.slo != nil {
		next.slo = newSLO(v.slo.objective, v.slo.thresholds, next.created)
	}
	return next
}

// skip counts a probe that did not run.
func (v *values) skip(reason result.SkipReason) {
	if i := slices.Index(result.SkipReasons(), reason); i >= 0 {
		v.skipped[i]++
	}
}

// observe counts a result. Tokens count whatever the outcome, because they
// were spent; a canceled probe says nothing else of the endpoint, and one that is
// not timed nothing of its latency.
func (v *values) observe(r *result.Result, outcomes map[result.Outcome]int, timed bool) {
	if i, ok := outcomes[r.Outcome]; ok {
		v.results[i]++
	}
	v.spend(r.Tokens)
	if r.Outcome == result.Canceled {
		return
	}
	v.lastRun.set(unixSeconds(r.Start))
	v.setReplyState(r)
	v.countVerdict(r.Answer.Verdict)
	v.mergedEvents += uint64(r.MergedEvents())
	if r.Imprecise {
		v.imprecise++
	}
	if r.Buffered {
		v.buffer++
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
	}
}

// countFlaws counts what a success lacks.
func (v *values) countFlaws(r *result.Result) {
	if r.NoEndMarker {
		v.noEndMarker++
	}
	if r.NoFinish {
		v.noFinish++
	}
	if r.MoreEvents {
		v.moreEvents++
	}
}

// spend counts what a probe used, and what that cost.
func (v *values) spend(told result.Tokens) {
	t := believed(told)
	v.countTokens(&t)
	if v.cost != nil {
		v.cost.add(&t)
	}
}

// clearLast forgets what the latest probe measured.
func (v *values) clearLast() {
	for _, g := range []*gauge{&v.lastTTFT, &v.lastTPOT, &v.lastSpeed, &v.lastItems, &v.lastInput, &v.dimensions, &v.norm} {
		g.clear()
	}
}

// setVectors keeps what an embedding or rerank endpoint answered. Its speed is
// that of the request: setting up the connection is not the model's work.
func (v *values) setVectors(r *result.Result, timed bool) {
	if r.Vectors.Items == 0 {
		return
	}
	v.items += uint64(r.Vectors.Items)
	if d := r.Timing.RequestDuration(); d > 0 && timed {
		v.lastItems.set(float64(r.Vectors.Items) / d.Seconds())
		if r.Tokens.Prompt > 0 {
			v.lastInput.set(float64(r.Tokens.Prompt) / d.Seconds())
		}
	}
	if r.Vectors.Dimensions > 0 {
		v.dimensions.set(float64(r.Vectors.Dimensions))
		v.norm.set(r.Vectors.Norm)
	}
}

// maxTokens is more tokens than one probe has of any kind. A count above it is no
// count: counters must not lose their precision or fall.
const maxTokens = 1 << 32

// believed returns the counts without those that cannot be.
func believed(t result.Tokens) result.Tokens {
	for _, n := range []*int{&t.Prompt, &t.Cached, &t.Output, &t.Reasoning} {
		if *n > maxTokens {
			*n = api.Unknown
		}
	}
	return t
}

// countTokens adds the counts that were reported.
func (v *values) countTokens(t *result.Tokens) {
	if t.Prompt >= 0 {
		v.promptTokens += uint64(t.Prompt)
	}
	if t.Cached >= 0 {
		v.cachedReported = true
		v.cachedTokens += uint64(t.Cached)
	}
	if t.Output < 0 {
		return
	}
	reasoning := 0
	if t.Reasoning >= 0 {
		v.reasoningReported = true
		reasoning = min(t.Reasoning, t.Output)
	}
	v.outputTokens[outputReasoning] += uint64(reasoning)
	v.outputTokens[outputAnswer] += uint64(t.Output - reasoning)
	switch t.Source {
	case result.TokensFromUsage:
		v.tokenSources[sourceUsage]++
	case result.TokensFromEvents:
		v.tokenSources[sourceEvents]++
	}
}

// setReplyState keeps what the reply tells beside the answer. The quota is
// that of the latest probe only; a certificate stays known over probes that
// got no reply, so that an outage does not hide its expiry.
func (v *values) setReplyState(r *result.Result) {
	for i, left := range [numResources]int{resourceRequests: r.RateLimit.Requests, resourceTokens: r.RateLimit.Tokens} {
		v.rateLimit[i].clear()
		if left >= 0 {
			v.rateLimit[i].set(float64(left))
		}
	}
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

// setLast sets the gauges of the latest success.
func (v *values) setLast(t *result.Timing) {
	if t.TTFT >= 0 {
		v.lastTTFT.set(t.TTFT.Seconds())
	}
	if t.TPOT >= 0 {
		v.lastTPOT.set(t.TPOT.Seconds())
	}
	if t.TPOT > 0 {
		v.lastSpeed.set(1 / t.TPOT.Seconds())
	}
}

// observeLatency observes the durations of a success that were measured.
func (v *values) observeLatency(r *result.Result) {
	t := &r.Timing
	observe := func(h *histogram, d time.Duration) {
		if d >= 0 {
			h.observeTraced(d.Seconds(), r.TraceID, r.Start)
		}
	}
	observe(&v.ttft, t.TTFT)
	observe(&v.ttfo, t.TTFO)
	observe(&v.tpot, t.TPOT)
	observe(&v.maxGap, t.MaxGap)
	observe(&v.duration, t.Duration)
	if !r.MoreEvents { // of which some are no tokens
		v.observeGaps(r.Events)
	}
	for i, d := range t.Phases {
		if d >= 0 {
			v.phases[i].observe(d.Seconds())
		}
	}
	for i, d := range [numServerPhases]time.Duration{
		serverQueue: r.Server.Queue, serverPrefill: r.Server.Prefill, serverDecode: r.Server.Decode,
	} {
		if d >= 0 {
			v.server[i].observe(d.Seconds())
		}
	}
}

// observeGaps observes the time between neighbouring events whose instants are
// both measured.
func (v *values) observeGaps(events []result.Event) {
	for i := 1; i < len(events); i++ {
		before, after := &events[i-1], &events[i]
		if gap := after.At - before.At; gap >= 0 && !before.Merged && !after.Merged {
			v.interChunk.observe(gap.Seconds())
		}
	}
}
