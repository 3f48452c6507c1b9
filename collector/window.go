package collector

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// windowSpan is how far back a window looks.
	windowSpan = time.Hour
	// maxWindowSamples bounds a window: an hour of probes every 3.6 s.
	maxWindowSamples = 1024
)

// windowSample is the time to first token of one probe.
type windowSample struct {
	at   uint32 // when the probe was started, in seconds since the window was made
	ttft uint32 // microseconds, or noToken
}

// noToken stands for a first token that did not come: later than any that did.
const noToken = ^uint32(0)

// window keeps the times to first token of the last hour's probes. Samples are
// small because there is a window for each series.
type window struct {
	began   time.Time
	samples []windowSample // in the order of time
	sorted  []uint32       // their ttft in the order of size
}

// observe adds a probe that was started at the given time. A negative ttft is a
// token that did not come; so is one that came later than the window is long.
func (w *window) observe(start time.Time, ttft time.Duration) {
	s := windowSample{at: w.seconds(start), ttft: noToken}
	if ttft >= 0 && ttft <= windowSpan {
		s.ttft = uint32(ttft.Round(time.Microsecond) / time.Microsecond)
	}
	w.expire(start)
	if len(w.samples) == maxWindowSamples {
		w.drop(1)
	}
	w.samples = append(w.samples, s)
	i, _ := slices.BinarySearch(w.sorted, s.ttft)
	w.sorted = slices.Insert(w.sorted, i, s.ttft)
}

// seconds returns t in the unit of samples. Both times come from one clock, so
// that a step of the wall clock leaves the window as it is.
func (w *window) seconds(t time.Time) uint32 {
	return uint32(max(0, t.Sub(w.began)) / time.Second)
}

// expire drops what is an hour old.
func (w *window) expire(now time.Time) {
	n, age := 0, uint32(windowSpan/time.Second)
	for at := w.seconds(now); n < len(w.samples) && w.samples[n].at+age <= at; n++ {
	}
	w.drop(n)
}

// drop removes the n oldest samples.
func (w *window) drop(n int) {
	for _, s := range w.samples[:n] {
		i, _ := slices.BinarySearch(w.sorted, s.ttft)
		w.sorted = slices.Delete(w.sorted, i, i+1)
	}
	w.samples = slices.Delete(w.samples, 0, n)
}

// stat returns a statistic, which is absent when there are too few samples, or
// when it would be a token that did not come.
func (w *window) stat(s windowStat) gauge {
	rank := s.rank(len(w.sorted))
	if rank == 0 || w.sorted[rank-1] == noToken {
		return gauge{}
	}
	return gauge{float64(w.sorted[rank-1]) / 1e6, true}
}

// Window is what the probes of the last hour tell of the time to first token, in
// seconds: what the families of the window publish.
type Window struct {
	// Samples is how many probes there are, failures before the first token
	// included.
	Samples int
	// P50 and P99 are percentiles, P99Lower and P99Upper the bounds of the 99th,
	// each with 95 % confidence. Nil is a statistic that the samples do not carry.
	P50, P99, P99Lower, P99Upper *float64
}

// TTFTWindow returns the window of the series at this moment; nil where the
// families of the window have no series: without objectives, and of endpoints
// that do not generate tokens, or are not yet known to.
func (s *Series) TTFTWindow() *Window {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values
	if v.slo == nil || v.kind != api.Generation {
		return nil
	}
	w := &v.slo.ttfts
	w.expire(v.now())
	return &Window{
		Samples: len(w.samples),
		P50:     w.stat(statP50).pointer(), P99: w.stat(statP99).pointer(),
		P99Lower: w.stat(statP99Lower).pointer(), P99Upper: w.stat(statP99Upper).pointer(),
	}
}
