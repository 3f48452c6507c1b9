package estimate

import (
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// bursts is what the latest run with bursts came to. It is replaced as a whole,
// never changed.
type bursts struct {
	latest  []Burst
	knee    *Knee
	carried *Carried
}

// observe adds a run. One that we ended ourselves says nothing.
func (b *bursts) observe(results []*result.Result, objective time.Duration) {
	var next bursts
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
		v, ok := measure(level)
		if !ok {
			return
		}
		first := len(next.latest) == 0
		next.latest = append(next.latest, v)
		if next.knee == nil && objective > 0 && misses(level, objective) && (!first || underLoad(level)) {
			next.knee = &Knee{v.Concurrency, v.TokensPerSecond}
		}
		if next.knee == nil && objective > 0 && v.Failed == 0 && !misses(level, objective) {
			next.carried = &Carried{v.Concurrency, v.TokensPerSecond}
		}
	}
	if next.latest != nil {
		*b = next
	}
}

// measure returns what a burst came to; false where it was canceled.
func measure(level []*result.Result) (b Burst, ok bool) {
	b = Burst{Concurrency: level[0].Concurrency, StartSpread: -1}
	var firstSent, lastSent, lastEnd time.Time
	tokens, known := 0, true
	for _, r := range level {
		if r.Outcome == result.Canceled {
			return b, false
		}
		if !r.Sent.IsZero() {
			if firstSent.IsZero() || r.Sent.Before(firstSent) {
				firstSent = r.Sent
			}
			if r.Sent.After(lastSent) {
				lastSent = r.Sent
			}
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
	if !firstSent.IsZero() {
		b.StartSpread = lastSent.Sub(firstSent)
	}
	if took := lastEnd.Sub(firstSent); known && b.Failed < len(level) && took > 0 {
		b.TokensPerSecond = float64(tokens) / took.Seconds()
	}
	return b, true
}

// answered reports whether the server did its part, whatever the answer: how fast
// it was is of interest also where it was wrong.
func answered(r *result.Result) bool {
	return r.Outcome == result.Success || r.Outcome == result.CheckFailed
}

// misses reports whether the 90th percentile of TTFT in the burst, the smallest
// value that nine tenths of the requests do not exceed, is above the objective. A
// request that failed is above it; one that was answered without a TTFT that can
// be vouched for does not count.
func misses(level []*result.Result, objective time.Duration) bool {
	within, counted := 0, 0
	for _, r := range level {
		if answered(r) && r.Timing.TTFT < 0 {
			continue
		}
		counted++
		if answered(r) && r.Timing.TTFT <= objective {
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
