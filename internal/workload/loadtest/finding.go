package loadtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Context is what the figures of a level need to know of the endpoint.
type Context struct {
	// USDPerHour is what all of its GPUs cost in an hour; 0 is not known.
	USDPerHour float64
	// Price is that of its tokens, for where USDPerHour is not known; nil is not known.
	Price *config.Price
	// GPUs is how many GPUs serve it; 0 is not known.
	GPUs int
}

// Verdict is whether the 99th percentiles of a level meet the objectives, with 95 % confidence.
type Verdict string

// The verdicts; "" is that of a level without objectives or requests to hold against them.
const (
	Met       Verdict = "met"
	Missed    Verdict = "missed"
	Undecided Verdict = "undecided" // its requests are too few, or too close to the objective
)

// Quantile is a quantile of a latency in seconds, and the bounds of the true one by order statistics: it is between them
// with 95 % confidence. 0 is not known: of too few requests, and where so many failed that it is infinite.
type Quantile struct {
	Value float64 `json:"value,omitempty"`
	Lower float64 `json:"lower,omitempty"`
	Upper float64 `json:"upper,omitempty"`
}

// Quantiles are those of a latency of the requests of a level.
type Quantiles struct {
	P50 Quantile `json:"p50,omitzero"`
	P90 Quantile `json:"p90,omitzero"`
	P99 Quantile `json:"p99,omitzero"`
}

// Level is what one level came to in its steady state. What is not known is 0 or nil.
type Level struct {
	Level float64   `json:"level"`
	At    time.Time `json:"at"` // when it ended
	// Complete is a level that was measured for all of its time, or ended for failed or slow requests and missed
	// the objectives. Others are no part of a curve.
	Complete bool `json:"complete"`
	// Seconds is how long its steady state was; 0 of a level that did not get there, which has no more figures.
	Seconds float64 `json:"seconds"`
	// Requests are those that were sent in the steady state and ended, Failed those of them that failed, and Late those
	// of them whose times do not count because this process was late.
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	Late     int `json:"late"`
	// InFlight is how many requests were in flight on average.
	InFlight float64   `json:"in_flight"`
	TTFT     Quantiles `json:"ttft_seconds,omitzero"`
	TPOT     Quantiles `json:"tpot_seconds,omitzero"`
	// Goodput is the share of the requests that met all objectives.
	Goodput                     *float64 `json:"goodput_ratio,omitempty"`
	OutputTokensPerSecond       float64  `json:"output_tokens_per_second,omitempty"`
	OutputTokensPerSecondPerGPU float64  `json:"output_tokens_per_second_per_gpu,omitempty"`
	USDPerMillionOutputTokens   float64  `json:"usd_per_million_output_tokens,omitempty"`
	// Confidence is how certain it is that the 99th percentiles of TTFT and TPOT meet the objectives: how likely it is
	// that more requests would be over one, by the binomial distribution, if it were 1 % of them in truth.
	Confidence float64 `json:"confidence_ratio"`
	Verdict    Verdict `json:"verdict,omitempty"`
}

// Capacity is a level at which the endpoint still meets the objectives, or no longer does.
type Capacity struct {
	Level      float64 `json:"level"`
	InFlight   float64 `json:"in_flight"`
	Confidence float64 `json:"confidence_ratio"` // that of the level
}

// Finding is what the load tests of one module came to. It is never changed once made.
type Finding struct {
	// At, End and Text are those of the latest run.
	At   time.Time
	End  End
	Text string
	Kind config.LoadKind
	// Target is the level at which the objectives are to be met.
	Target float64
	// TTFT and TPOT are the objectives of the 99th percentiles; 0 is none.
	TTFT, TPOT time.Duration
	// Levels are in rising order: those of the run, or the latest of each where it is what many runs came to.
	Levels []Level
	// MaxGood is the largest level below the knee that meets the objectives for certain; nil is not known.
	MaxGood *Capacity
	// Knee is the smallest level that misses an objective for certain; nil is none.
	Knee *Capacity
}

// NewFinding returns what one run came to.
func NewFinding(r *Report, p Plan, c Context) *Finding {
	f := &Finding{At: r.Stop, End: r.End, Text: r.Text, Kind: p.Load.Kind(), Target: p.Load.Target}
	if o := p.Objectives; o != nil {
		f.TTFT, f.TPOT = o.TTFT, o.TPOT
	}
	if levels := p.Load.Levels(); f.Target == 0 && len(levels) > 0 {
		f.Target = levels[len(levels)-1]
	}
	for i := range r.Levels {
		l := Measure(&r.Levels[i], p.Objectives, c)
		l.At = r.Start.Add(r.Levels[i].Stop)
		broke := (r.End == Errors || r.End == Slow) && l.Verdict == Missed
		l.Complete = l.Seconds > 0 && (i < len(r.Levels)-1 || r.End == Completed || broke)
		f.Levels = append(f.Levels, l)
	}
	f.conclude()
	return f
}

// InWords returns a level as people read it, such as "50 users".
func InWords(kind config.LoadKind, level float64) string {
	number := strconv.FormatFloat(level, 'g', -1, 64)
	return map[config.LoadKind]string{config.LoadUsers: number + " users", config.LoadRate: number + " requests/s", config.LoadTrace: number + " × the trace"}[kind]
}

// conclude finds the capacity in the complete levels.
func (f *Finding) conclude() {
	f.MaxGood, f.Knee = nil, nil
	for i := range f.Levels {
		l := &f.Levels[i]
		capacity := &Capacity{l.Level, l.InFlight, l.Confidence}
		switch {
		case !l.Complete:
		case l.Verdict == Missed:
			f.Knee = capacity
			return
		case l.Verdict == Met:
			f.MaxGood = capacity
		}
	}
}

// level returns the complete level of that load; nil is none.
func (f *Finding) level(load float64) *Level {
	i := slices.IndexFunc(f.Levels, func(l Level) bool { return l.Complete && l.Level == load })
	if i < 0 {
		return nil
	}
	return &f.Levels[i]
}

// TargetVerdict returns that of the target; "" where it was not measured.
func (f *Finding) TargetVerdict() Verdict {
	if l := f.level(f.Target); l != nil {
		return l.Verdict
	}
	return ""
}

// MarshalJSON implements json.Marshaler.
func (f *Finding) MarshalJSON() ([]byte, error) {
	type test struct {
		At      time.Time       `json:"at"`
		End     End             `json:"end"`
		Text    string          `json:"text,omitempty"`
		Kind    config.LoadKind `json:"load"`
		Target  float64         `json:"target"`
		Verdict Verdict         `json:"target_verdict,omitempty"`
		TTFT    float64         `json:"ttft_objective_seconds,omitempty"`
		TPOT    float64         `json:"tpot_objective_seconds,omitempty"`
		MaxGood *Capacity       `json:"max_good,omitempty"`
		Knee    *Capacity       `json:"knee,omitempty"`
		Levels  []Level         `json:"levels,omitempty"`
	}
	return json.Marshal(struct {
		Test test `json:"load_test"`
	}{test{f.At, f.End, f.Text, f.Kind, f.Target, f.TargetVerdict(), f.TTFT.Seconds(), f.TPOT.Seconds(), f.MaxGood, f.Knee, f.Levels}})
}

// Figures implements workload.Finding.
func (f *Finding) Figures() []workload.Figure {
	var all []workload.Figure
	if c := f.MaxGood; c != nil {
		all = append(all, workload.Figure{
			Label: "largest load within the objectives", Value: InWords(f.Kind, c.Level),
			Note: fmt.Sprintf("at the least, with %s %% confidence", result.ThreeDigits(100*c.Confidence)),
		})
	}
	if c := f.Knee; c != nil {
		all = append(all, workload.Figure{Label: "load that misses an objective", Value: InWords(f.Kind, c.Level)})
	}
	if f.TargetVerdict() == Missed {
		all = append(all, workload.Figure{Label: "target load", Value: InWords(f.Kind, f.Target), Note: "the 99th percentile misses the objective", Bad: true})
	}
	return all
}

// Series implements workload.Several: one for each complete level.
func (f *Finding) Series() [][]workload.Label {
	all := make([][]workload.Label, 0, len(f.Levels))
	for _, l := range f.complete() {
		all = append(all, []workload.Label{{Name: "level", Value: strconv.FormatFloat(l.Level, 'g', -1, 64)}, {Name: "load", Value: string(f.Kind)}})
	}
	return all
}

// complete returns the complete levels.
func (f *Finding) complete() []Level {
	if !slices.ContainsFunc(f.Levels, func(l Level) bool { return !l.Complete }) {
		return f.Levels
	}
	return slices.DeleteFunc(slices.Clone(f.Levels), func(l Level) bool { return !l.Complete })
}

// News implements workload.News: the target is missed or met again, and the knee fell.
func (f *Finding) News(before workload.Finding, _ string) (all []workload.Line) {
	b, _ := before.(*Finding)
	b = cmp.Or(b, new(Finding))
	add := func(warn bool, message, note string, level float64) {
		all = append(all, workload.Line{Warn: warn, Message: message, Note: InWords(f.Kind, level) + note, Args: []any{"load", f.Kind, "level", level}})
	}
	switch was, is := b.TargetVerdict(), f.TargetVerdict(); {
	case is == Missed && was != Missed:
		add(true, "target load misses the objectives", ", the target, miss the objectives at the 99th percentile", f.Target)
	case is == Met && was == Missed:
		add(false, "target load meets the objectives again", ", the target, meet the objectives at the 99th percentile again", f.Target)
	}
	if k := f.Knee; k != nil && (b.Knee == nil && b.level(k.Level) != nil || b.Knee != nil && k.Level < b.Knee.Level) {
		add(true, "fewer requests than before miss the objectives", " miss the objectives at the 99th percentile: fewer than before", k.Level)
	}
	return all
}

// curveFor is how long a level is part of what the load tests of a module came to.
const curveFor = 14 * 24 * time.Hour

// Estimate keeps the latest of each level.
type Estimate struct {
	kind       config.LoadKind
	ttft, tpot time.Duration // the objectives; 0 is none
	latest     *Finding      // nil before the first run
}

// Learned implements workload.Learner.
func (e *Estimate) Learned() []workload.Learned {
	return []workload.Learned{{Part: "load_test", Version: 1, Save: e.save, Restore: e.restore}}
}

// saved is a Finding as it survives a restart.
type saved Finding

func (e *Estimate) save() any {
	if e.latest == nil {
		return nil
	}
	return (*saved)(e.latest)
}

// restore takes up what was saved, unless the objectives were others.
func (e *Estimate) restore(data []byte) error {
	var f Finding
	if err := json.Unmarshal(data, (*saved)(&f)); err != nil {
		return err
	}
	byLevel := func(a, b Level) int { return cmp.Compare(a.Level, b.Level) }
	if !slices.Contains(Ends(), f.End) || !slices.IsSortedFunc(f.Levels, byLevel) {
		return errors.New("no curve of a load test")
	}
	if f.Kind == e.kind && f.TTFT == e.ttft && f.TPOT == e.tpot {
		f.conclude()
		e.latest = &f
	}
	return nil
}

// Observe implements workload.Estimate: a load test has no probes.
func (*Estimate) Observe([]*result.Result, time.Time) {}

// Take implements workload.Taker: a Finding of a run.
func (e *Estimate) Take(run any, now time.Time) {
	f, ok := run.(*Finding)
	if !ok || f.Kind != e.kind {
		return
	}
	next := *f
	next.Levels = slices.Clone(f.complete())
	if e.latest != nil {
		for _, l := range e.latest.Levels {
			if next.level(l.Level) == nil {
				next.Levels = append(next.Levels, l)
			}
		}
	}
	slices.SortFunc(next.Levels, func(a, b Level) int { return cmp.Compare(a.Level, b.Level) })
	e.latest = next.young(now)
}

// young returns the finding without levels that are too old.
func (f *Finding) young(now time.Time) *Finding {
	next := *f
	next.Levels = slices.DeleteFunc(slices.Clone(f.Levels), func(l Level) bool { return now.Sub(l.At) > curveFor })
	next.conclude()
	return &next
}

// Finding implements workload.Estimate.
func (e *Estimate) Finding(now time.Time) workload.Finding {
	if e.latest == nil {
		return nil
	}
	return e.latest.young(now)
}
