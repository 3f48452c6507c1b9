// Package load is what requests cost by their length and by how many there are at a time: the workload of prompts that
// are made to a length (single ones, ladders, mixes, pairs, conversations, and lengths of users), and that of bursts.
package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Lengths is the workload of prompts of some lengths.
func Lengths() workload.Workload {
	return workload.Workload{
		Kinds: []workload.Kind{{
			New: func(e *config.Endpoint, m *config.Module) (workload.Source, error) {
				s := newSource(m)
				s.sticky = e.Request.StickyHeader != ""
				return s, nil
			}, Texts: true, Answers: true,
		}},
		Estimate: func(_ *config.Endpoint, m *config.Module) workload.Estimate {
			return &Estimate{module: m, conversations: conversations{}}
		},
		Finding: new(Finding), Metrics: metrics,
	}
}

// Finding is what prompts of some lengths show together; nil is not known.
type Finding struct {
	*Prefill
	// HitRatio is the share of the prompt that came from the prefix cache in the warm half of pairs or in warm probes,
	// as the replies report. A ratio of 0 that the pairs' own TTFT contradicts, or cannot confirm yet, is not known.
	HitRatio *float64 `json:"prefix_cache_hit_ratio,omitempty"`
	// Benefit is by how many seconds the second of a pair has its first token earlier than the first.
	Benefit *workload.Interval `json:"prefix_benefit_seconds,omitempty"`
	// Likeness compares what a module asks with what users ask.
	Likeness *Likeness `json:"traffic,omitempty"`
	Turns    []Turn    `json:"turns,omitempty"` // those of conversations, by affinity and number
	// ColdCached counts cold probes of whose prompt more was cached than the server's own template: a fault of the
	// prober or of the server's count. It is known only with ColdReported: a reply to a cold probe reported the cache.
	ColdCached   uint64 `json:"-"`
	ColdReported bool   `json:"-"`
}

// Estimate draws conclusions from prompts of some lengths.
type Estimate struct {
	module        *config.Module
	prefill       prefill
	pairs         pairs
	cache         cache
	conversations conversations
	follows       *follower // nil of a module that does not ask what users ask
}

// Follow has an estimate among all compare what its module asks with what users ask; nil is
// not known. It is to be called before the first result.
func Follow(all []workload.Estimate, users *Traffic) {
	for _, e := range all {
		if e, ok := e.(*Estimate); ok && users != nil {
			e.follows = &follower{users: users, maxInput: e.module.Traffic.MaxInputTokens, maxOutput: e.module.Traffic.MaxOutputTokens}
		}
	}
}

// Observe implements workload.Estimate.
func (e *Estimate) Observe(results []*result.Result, now time.Time) {
	for _, r := range results {
		if r.Outcome != result.Canceled {
			e.prefill.observe(r, now)
			e.cache.observe(r, now)
		}
	}
	e.pairs.observe(results, now)
	e.conversations.observe(results, now)
	if e.follows != nil {
		e.follows.observe(results, now)
	}
}

// Finding implements workload.Estimate.
func (e *Estimate) Finding(now time.Time) workload.Finding {
	f := &Finding{
		Prefill:    e.prefill.estimate(now),
		HitRatio:   e.cache.hitRatio(now),
		Benefit:    e.pairs.benefit(now),
		ColdCached: e.cache.coldCached, ColdReported: e.cache.coldReported,
		Turns: e.conversations.turns(now),
	}
	// Some servers write 0 cached tokens into every reply, whatever their cache did.
	if e.cache.reportsNoHits() && !e.pairs.allowNoHits(f.Benefit) {
		f.HitRatio, f.ColdReported = nil, false
	}
	if e.follows != nil {
		f.Likeness = e.follows.likeness(now)
	}
	if f.Prefill == nil && f.HitRatio == nil && f.Benefit == nil && !f.ColdReported && len(f.Turns) == 0 && f.Likeness == nil {
		return nil
	}
	return f
}

// Figures implements workload.Finding.
func (f *Finding) Figures() (all []workload.Figure) {
	add := func(label, value, note string) {
		all = append(all, workload.Figure{Label: label, Value: value, Note: note})
	}
	if f.Prefill != nil {
		all = append(all, f.TokensPerSecond.Figure("prefill", " tokens/s", result.ThreeDigits, ""),
			f.FixedSeconds.Figure("fixed part", "", result.SecondsInWords, " of TTFT do not depend on the length"))
	}
	if f.HitRatio != nil {
		add("hit ratio", percent(*f.HitRatio), "of the prompt tokens asked again came from the prefix cache")
	}
	if f.Benefit != nil {
		all = append(all, f.Benefit.Figure("benefit", "", result.SecondsInWords, ": first token earlier when asked again"))
	}
	if l := f.Likeness; l != nil {
		add("traffic", fmt.Sprintf("%.2f and %.2f", l.Input, l.Output), fmt.Sprintf("from the lengths of prompts and answers in %.0f requests of users", l.Requests))
	}
	for _, t := range f.Turns {
		if figure, ok := t.figure(); ok {
			all = append(all, figure)
		}
	}
	if f.ColdCached > 0 {
		add("cold cached", strconv.FormatUint(f.ColdCached, 10), "cold prompts came from the cache in part")
	}
	return all
}

func percent(ratio float64) string { return fmt.Sprintf("%.1f %%", ratio*100) }

// figure returns what people see of a turn; false where nothing is known.
func (t *Turn) figure() (workload.Figure, bool) {
	var known []string
	if t.HitRatio != nil {
		known = append(known, percent(*t.HitRatio)+" cached")
	}
	if t.TTFT != nil {
		known = append(known, "TTFT "+result.SecondsInWords(*t.TTFT))
	}
	if len(known) == 0 {
		return workload.Figure{}, false
	}
	if t.SameReplica != nil {
		known = append(known, percent(*t.SameReplica)+" by the same replica")
	}
	known = append(known, "affinity "+string(t.Affinity))
	return workload.Figure{Label: fmt.Sprintf("turn %d", t.Number), Value: known[0] + ",", Note: strings.Join(known[1:], ", ")}, true
}

// Series implements workload.Several: one for each turn.
func (f *Finding) Series() [][]workload.Label {
	return stats.Map(f.Turns, func(t Turn) []workload.Label {
		return []workload.Label{{Name: "affinity", Value: string(t.Affinity)}, {Name: "turn", Value: strconv.Itoa(t.Number)}}
	})
}

func metrics() []workload.Metric {
	bounds := func(get func(p *Prefill) *workload.Interval) func(f *Finding) *workload.Interval {
		return func(f *Finding) *workload.Interval {
			if f.Prefill == nil {
				return nil
			}
			return get(f.Prefill)
		}
	}
	turn := func(name, unit, help string, get func(t *Turn) *float64) workload.Metric {
		return workload.Metric{
			Name: "turn_" + name, Unit: unit, Help: help, Each: []string{"affinity", "turn"},
			Value: workload.Of(func(f *Finding, i int) float64 { return workload.Known(get(&f.Turns[i])) }),
		}
	}
	traffic := func(name, unit, help string, get func(l *Likeness) float64) workload.Metric {
		return workload.One("traffic_"+name, unit, help, func(f *Finding) float64 { return workload.Part(f.Likeness, get) })
	}
	return []workload.Metric{
		workload.Bounded("prefill_tokens_per_second", "tokens_per_second", "Prompt tokens that the endpoint processes per second, estimated from how TTFT grows with the number of uncached prompt tokens. lower and upper are bounds with 95 % confidence. Absent with too few probes or lengths, and where TTFT does not grow linearly with the length.", bounds(func(p *Prefill) *workload.Interval { return &p.TokensPerSecond })),
		workload.Bounded("ttft_fixed_seconds", "seconds", "Part of TTFT that does not depend on the length of the prompt: network, queue and first decoding step. lower and upper are bounds with 95 % confidence. Absent where inference_probe_prefill_tokens_per_second is.", bounds(func(p *Prefill) *workload.Interval { return &p.FixedSeconds })),
		workload.One("prefix_cache_hit_ratio", "ratio", "Ratio of prompt tokens of warm probes that were read from the prefix cache, as reported in the replies. Absent if replies do not report it, and if all report 0 although the second probe of a pair is faster by a quarter or more, which only a cache explains, or while there are too few pairs to decide.", func(f *Finding) float64 { return workload.Known(f.HitRatio) }),
		workload.Bounded("prefix_benefit_seconds", "seconds", "Time saved by sending the same prompt again: TTFT of the first probe of a pair minus TTFT of the second. lower and upper are bounds with 95 % confidence; if both are above 0, the cache helps. Only for prefix: paired; absent with too few pairs.", func(f *Finding) *workload.Interval { return f.Benefit }),
		workload.One("cold_cached_total", "", "Cold probes with prompt tokens read from the prefix cache, as reported in the replies. Expected to be 0: anything else is a fault of the prober or of the server's count. Absent until a reply to a cold probe reports cached tokens or their absence, and while prefix_cache_hit_ratio is absent because the replies are implausible.", func(f *Finding) float64 {
			return workload.If(f.ColdReported, float64(f.ColdCached))
		}),
		turn("prefix_cache_hit_ratio", "ratio", "Ratio of prompt tokens of this turn of the latest 60 conversations that were read from the prefix cache, as reported in the replies. affinity is session for conversations with request.sticky_header and none for the others. Absent with fewer than 6 conversations, and if the ratio is not reported or is implausible.", func(t *Turn) *float64 { return t.HitRatio }),
		turn("ttft_seconds", "seconds", "Median TTFT of this turn of the latest 60 conversations. Absent with fewer than 6 conversations.", func(t *Turn) *float64 { return t.TTFT }),
		turn("same_replica_ratio", "ratio", "Ratio of the latest 60 conversations of which this turn was answered by the replica that answered the turn before, by request.replica_header. Absent for the first turn, and if replies do not name their replica.", func(t *Turn) *float64 { return t.SameReplica }),
		traffic("input_distance_ratio", "ratio", "Wasserstein distance between the prompt lengths from which the probes of the last hour were drawn and those of users, divided by the mean prompt length of users. 0 is the same distribution. Only for modules with traffic; absent while the lengths of users are unknown.", func(l *Likeness) float64 { return l.Input }),
		traffic("output_distance_ratio", "ratio", "Wasserstein distance between the answer lengths of the probes of the last hour and those of users, divided by the mean answer length of users. 0 is the same distribution.", func(l *Likeness) float64 { return l.Output }),
		traffic("requests", "", "Requests of users from which the lengths of a module with traffic are drawn: those that the servers counted in inference_probe_traffic_window_seconds, without the probes of this exporter. Absent while there are fewer than 200 in 24 hours; the module then asks its own lengths.", func(l *Likeness) float64 { return l.Requests }),
		traffic("window_seconds", "seconds", "Time that the requests of inference_probe_traffic_requests cover: the latest 30 minutes or, with fewer than 200 requests in it, as much longer as it takes to have 200, up to 24 hours.", func(l *Likeness) float64 { return l.Seconds }),
	}
}

// SetMix sets what a module with traffic draws from; nil is not known. It is safe beside a run.
func (a *source) SetMix(m *Mix) {
	if a.traffic != nil {
		a.traffic.latest.Store(m)
	}
}

// source asks prompts made to length, each for an answer as long as its cap where the server can be made to.
type source struct {
	module  *config.Module
	prompts *Prompts
	outputs []workload.Length
	rng     *rand.Rand
	learnt  bool         // the server has counted a prompt
	later   int          // tokens that the later turns of a conversation add
	traffic *trafficDraw // nil where lengths are those of the module
	sticky  bool         // a balancer can be told to keep requests together
	begun   int          // conversations, by which sessions alternate
	counts  countLine    // of prompts of given lengths
}

func newSource(m *config.Module) *source {
	a := &source{module: m, outputs: workload.LengthsOf(m.OutputTokens), rng: workload.NewRand(), later: m.TurnsBefore(m.Turns)}
	a.prompts = NewPrompts(workload.LengthsOf(m.InputTokens), m.Prefix, a.rng)
	if m.Traffic != nil {
		a.traffic = &trafficDraw{module: m, u: a.rng.Float64(), v: a.rng.Float64()}
	}
	return a
}

func (a *source) Next(texts, context int) workload.Question {
	from, first, output := a.prompts, Prompt{}, 0
	if a.traffic != nil {
		first, output = a.traffic.next(a.prompts)
	} else {
		first, output = a.prompts.Next(), workload.Draw(a.outputs, a.rng)
	}
	wanted := first.Target
	// Before the first count a prompt may be half too long. One that does not fit is refused, and never counted.
	if !a.learnt && context > 0 && wanted+wanted/2+output+a.later > context {
		from = NewPrompts([]workload.Length{{Tokens: wanted * 2 / 3}}, a.module.Prefix, a.rng)
		first = from.Next()
	}
	q := workload.Question{Texts: []string{first.Text}, Length: first.Target, Wanted: wanted, Later: a.later, Output: output, Exact: true}
	asked := Prompt{Words: first.Words, Target: wanted}
	if c, resting := a.prompts.Resting(asked, time.Now()); resting {
		q.Skip = truncates(c)
	}
	for len(q.Texts) < texts {
		q.Texts = append(q.Texts, from.Like(first).Text)
	}
	q.Learn = func(tokens int) *result.Skip {
		a.learnt = true
		c := Count{Words: first.Words, Tokens: tokens / texts}
		_ = a.counts.learn(c) // what it means for this prompt is said below
		switch a.prompts.Learn(asked, c.Tokens, time.Now()) {
		case Truncated:
			return truncates(c)
		case Short:
			return &result.Skip{Reason: result.SkipTruncated, Text: fmt.Sprintf("the server counts %d tokens of a prompt made to have %d: either it truncates prompts, "+
				"or the next one is longer", c.Tokens, wanted)}
		default:
			return nil
		}
	}
	return a.begin(q)
}

// truncates is why prompts of a length are not asked, of which the server made c.
func truncates(c Count) *result.Skip {
	return &result.Skip{Reason: result.SkipTruncated, Text: fmt.Sprintf("the server truncates prompts: it counts %d tokens of one of %d words; "+
		"raise its context length (num_ctx of Ollama) or lower input_tokens", c.Tokens, c.Words)}
}

// trafficDraw draws lengths from those of users, evenly, so that few draws have their distribution: a Kronecker
// sequence by the inverse powers of the plastic number, which spreads pairs evenly too.
type trafficDraw struct {
	module *config.Module
	latest atomic.Pointer[Mix]
	drawn  *Mix    // that the prompts are of; nil is those of the module
	u, v   float64 // of the next draw, from 0 to 1
}

const (
	plasticInverse       = 0.7548776662466927
	plasticInverseSquare = 0.5698402909980532
)

// next returns a prompt of a mix, which it makes one of the latest lengths, and the length of its answer.
func (t *trafficDraw) next(prompts *Prompts) (Prompt, int) {
	latest := t.latest.Load()
	if latest != t.drawn {
		t.drawn = latest
		if latest == nil {
			prompts.Use(workload.LengthsOf(t.module.InputTokens))
		} else {
			prompts.Use(cut(latest.Inputs, t.module.Traffic.MaxInputTokens))
		}
	}
	if latest == nil {
		return prompts.Next(), t.module.OutputTokens.Max()
	}
	_, t.u = math.Modf(t.u + plasticInverse)
	_, t.v = math.Modf(t.v + plasticInverseSquare)
	return prompts.At(t.u), min(workload.At(latest.Outputs, t.v), t.module.Traffic.MaxOutputTokens)
}

// cut returns lengths, short ones first, with those above a bound cut to it.
func cut(lengths []workload.Length, most int) []workload.Length {
	var out []workload.Length
	for _, l := range lengths {
		l.Tokens = min(l.Tokens, most)
		out = append(out, l)
	}
	return merged(out)
}

// merged returns lengths, short ones first, each once.
func merged(lengths []workload.Length) []workload.Length {
	out := lengths[:0]
	for _, l := range lengths {
		if n := len(out); n > 0 && out[n-1].Tokens == l.Tokens {
			out[n-1].Weight += l.Weight
		} else {
			out = append(out, l)
		}
	}
	return out
}
