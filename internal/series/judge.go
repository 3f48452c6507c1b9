// Package series keeps what is kept of the probes of a series: how each met the objectives, which is judged here and
// nowhere else, and one log of the latest of them, from which windows, charts, runs, uptime and what is usual are read,
// and when the level of latencies and failures changed for good.
package series

import (
	"encoding/json"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Objective is one of the objectives of a series.
type Objective int

// The objectives, in the order of the label slo.
const (
	Availability Objective = iota
	TTFT
	TPOT
	E2E
	Fluidity
	NumObjectives
)

// ObjectiveNames lists the closed set in the order of the constants.
func ObjectiveNames() []string { return []string{"availability", "ttft", "tpot", "e2e", "fluidity"} }

// Objectives are what is promised of the probes of a series. They are made once from the
// configuration and never changed.
type Objectives struct {
	// Share is the share of the probes that must be good.
	Share float64
	// TTFT, TPOT and E2E are the longest of a good probe; 0 is no such objective.
	TTFT, TPOT, E2E time.Duration
	// Fluidity is the smallest share of its token deadlines that a good stream meets; 0 is no such objective.
	Fluidity float64
	// CorrectCoordinatedOmission counts users who wait while a probe does for the TTFT.
	CorrectCoordinatedOmission bool
}

// NewObjectives returns the objectives of a configuration.
func NewObjectives(c config.SLO) *Objectives {
	return &Objectives{
		Share: c.Objective, TTFT: time.Duration(c.TTFT), TPOT: time.Duration(c.TPOT), E2E: time.Duration(c.E2E),
		Fluidity: c.Fluidity, CorrectCoordinatedOmission: c.CorrectCoordinatedOmission,
	}
}

// Limit returns the longest latency of a good probe by an objective; 0 is none.
func (o *Objectives) Limit(i Objective) time.Duration {
	return [NumObjectives]time.Duration{TTFT: o.TTFT, TPOT: o.TPOT, E2E: o.E2E}[i]
}

// Has reports whether there is such an objective. Availability is promised of all.
func (o *Objectives) Has(i Objective) bool {
	return i == Availability || o.Limit(i) > 0 || i == Fluidity && o.Fluidity > 0
}

// HasOf reports whether there is such an objective that means something for endpoints of a kind; "" is not known.
func (o *Objectives) HasOf(i Objective, k api.Kind) bool {
	return o.Has(i) && (i == Availability || i == E2E || k == api.Generation)
}

// HasLatency reports whether a latency is promised.
func (o *Objectives) HasLatency() bool { return o.TTFT > 0 || o.TPOT > 0 || o.E2E > 0 }

// MarshalJSON writes the thresholds as the pages show them, in seconds; absent is none.
func (o *Objectives) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Objective float64 `json:"objective"`
		TTFT      float64 `json:"ttft_seconds,omitzero"`
		TPOT      float64 `json:"tpot_seconds,omitzero"`
		E2E       float64 `json:"e2e_seconds,omitzero"`
		Fluidity  float64 `json:"fluidity_ratio,omitzero"`
	}{o.Share, o.TTFT.Seconds(), o.TPOT.Seconds(), o.E2E.Seconds(), o.Fluidity})
}

// Set is a set of objectives.
type Set uint8

// Has reports whether an objective is in the set.
func (s Set) Has(i Objective) bool { return s>>i&1 == 1 }

// Judgement is how a result met the objectives of its series.
type Judgement struct {
	// Eligible are the objectives that the result counts for, Bad those of them that it missed.
	Eligible, Bad Set
	// Worst is the latency of a success that exceeds its objective by the largest factor; the zero value is none.
	Worst Excess
	// Deadlines are those of the tokens of the stream, where the objective of fluidity counts them.
	Deadlines result.Deadlines
}

func (j *Judgement) add(i Objective, bad bool) {
	j.Eligible |= 1 << i
	if bad {
		j.Bad |= 1 << i
	}
}

// IsLate reports whether a success exceeded an objective for its latencies.
func (j Judgement) IsLate() bool { return j.Worst.Limit > 0 }

// Fluidity returns that of the stream; nil where it is not known.
func (j Judgement) Fluidity() *float64 {
	if j.Deadlines.Total == 0 {
		return nil
	}
	return new(j.Deadlines.Fluidity())
}

// Excess is how a latency exceeds its objective.
type Excess struct {
	Of           Objective
	Value, Limit time.Duration
}

func (x Excess) factor() float64 { return float64(x.Value) / float64(max(1, x.Limit)) }

// String is as in "TTFT 1.2s, objective 500ms".
func (x Excess) String() string {
	name := map[Objective]string{TTFT: "TTFT", TPOT: "TPOT", E2E: "duration"}[x.Of]
	return name + " " + exact(x.Value) + ", objective " + exact(x.Limit)
}

// exact returns a duration with three significant digits.
func exact(d time.Duration) string {
	for unit := 10 * time.Second; unit > time.Microsecond; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// Judge holds a result against the objectives. Latencies that the prober does not vouch for count for nothing, and a
// failure takes any time to be good from it. A first token that did not come is a miss; one of a success that cannot be
// distinguished from other text is not, nor is a TPOT that is missing: a short answer has none, nor has one that came
// in a burst. A canceled probe counts for nothing.
func (o *Objectives) Judge(r *result.Result) (j Judgement) {
	if r.Outcome == result.Canceled {
		return j
	}
	failed := r.Outcome != result.Success
	j.add(Availability, failed)
	if hasTokens(r) {
		if countsTTFT(r) {
			o.hold(&j, TTFT, r.Timing.TTFT, false)
		}
		o.judgeTokens(&j, r)
	}
	if failed || !r.Imprecise {
		o.hold(&j, E2E, r.Timing.Duration, failed)
	}
	if failed {
		j.Worst = Excess{}
	}
	return j
}

// judgeTokens judges the tokens after the first. Two of them are too few.
func (o *Objectives) judgeTokens(j *Judgement, r *result.Result) {
	if r.Outcome == result.TimeoutStall {
		o.hold(j, TPOT, 0, true)
		if o.Has(Fluidity) {
			j.add(Fluidity, true)
		}
		return
	}
	if r.Outcome != result.Success || r.Imprecise || r.TooShortForTPOT() {
		return
	}
	if r.Timing.TPOT >= 0 {
		o.hold(j, TPOT, r.Timing.TPOT, false)
	}
	if !o.Has(Fluidity) {
		return
	}
	if d, ok := r.Deadlines(o.TTFT, o.TPOT); ok {
		j.add(Fluidity, d.Fluidity() < o.Fluidity)
		j.Deadlines = d
	}
}

// hold holds a latency against its objective, if there is one; negative is one that did not come.
func (o *Objectives) hold(j *Judgement, i Objective, d time.Duration, bad bool) {
	limit := o.Limit(i)
	if limit == 0 {
		return
	}
	j.add(i, bad || d < 0 || d > limit)
	if x := (Excess{i, d, limit}); d > limit && x.factor() > j.Worst.factor() {
		j.Worst = x
	}
}

// hasTokens reports whether a result is of a protocol that generates tokens, as far as that is known.
func hasTokens(r *result.Result) bool { return r.Kind == api.Generation || r.Kind == "" }

// countsTTFT reports whether the time to first token of a result counts: one that came, or
// that a failure did not wait for.
func countsTTFT(r *result.Result) bool {
	if r.Timing.TTFT >= 0 {
		return !r.Imprecise
	}
	return r.Outcome != result.Success
}

// Observation is a result of a probe, how it came about, and how it met the objectives.
type Observation struct {
	*result.Result
	// Disturbed is a result beside a burst of the exporter's own: its latencies say nothing of the endpoint.
	Disturbed bool
	// Confirmation is a result of a run that the scheduler added after a failure. As
	// there are none after successes, they are no sample of the endpoint.
	Confirmation bool
	// Cold is an answer from soon after a server started or woke: its latencies say nothing of one that is warm.
	Cold bool
	// Judgement is the zero value of a result that is no sample, and of a series without objectives.
	Judgement Judgement
}

// Observe returns a result as an observation, judged by the objectives of its series; nil are none.
func Observe(r *result.Result, o *Objectives, disturbed, confirmation bool) Observation {
	all := Observation{Result: r, Disturbed: disturbed, Confirmation: confirmation}
	if o != nil && all.IsSample() {
		all.Judgement = o.Judge(r)
	}
	return all
}

// AsCold returns the observation as one from soon after a start: of an answer only availability counts, and a failure
// is one.
func (o Observation) AsCold() Observation {
	if o.Outcome == result.Success {
		o.Cold, o.Judgement = true, Judgement{Eligible: o.Judgement.Eligible & (1 << Availability)}
	}
	return o
}

// IsSample reports whether the result counts for what is said of the endpoint's probes
// together: shares, objectives, uptime.
func (o *Observation) IsSample() bool {
	return !o.Disturbed && !o.Confirmation && o.Outcome != result.Canceled
}

// Timed reports whether the latencies of the result count. They count for all that is
// said of latencies, or for nothing: histograms, windows, objectives, states, charts,
// steps and estimates are about the same probes. A failure has none.
func (o *Observation) Timed() bool { return !o.Disturbed && !o.Confirmation && !o.Imprecise && !o.Cold }
