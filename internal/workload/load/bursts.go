package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Bursts is the workload of requests that start together, or arrive as users do: how many an endpoint carries.
func Bursts() workload.Workload {
	return workload.Workload{Rounds: rounds, Estimate: burstEstimateOf, Finding: new(BurstFinding), Metrics: burstMetrics}
}

func rounds(m *config.Module) []workload.Round {
	rng := workload.NewRand()
	return stats.Map(m.Concurrency, func(n int) workload.Round {
		return workload.Round{Size: n, Offsets: func() []time.Duration { return arrivals(m.Arrivals, n, time.Duration(m.Timeout), rng) }}
	})
}

func burstEstimateOf(e *config.Endpoint, m *config.Module) workload.Estimate {
	if len(m.Concurrency) == 0 {
		return nil
	}
	return &BurstEstimate{objectives: series.NewObjectives(e.SLOWith(m)), arrivals: m.Arrivals}
}

// BurstFinding is what the bursts of the latest run came to.
type BurstFinding struct {
	Bursts []Burst // small ones first
	// Knee is the smallest burst that missed the objective: more than a tenth of its
	// requests had their first token later, or failed. The first burst misses it only by
	// being slow or turned away; other failures are no matter of load. nil is none.
	Knee *Burst
	// MaxGood is the largest burst below the knee that met the objective and of which no request failed; nil is none.
	MaxGood  *Burst
	Arrivals *config.Arrivals // how the requests of the bursts arrive; nil is all at once
}

// BurstEstimate keeps the bursts of the latest run.
type BurstEstimate struct {
	objectives *series.Objectives // whose TTFT bursts are held against; without one there is no knee
	arrivals   *config.Arrivals
	latest     *BurstFinding // nil before the first run
}

// Observe implements workload.Estimate. A run that we ended ourselves says nothing.
func (e *BurstEstimate) Observe(results []*result.Result, _ time.Time) {
	next := &BurstFinding{Arrivals: e.arrivals}
	for len(results) > 0 {
		n := 1
		for n < len(results) && results[n].Concurrency == results[0].Concurrency {
			n++
		}
		level := results[:n]
		results = results[n:]
		if level[0].Concurrency == 0 {
			continue
		}
		b, ok := MeasureBurst(level)
		if !ok {
			return
		}
		first := len(next.Bursts) == 0
		next.Bursts = append(next.Bursts, b)
		if next.Knee != nil || e.objectives.TTFT <= 0 {
			continue
		}
		missed := misses(level, e.objectives)
		switch {
		case missed && (!first || underLoad(level)):
			next.Knee = &b
		case !missed && b.Failed == 0:
			next.MaxGood = &b
		}
	}
	if next.Bursts != nil {
		e.latest = next
	}
}

// Finding implements workload.Estimate.
func (e *BurstEstimate) Finding(time.Time) workload.Finding {
	if e.latest == nil {
		return nil
	}
	return e.latest
}

// MarshalJSON implements json.Marshaler.
func (f *BurstFinding) MarshalJSON() ([]byte, error) {
	var d struct {
		Knee   int     `json:"burst_knee_concurrency,omitempty"`
		Bursts []Burst `json:"bursts,omitempty"`
	}
	if d.Bursts = f.Bursts; f.Knee != nil {
		d.Knee = f.Knee.Concurrency
	}
	return json.Marshal(d)
}

// Figures implements workload.Finding.
func (f *BurstFinding) Figures() []workload.Figure {
	switch {
	case f.Knee != nil:
		note := "miss the objective"
		if f.Knee.TokensPerSecond > 0 {
			note += ", at " + result.ThreeDigits(f.Knee.TokensPerSecond) + " tokens/s"
		}
		return []workload.Figure{{Label: "knee", Value: strconv.Itoa(f.Knee.Concurrency) + " at once", Note: note}}
	case f.MaxGood != nil:
		return []workload.Figure{{Label: "knee", Value: "none", Note: "no burst misses the objective"}}
	}
	return nil
}

// Series implements workload.Several: one for each burst.
func (f *BurstFinding) Series() [][]workload.Label {
	return stats.Map(f.Bursts, func(b Burst) []workload.Label {
		return []workload.Label{{Name: "concurrency", Value: strconv.Itoa(b.Concurrency)}}
	})
}

func burstMetrics() []workload.Metric {
	burst := func(name, unit, help string, get func(b *Burst) float64) workload.Metric {
		return workload.Metric{
			Name: "burst_" + name, Unit: unit, Help: help, Each: []string{"concurrency"},
			Value: workload.Of(func(f *BurstFinding, i int) float64 { return get(&f.Bursts[i]) }),
		}
	}
	one := func(name, unit, help string, which func(f *BurstFinding) *Burst, get func(b *Burst) float64) workload.Metric {
		return workload.One("burst_"+name, unit, help, func(f *BurstFinding) float64 { return workload.Part(which(f), get) })
	}
	knee, maxGood := func(f *BurstFinding) *Burst { return f.Knee }, func(f *BurstFinding) *Burst { return f.MaxGood }
	size := func(b *Burst) float64 { return float64(b.Concurrency) }
	speed := func(b *Burst) float64 { return workload.Positive(b.TokensPerSecond) }
	return []workload.Metric{
		burst("failed", "", "Requests of the burst that failed in the latest run. A burst with an error is the last of its run, so larger bursts are absent.", func(b *Burst) float64 { return float64(b.Failed) }),
		burst("output_tokens_per_second", "tokens_per_second", "Output tokens of all requests of the burst divided by the time from the first start to the last end, in the latest run.", speed),
		burst("start_spread_seconds", "seconds", "Time from the start of the first request of the burst to the start of the last, in the latest run. Ideally 0: the larger it is, the less simultaneous the requests were.", func(b *Burst) float64 {
			return workload.If(b.StartSpread >= 0, b.StartSpread.Seconds())
		}),
		one("knee_concurrency", "", "Size of the smallest burst of the latest run that missed the objectives: the endpoint handles fewer concurrent requests. Absent if all bursts meet them.", knee, size),
		one("knee_tokens_per_second", "tokens_per_second", "Output tokens per second of the burst of inference_probe_burst_knee_concurrency.", knee, speed),
		one("max_good_concurrency", "", "Size of the largest burst of the latest run that met the objectives, as all smaller ones did: the endpoint handles at least so many concurrent requests beside its load. Absent without an objective, and if the smallest burst missed it.", maxGood, size),
		one("max_good_tokens_per_second", "tokens_per_second", "Output tokens per second of the burst of inference_probe_burst_max_good_concurrency.", maxGood, speed),
		{
			Name: "arrivals_per_second", Label: "kind", Values: config.Texts(config.ArrivalProcesses()),
			Help: "Requests of a run that start per second on average, by the configuration, if they start one after the other instead of all at once: by a Poisson process (poisson) or a recording (recorded). Only for modules with arrivals.",
			Value: workload.Of(func(f *BurstFinding, i int) float64 {
				if f.Arrivals == nil || f.Arrivals.Process != config.ArrivalProcesses()[i] {
					return math.NaN()
				}
				return f.Arrivals.PerSecond()
			}),
		},
	}
}

// Burst is what requests that started together came to.
type Burst struct {
	Concurrency int `json:"concurrency"` // how many there were to be
	Failed      int `json:"failed"`      // how many of them did not succeed
	// TokensPerSecond is the output of those that succeeded, by the server's own
	// count, over the time from the first start to the last end; 0 is not known.
	TokensPerSecond float64 `json:"output_tokens_per_second,omitempty"`
	// StartSpread is the time from the first start to the last one; negative is not known.
	StartSpread time.Duration `json:"-"`
}

// MeasureBurst returns what a burst came to, given the results of its requests; false where it was canceled.
func MeasureBurst(level []*result.Result) (b Burst, ok bool) {
	b = Burst{Concurrency: level[0].Concurrency, StartSpread: -1}
	var sent []time.Time
	var lastEnd time.Time
	tokens, known := 0, true
	for _, r := range level {
		if r.Outcome == result.Canceled {
			return b, false
		}
		if !r.Sent.IsZero() {
			sent = append(sent, r.Sent)
		}
		if !answered(r) {
			b.Failed++
			continue
		}
		took := r.Timing.RequestDuration()
		measured := !r.Sent.IsZero() && took >= 0
		if end := r.Sent.Add(took); measured && end.After(lastEnd) {
			lastEnd = end
		}
		tokens += r.Tokens.Output
		known = known && measured && r.Tokens.Output >= 0 && r.Tokens.Source == result.TokensFromUsage
	}
	if len(sent) == 0 {
		return b, true
	}
	slices.SortFunc(sent, time.Time.Compare)
	b.StartSpread = sent[len(sent)-1].Sub(sent[0])
	if took := lastEnd.Sub(sent[0]); known && b.Failed < len(level) && took > 0 {
		b.TokensPerSecond = float64(tokens) / took.Seconds()
	}
	return b, true
}

// answered reports whether the server did its part: how fast it was is of interest also where the answer was wrong.
func answered(r *result.Result) bool {
	return r.Outcome == result.Success || r.Outcome == result.CheckFailed
}

// misses reports whether the 90th percentile of TTFT in the burst is above the objective, as that of a request
// that failed is. An answer whose TTFT cannot be vouched for does not count.
func misses(level []*result.Result, objectives *series.Objectives) bool {
	within, counted := 0, 0
	for _, r := range level {
		j := objectives.Judge(r)
		if answered(r) && (r.Timing.TTFT < 0 || !j.Eligible.Has(series.TTFT)) {
			continue
		}
		counted++
		if answered(r) && !j.Bad.Has(series.TTFT) {
			within++
		}
	}
	return 10*within < 9*counted
}

// underLoad reports whether all failures of a burst are those of an overloaded
// server. Other failures, before any burst succeeded, are no evidence of load.
func underLoad(level []*result.Result) bool {
	for _, r := range level {
		switch r.Outcome {
		case result.Success, result.CheckFailed, result.RateLimited, result.Overloaded,
			result.TimeoutFirstToken, result.TimeoutStall, result.TimeoutTotal:
		default:
			return false
		}
	}
	return true
}

// arrivals returns at which time from the first each of n requests is to start; nil is all at once.
func arrivals(a *config.Arrivals, n int, most time.Duration, rng *rand.Rand) []time.Duration {
	if a == nil {
		return nil
	}
	if a.Process == config.ArrivalRecorded {
		return recorded(a.Profile, n, most, rng)
	}
	return poisson(n, a.Rate, most, rng)
}

// recorded returns n arrivals that follow each other in the profile, from the first of them: a stretch that is
// drawn from all that do not take longer than most; nil where there is none.
func recorded(profile config.Profile, n int, most time.Duration, rng *rand.Rand) []time.Duration {
	var firsts []int
	for i, span := range profile.Spans(n) {
		if span <= most {
			firsts = append(firsts, i)
		}
	}
	if len(firsts) == 0 {
		return nil
	}
	first := firsts[rng.IntN(len(firsts))]
	return stats.Map(profile[first:first+n], func(at time.Duration) time.Duration { return at - profile[first] })
}

// poisson draws n arrivals of a Poisson process of so many per second, the first at 0 and none later than most.
func poisson(n int, rate float64, most time.Duration, rng *rand.Rand) []time.Duration {
	all := make([]time.Duration, n)
	at := 0.0
	for i := 1; i < n; i++ {
		at = min(at+rng.ExpFloat64()/rate, most.Seconds())
		all[i] = time.Duration(at * float64(time.Second))
	}
	return all
}
