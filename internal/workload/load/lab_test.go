package load

import (
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// lab is an estimate on a clock that the test sets.
type lab struct {
	now      time.Time
	estimate *Estimate // of the latest model
	tracker  *workload.Tracker
	last     *Finding
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newLab() *lab {
	l := &lab{now: noon()}
	l.tracker = workload.NewTracker(func() time.Time { return l.now }, func() []workload.Estimate {
		l.estimate = &Estimate{module: new(config.Module)}
		return []workload.Estimate{l.estimate}
	})
	return l
}

// run observes a run, a second after the one before.
func (l *lab) run(results ...*result.Result) *Finding {
	l.now = l.now.Add(time.Second)
	l.last, _ = workload.In[*Finding](l.tracker.Observe(results))
	return l.last
}

// probe returns a success of a cold prompt, whose reply reports no cache.
func probe(prompt int, ttft time.Duration) *result.Result {
	return &result.Result{
		Outcome: result.Success, Kind: api.Generation, Model: "m", Prefix: "cold", Length: prompt,
		Timing: result.Timing{TTFT: ttft, TPOT: result.Absent, Duration: ttft},
		Tokens: result.Tokens{Prompt: prompt, Cached: -1, Output: 1, Reasoning: -1, Source: result.TokensFromUsage},
	}
}

// with changes a result.
func with(r *result.Result, change func(*result.Result)) *result.Result {
	change(r)
	return r
}

// cached lets a reply report how much of the prompt was cached.
func cached(r *result.Result, n int) *result.Result {
	r.Tokens.Cached = n
	return r
}

func warm(r *result.Result) *result.Result {
	r.Prefix = "warm"
	return r
}

const ms = time.Millisecond

// near reports whether two numbers are equal but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }
