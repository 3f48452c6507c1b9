package load

import (
	"encoding/json"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// besideAfter is how long after the long prompt the short one is sent: tokenized, the long one is in prefill then.
const besideAfter = 50 * time.Millisecond

// Interference is the workload of a short prompt beside a long one: how much longer users wait for a first token while
// the server computes a long prompt.
func Interference() workload.Workload {
	return workload.Workload{Rounds: interferenceRounds, Estimate: interferenceEstimateOf, Finding: new(InterferenceFinding), Metrics: interferenceMetrics}
}

func interferenceRounds(m *config.Module) []workload.Round {
	if m.Interference == 0 {
		return nil
	}
	return []workload.Round{
		{Size: 1, Offsets: func() []time.Duration { return nil }},
		{Size: 2, Beside: m.Interference, Offsets: func() []time.Duration { return []time.Duration{0, besideAfter} }},
	}
}

func interferenceEstimateOf(_ *config.Endpoint, m *config.Module) workload.Estimate {
	if m.Interference == 0 {
		return nil
	}
	return new(interferenceEstimate)
}

// InterferenceFinding is how a long prompt delays the first token of a short one. Times are medians in seconds.
type InterferenceFinding struct {
	// Ratio is the median of TTFT beside the long prompt over TTFT alone, of each run.
	Ratio  workload.Interval `json:"ttft_ratio"`
	Alone  float64           `json:"ttft_alone_seconds"`
	Beside float64           `json:"ttft_beside_seconds"`
	Long   float64           `json:"long_ttft_seconds"` // of the long prompt itself
}

// met is what one run found, in seconds.
type met struct {
	at                  time.Time
	alone, beside, long float64
}

// interferenceEstimate keeps the latest runs, as pairs are kept.
type interferenceEstimate struct{ all []met }

// Observe implements workload.Estimate. A run whose long prompt had its first token before the short one was sent says nothing.
func (e *interferenceEstimate) Observe(results []*result.Result, now time.Time) {
	if len(results) != 2 || len(results[1].Beside) != 1 {
		return
	}
	alone, beside, long := results[0], results[1], results[1].Beside[0]
	if timed(alone) && timed(long) && timed(beside) && long.Sent.Add(long.Timing.TTFT).After(beside.Sent) {
		e.all = stats.AppendLatest(e.all, met{now, alone.Timing.TTFT.Seconds(), beside.Timing.TTFT.Seconds(), long.Timing.TTFT.Seconds()}, maxPairs)
	}
}

func (e *interferenceEstimate) Finding(now time.Time) workload.Finding {
	e.all = stats.DropOld(e.all, func(m met) bool { return now.Sub(m.at) >= pairReach })
	ratio := median(e.all, func(m met) float64 { return m.beside / m.alone })
	if ratio == nil {
		return nil
	}
	return &InterferenceFinding{
		Ratio: *ratio,
		Alone: median(e.all, func(m met) float64 { return m.alone }).Value, Beside: median(e.all, func(m met) float64 { return m.beside }).Value,
		Long: median(e.all, func(m met) float64 { return m.long }).Value,
	}
}

// MarshalJSON implements json.Marshaler.
func (f *InterferenceFinding) MarshalJSON() ([]byte, error) {
	type plain InterferenceFinding
	return json.Marshal(map[string]*plain{"interference": (*plain)(f)})
}

// Figures implements workload.Finding.
func (f *InterferenceFinding) Figures() []workload.Figure {
	note := " times TTFT beside a long prompt: " + result.SecondsInWords(f.Beside) + " instead of " + result.SecondsInWords(f.Alone)
	return []workload.Figure{f.Ratio.Figure("interference", "", result.ThreeDigits, note)}
}

func interferenceMetrics() []workload.Metric {
	one := func(name, help string, get func(f *InterferenceFinding) float64) workload.Metric {
		return workload.One("interference_"+name, "seconds", help, get)
	}
	return []workload.Metric{
		workload.Bounded("interference_ttft_ratio", "ratio", "TTFT of a request that is sent while the server computes a long prompt, divided by its TTFT alone: the median of the latest 60 runs. lower and upper are bounds with 95 % confidence. Only for modules with interference; absent with fewer than 6 runs, and while long prompts have their first token before the other request is sent.", func(f *InterferenceFinding) *workload.Interval { return &f.Ratio }),
		one("ttft_alone_seconds", "Median TTFT of the request alone, in the runs of inference_probe_interference_ttft_ratio.", func(f *InterferenceFinding) float64 { return f.Alone }),
		one("ttft_beside_seconds", "Median TTFT of the request beside a long prompt, in the runs of inference_probe_interference_ttft_ratio.", func(f *InterferenceFinding) float64 { return f.Beside }),
		one("long_ttft_seconds", "Median TTFT of the long prompt, in the runs of inference_probe_interference_ttft_ratio.", func(f *InterferenceFinding) float64 { return f.Long }),
	}
}
