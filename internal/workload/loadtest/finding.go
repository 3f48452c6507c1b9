package loadtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Context is what the figures of a level need to know of the endpoint.
type Context struct {
	// Price is that of its GPUs or, where these have none, of its tokens; nil is not known.
	Price *config.Price
	// GPUs is how many GPUs serve it, and Replicas how many servers, by their pages; 0 is not known.
	GPUs, Replicas int
}

// Verdict is whether the 99th percentiles of a level meet the objectives, with 95 % confidence.
type Verdict string

// The verdicts; "" is that of a level without objectives or requests to hold against them.
const (
	Met       Verdict = "met"
	Missed    Verdict = "missed"
	Undecided Verdict = "undecided" // its requests are too few, or too close to the objective
)

// Quantile is a quantile of a latency in seconds, and the bounds of the true one by order statistics of as many requests as
// independent ones would know as much: it is between them with 95 % confidence. 0 is not known: of too few requests, and where so
// many failed that it is infinite.
type Quantile struct {
	Value float64 `json:"value,omitempty"`
	Lower float64 `json:"lower,omitempty"`
	Upper float64 `json:"upper,omitempty"`
}

// Quantiles are those of a latency of the requests of a level.
type Quantiles struct {
	// Mean is the mean in seconds, as the sum over the count of a server's own histogram has it; 0 is not known.
	Mean float64 `json:"mean,omitempty"`

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
	// InFlight is how many requests were in flight on average, over all Replicas.
	InFlight float64   `json:"in_flight"`
	Replicas int       `json:"replicas,omitempty"`
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
	// Begun is when the latest run began, after At while it goes on. At, End and Text are those of the latest that ended.
	Begun time.Time       `json:"begun,omitzero"`
	At    time.Time       `json:"at"`
	End   End             `json:"end"`
	Text  string          `json:"text,omitempty"`
	Kind  config.LoadKind `json:"load"`
	// Target is the level at which the objectives are to be met.
	Target float64 `json:"target"`
	// Input and Output are the mean lengths of prompts and answers that the module asks for; 0 is not known.
	Input  int `json:"input_tokens,omitempty"`
	Output int `json:"output_tokens,omitempty"`
	// Levels are in rising order: those of one run, or the latest complete ones of several.
	Levels []Level `json:"levels,omitempty"`
	// MaxGood is the largest level below the knee that meets the objectives for certain; nil is not known.
	MaxGood *Capacity `json:"max_good,omitempty"`
	// Knee is the smallest level that misses an objective for certain; nil is none.
	Knee *Capacity `json:"knee,omitempty"`
	// TTFT and TPOT are the objectives of the 99th percentiles in seconds; 0 is none.
	TTFT float64 `json:"ttft_objective_seconds,omitempty"`
	TPOT float64 `json:"tpot_objective_seconds,omitempty"`
}

// NewFinding returns what one run came to.
func NewFinding(r *Report, p Plan, c Context) *Finding {
	c.Price = c.Price.At(r.Start)
	f := &Finding{Begun: r.Start, At: r.Stop, End: r.End, Text: r.Text, Kind: p.Load.Kind(), Target: p.Load.Target}
	if o := p.Objectives; o != nil {
		f.TTFT, f.TPOT = o.TTFT.Seconds(), o.TPOT.Seconds()
	}
	for i := range r.Levels {
		l := Measure(&r.Levels[i], p.Objectives, c)
		l.At, l.Replicas = r.Start.Add(r.Levels[i].Stop), c.Replicas
		broke := (r.End == Errors || r.End == Slow) && l.Verdict == Missed
		l.Complete = l.Seconds > 0 && (i < len(r.Levels)-1 || r.End == Completed || broke)
		f.Levels = append(f.Levels, l)
	}
	f.conclude()
	return f
}

// conclude finds the capacity in the complete levels.
func (f *Finding) conclude() {
	f.MaxGood, f.Knee = nil, nil
	for _, l := range f.Levels {
		capacity := &Capacity{l.Level, l.InFlight, l.Confidence}
		if l.Complete && l.Verdict == Missed {
			f.Knee = capacity
			return
		}
		if l.Complete && l.Verdict == Met {
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

// plain is a Finding without its methods.
type plain Finding

// MarshalJSON implements json.Marshaler.
func (f *Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"load_test": struct {
		*plain
		Verdict Verdict `json:"target_verdict,omitempty"`
	}{(*plain)(f), f.TargetVerdict()}})
}

// Figures implements workload.Finding.
func (f *Finding) Figures() (all []workload.Figure) {
	if c := f.MaxGood; c != nil {
		note := fmt.Sprintf("meet the objectives, with %.3g %% confidence", 100*c.Confidence)
		all = append(all, workload.Figure{Label: "largest good load", Value: f.Kind.Words(c.Level), Note: note})
	}
	if c := f.Knee; c != nil {
		all = append(all, workload.Figure{Label: "knee under load", Value: f.Kind.Words(c.Level), Note: "miss the objectives", Bad: f.TargetVerdict() == Missed})
	}
	return all
}

// Series implements workload.Several: one for each level.
func (f *Finding) Series() [][]workload.Label {
	return stats.Map(f.Levels, func(l Level) []workload.Label {
		return []workload.Label{{Name: "level", Value: strconv.FormatFloat(l.Level, 'g', -1, 64)}, {Name: "load", Value: string(f.Kind)}}
	})
}

// News implements workload.News: the target is missed or met again, and the knee fell to a level that was good.
func (f *Finding) News(before workload.Finding, _ string) (all []workload.Line) {
	b, _ := before.(*Finding)
	b = cmp.Or(b, new(Finding))
	add := func(warn bool, what string, level float64) {
		all = append(all, workload.Line{Warn: warn, Message: what, Note: what + ": " + f.Kind.Words(level), Args: []any{"load", f.Kind, "level", level}})
	}
	switch was, is := b.TargetVerdict(), f.TargetVerdict(); {
	case is == Missed && was != Missed:
		add(true, "target load misses the objectives", f.Target)
	case is == Met && was == Missed:
		add(false, "target load meets the objectives again", f.Target)
	}
	if k := f.Knee; k != nil {
		if was := b.level(k.Level); was != nil && was.Verdict == Met {
			add(true, "knee under load fell", k.Level)
		}
	}
	return all
}

// curveFor is how long a level is part of what the load tests of a module came to.
const curveFor = 14 * 24 * time.Hour

// Estimate keeps the latest of each level.
type Estimate struct {
	kind       config.LoadKind
	ttft, tpot float64 // the objectives in seconds; 0 is none
	mean       config.TracedRequest
	latest     *Finding // nil before the first run
}

// Learned implements workload.Learner.
func (e *Estimate) Learned() []workload.Learned {
	return []workload.Learned{{Part: "load_test", Version: 1, Save: func() any {
		if e.latest == nil {
			return nil
		}
		return e.latest
	}, Restore: e.restore}}
}

// restore takes up what was saved, unless the objectives were others. A run that went on ended with its process.
func (e *Estimate) restore(data []byte) error {
	var saved map[string]*plain
	err := json.Unmarshal(data, &saved)
	if f := saved["load_test"]; err == nil && f != nil && f.Kind == e.kind && f.TTFT == e.ttft && f.TPOT == e.tpot {
		if e.latest = (*Finding)(f); f.Begun.After(f.At) {
			f.At, f.End, f.Text = f.Begun, Canceled, "the process ended"
		}
	}
	return err
}

// Begun is that a run begins, which is kept at once: a process that is killed meanwhile must not begin it again and again.
type Begun struct{}

// Observe implements workload.Estimate: a load test has no probes.
func (*Estimate) Observe([]*result.Result, time.Time) {}

// Take implements workload.Taker: a Finding of a run, or a Begun.
func (e *Estimate) Take(run any, now time.Time) {
	if _, begins := run.(Begun); begins {
		next := *cmp.Or(e.latest, &Finding{Kind: e.kind, TTFT: e.ttft, TPOT: e.tpot})
		next.Begun, e.latest = now, &next
	}
	f, ok := run.(*Finding)
	if !ok || f.Kind != e.kind {
		return
	}
	next := *f
	if next.Levels = nil; e.latest != nil {
		next.Levels = slices.Clone(e.latest.Levels)
	}
	for _, l := range f.Levels {
		if l.Complete {
			next.Levels = append(slices.DeleteFunc(next.Levels, func(old Level) bool { return old.Level == l.Level }), l)
		}
	}
	slices.SortFunc(next.Levels, func(a, b Level) int { return cmp.Compare(a.Level, b.Level) })
	e.latest = &next
}

// Finding implements workload.Estimate.
func (e *Estimate) Finding(now time.Time) workload.Finding {
	if e.latest == nil {
		return nil
	}
	f := *e.latest
	f.Input, f.Output = e.mean.Input, e.mean.Output
	f.Levels = slices.DeleteFunc(slices.Clone(f.Levels), func(l Level) bool { return now.Sub(l.At) > curveFor })
	f.conclude()
	return &f
}
