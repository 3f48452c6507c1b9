package collector

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// referenceSample is a probe in the window of the reference.
type referenceSample struct {
	at   time.Time
	ttft float64 // +Inf for none
}

// promise sets the objectives of strict.
func (ref *reference) promise(t target) {
	ref.interval.WithLabelValues(t.with()...).Set(15)
	ref.timeout.WithLabelValues(t.with()...).Set(60)
	ref.configured.WithLabelValues(t.with()...).Set(float64(time.Now().UnixNano()) / 1e9)
	for own, threshold := range map[string]float64{"availability": 0, "ttft": 0.2, "tpot": 0.02, "e2e": 1} {
		ref.eligible.WithLabelValues(t.with(own)...)
		ref.bad.WithLabelValues(t.with(own)...)
		ref.objective.WithLabelValues(t.with(own)...).Set(0.95)
		if threshold > 0 {
			ref.threshold.WithLabelValues(t.with(own)...).Set(threshold)
		}
	}
}

func (ref *reference) judge(t target, r *result.Result) {
	if r.Outcome == result.Canceled {
		return
	}
	count := func(own string, isBad bool) {
		ref.eligible.WithLabelValues(t.with(own)...).Inc()
		if isBad {
			ref.bad.WithLabelValues(t.with(own)...).Inc()
		}
	}
	within := func(d, limit time.Duration) bool { return 0 <= d && d <= limit }
	ok := r.Outcome == result.Success
	count("availability", !ok)
	if !ok || !r.Imprecise {
		count("e2e", !ok || !within(r.Timing.Duration, time.Second))
	}
	if r.Outcome == result.TimeoutStall {
		count("tpot", true)
	} else if ok && !r.Imprecise && r.Timing.TPOT >= 0 {
		count("tpot", r.Timing.TPOT > 20*time.Millisecond)
	}
	if came := r.Timing.TTFT >= 0; came && r.Imprecise || ok && !came {
		return
	}
	count("ttft", !within(r.Timing.TTFT, 200*time.Millisecond))
	s := referenceSample{r.Start, math.Inf(1)}
	if within(r.Timing.TTFT, time.Hour) {
		s.ttft = float64(r.Timing.TTFT.Round(time.Microsecond).Microseconds()) / 1e6
	}
	ref.ttfts[t.Endpoint] = append(ref.ttfts[t.Endpoint], s)
}

// setWindows sets the statistics of the last hour.
func (ref *reference) setWindows(targets []target) {
	for _, t := range targets {
		var last []float64
		for _, s := range ref.ttfts[t.Endpoint] {
			if time.Since(s.at) < time.Hour {
				last = append(last, s.ttft)
			}
		}
		slices.Sort(last)
		ref.windowSamples.WithLabelValues(t.with()...).Set(float64(len(last)))
		for i, own := range windowStats() {
			if k := windowStat(i).rank(len(last)); k > 0 && !math.IsInf(last[k-1], 1) {
				ref.window.WithLabelValues(t.with(own)...).Set(last[k-1])
			}
		}
	}
}
