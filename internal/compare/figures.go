package compare

import (
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Figures are what one run of a module measured: one probe, or all requests of a module
// with several.
type Figures struct {
	// TTFT, TPOT and Duration are geometric means over the requests, in seconds; 0 where
	// not every request has one. Duration is that of requests that generate nothing.
	TTFT     float64 `json:"ttft_seconds,omitempty"`
	TPOT     float64 `json:"tpot_seconds,omitempty"`
	Duration float64 `json:"duration_seconds,omitempty"`
	// Requests is how many requests were made, Failed how many of them did not succeed
	// for another reason than a verdict on their answer.
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	// Judged is how many answers were checked or inspected for corruption, Wrong how many
	// of them were not right or have a sign of it.
	Judged int `json:"judged,omitempty"`
	Wrong  int `json:"wrong,omitempty"`
}

// NewFigures returns the figures of the results of one run.
func NewFigures(results []*result.Result) Figures {
	f := Figures{
		Requests: len(results),
		TTFT:     mean(results, func(r *result.Result) time.Duration { return r.Timing.TTFT }),
		TPOT:     mean(results, func(r *result.Result) time.Duration { return r.Timing.TPOT }),
		Duration: mean(results, func(r *result.Result) time.Duration {
			if r.Kind == api.Generation {
				return result.Absent
			}
			return r.Timing.RequestDuration()
		}),
	}
	for _, r := range results {
		v := r.Answer.Verdict
		if r.Outcome != result.Success && (r.Outcome != result.CheckFailed || v == "") {
			f.Failed++
		}
		if v != "" || r.Inspected {
			f.Judged++
		}
		if v != "" && !v.IsRight() || len(r.Integrity) > 0 {
			f.Wrong++
		}
	}
	return f
}

// mean returns the geometric mean of a latency of results in seconds; 0 where one of
// them has none that may be published.
func mean(results []*result.Result, latency func(*result.Result) time.Duration) float64 {
	sum := 0.0
	for _, r := range results {
		d := latency(r)
		if r.Outcome != result.Success || r.Imprecise || d <= 0 {
			return 0
		}
		sum += math.Log(d.Seconds())
	}
	return math.Exp(sum / float64(max(1, len(results))))
}

// of returns the figure of a quantity; false where the run has none.
func (f Figures) of(q Quantity) (value float64, ok bool) {
	switch q {
	case TTFT:
		return f.TTFT, f.TTFT > 0
	case TPOT:
		return f.TPOT, f.TPOT > 0
	case Duration:
		return f.Duration, f.Duration > 0
	case Failures:
		return share(f.Failed, f.Requests)
	}
	return share(f.Wrong, f.Judged)
}

func share(part, of int) (value float64, ok bool) {
	return float64(part) / float64(max(1, of)), of > 0
}
