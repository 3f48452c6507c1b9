package collector

import (
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Indexes of the arrays of slo.
const sloAvailability, sloTTFT, sloTPOT, sloE2E, sloFluidity, numSLOs = 0, 1, 2, 3, 4, 5

// sloNames lists the label values in the order of the indexes.
func sloNames() []string { return []string{"availability", "ttft", "tpot", "e2e", "fluidity"} }

// slo counts the probes of a series against its objectives.
type slo struct {
	objective     float64                // share of probes that must be good
	thresholds    [numSLOs]time.Duration // of a good probe, at most; 0 is no such objective
	fluidity      float64                // of a good stream, at least; 0 is no such objective
	eligible, bad [numSLOs]uint64
	deadlines     result.Deadlines // of all streams that count for the fluidity
	ttfts         window
}

// newSLO begins to count.
func newSLO(promised *config.SLO, now time.Time) *slo {
	return &slo{
		objective: promised.Objective,
		thresholds: [numSLOs]time.Duration{
			sloTTFT: time.Duration(promised.TTFT), sloTPOT: time.Duration(promised.TPOT), sloE2E: time.Duration(promised.E2E),
		},
		fluidity: promised.Fluidity,
		ttfts:    window{began: now},
	}
}

// Judge counts a result that was observed against the objectives. The
// confirmation of a failure must not be judged: it comes only after failures,
// which would weigh more than successes.
func (s *Series) Judge(r *result.Result) (j Judgement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values
	if v.slo == nil || r.Outcome == result.Canceled {
		return j
	}
	eligible, bad, deadlines := v.slo.eligible, v.slo.bad, v.slo.deadlines
	v.slo.judge(r, v.kind)
	for i := range numSLOs {
		if v.slo.has(i, v.kind) {
			j.Eligible[i], j.Bad[i] = v.slo.eligible[i] > eligible[i], v.slo.bad[i] > bad[i]
		}
	}
	if d := v.slo.deadlines.Minus(deadlines); d.Total > 0 {
		j.Fluidity = new(d.Fluidity())
	}
	return j
}

// Judgement is how a result met the objectives that its series has, in the order of
// the label slo: whether it counts for one, and whether it missed it. Fluidity is that of
// its stream; nil where there is no such objective or it is not known.
type Judgement struct {
	Eligible, Bad [numSLOs]bool
	Fluidity      *float64
}

// judge counts a result. Times that the prober does not vouch for count for
// nothing, and a failure takes any time to be good from it. A first token that did
// not come is a miss; one of a success that cannot be distinguished from other text is not,
// nor is a TPOT that is missing: a short answer has none, nor has one that came in
// a burst.
func (o *slo) judge(r *result.Result, k api.Kind) {
	t, failed := &r.Timing, r.Outcome != result.Success
	timed := !r.Imprecise
	slow := func(i int, d time.Duration) bool { return d < 0 || d > o.thresholds[i] }
	o.count(sloAvailability, failed)
	if failed || timed {
		o.count(sloE2E, failed || slow(sloE2E, t.Duration))
	}
	if k != api.Generation && k != "" {
		return
	}
	if came := t.TTFT >= 0; came && timed || !came && failed {
		o.count(sloTTFT, slow(sloTTFT, t.TTFT))
		o.ttfts.observe(r.Start, t.TTFT)
	}
	switch {
	case r.Outcome == result.TimeoutStall:
		o.count(sloTPOT, true)
	case !failed && timed && t.TPOT >= 0 && !r.TooShortForTPOT():
		o.count(sloTPOT, slow(sloTPOT, t.TPOT))
	}
	if o.fluidity > 0 {
		o.judgeStream(r, timed)
	}
}

// judgeStream counts a result against the objective of fluidity.
func (o *slo) judgeStream(r *result.Result, timed bool) {
	if r.Outcome == result.TimeoutStall {
		o.count(sloFluidity, true)
		return
	}
	if r.Outcome != result.Success || !timed || r.TooShortForTPOT() {
		return
	}
	if d, ok := r.Deadlines(o.thresholds[sloTTFT], o.thresholds[sloTPOT]); ok {
		o.count(sloFluidity, d.Fluidity() < o.fluidity)
		o.deadlines = o.deadlines.Plus(d)
	}
}

// count counts an eligible probe.
func (o *slo) count(i int, bad bool) {
	o.eligible[i]++
	if bad {
		o.bad[i]++
	}
}

// has reports whether there is such an objective, and whether it means something
// for endpoints of a kind. Availability is promised of all.
func (o *slo) has(i int, k api.Kind) bool {
	switch i {
	case sloTTFT, sloTPOT:
		return o.thresholds[i] > 0 && k == api.Generation
	case sloFluidity:
		return o.fluidity > 0 && k == api.Generation
	}
	return i == sloAvailability || o.thresholds[i] > 0
}

// sloFamilies are the objectives of a series and how its probes meet them.
func sloFamilies() []*probeFamily {
	return []*probeFamily{
		sloFamily(Family{
			Name: "probe_slo_eligible_total", Type: Counter,
			Help: "Probes that count for an objective; absent for objectives that are not configured. Canceled, skipped and disturbed probes and confirmations of failures do not count, nor do latencies of imprecise probes. availability: all others. ttft: probes with a known time to first token, failures without a first token, and with count_waiting those of inference_probe_waiting_total. e2e: all others. tpot: successes with a measured TPOT and at least 3 output tokens, and answers that stalled. fluidity: the same, if it is known which tokens came when.",
		}, func(e encoder, o *slo, i int) { e.counter(i, float64(o.eligible[i])) }),
		sloFamily(Family{
			Name: "probe_slo_bad_total", Type: Counter,
			Help: "Eligible probes that missed the objective. availability: failed. ttft: no first token, or slower than the threshold. tpot: stalled, or slower than the threshold. e2e: failed, or slower than the threshold. fluidity: stalled, or fewer token deadlines met than the threshold.",
		}, func(e encoder, o *slo, i int) { e.counter(i, float64(o.bad[i])) }),
		thresholdFamily(),
		sloFamily(Family{
			Name: "slo_objective_ratio", Type: Gauge, Unit: "ratio",
			Help: "Ratio of eligible probes that must be good, as configured.",
		}, func(e encoder, o *slo, i int) { e.gauge(i, o.objective) }),
	}
}

// sloFamily returns a family with one sample for each objective of a series.
func sloFamily(f Family, emit func(e encoder, o *slo, i int)) *probeFamily {
	f.Labels, f.Values = []string{"slo"}, sloNames()
	return newProbeFamily(f, nil, func(e encoder, f *family, v *values) {
		if v.slo == nil {
			return
		}
		for _, i := range f.order {
			if v.slo.has(i, v.kind) {
				emit(e, v.slo, i)
			}
		}
	})
}

// thresholdFamily has a sample for each objective that has a threshold.
func thresholdFamily() *probeFamily {
	return newProbeFamily(Family{
		Name: "slo_threshold_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"slo"}, Values: sloNames()[sloTTFT:sloFluidity],
		Help: "Maximum latency of a good probe, as configured.",
	}, nil, func(e encoder, f *family, v *values) {
		for _, i := range f.order {
			if j := sloTTFT + i; v.slo != nil && v.slo.has(j, v.kind) {
				e.gauge(i, v.slo.thresholds[j].Seconds())
			}
		}
	})
}
