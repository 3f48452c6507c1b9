package collector

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// windowSpan is how far back a window looks.
	windowSpan = time.Hour
	// maxWindowSamples bounds a window: an hour of probes every 3.6 s.
	maxWindowSamples = 1024
)

// Samples without which an estimate says little: below, the 99th percentile is
// the slowest sample, and the median moves with every probe.
const (
	minSamplesP50 = 10
	minSamplesP99 = 100
)

// Indexes of the statistics of a window.
const statP50, statP99, statP99Lower, statP99Upper, numWindowStats = 0, 1, 2, 3, 4

// windowStats lists the label values in the order of the indexes.
func windowStats() []string { return []string{"p50", "p99", "p99_lower", "p99_upper"} }

// windowRanks returns which of n samples is each statistic, counted from the smallest,
// which is 1; 0 when n is too few for it. The bounds of the 99th percentile hold with
// 95 % confidence each, without any assumption on the distribution.
func windowRanks(n int) (ranks [numWindowStats]int) {
	if n >= minSamplesP50 {
		ranks[statP50] = stats.Rank(n, 0.5)
	}
	if n >= minSamplesP99 {
		ranks[statP99] = stats.Rank(n, 0.99)
	}
	ranks[statP99Lower], ranks[statP99Upper] = stats.RankBounds(n, 0.99, 0.05)
	return ranks
}

// windowSample is the time to first token of one probe.
type windowSample struct {
	at   uint32 // when the probe was started, in seconds since the window was made
	ttft uint32 // microseconds, or noToken
}

// noToken is the value of a missing first token: later than any other.
const noToken = ^uint32(0)

// window keeps the times to first token of the last hour's probes. Samples are
// small because there is a window for each series.
type window struct {
	began   time.Time
	samples []windowSample // in the order of time
}

// observe adds a probe that was started at the given time. A negative ttft is a
// token that did not come; so is one that came later than the window is long.
func (w *window) observe(start time.Time, ttft time.Duration) {
	s := windowSample{at: w.seconds(start), ttft: noToken}
	if ttft >= 0 && ttft <= windowSpan {
		s.ttft = uint32(ttft.Round(time.Microsecond) / time.Microsecond)
	}
	w.expire(start)
	w.samples = stats.AppendLatest(w.samples, s, maxWindowSamples)
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
	w.samples = slices.Delete(w.samples, 0, n)
}

// stats returns the statistics by index in windowStats. One is absent when there are
// too few samples, or when it would be a token that did not come.
func (w *window) stats() (all [numWindowStats]gauge) {
	var room [maxWindowSamples]uint32
	sorted := room[:len(w.samples)]
	for i, s := range w.samples {
		sorted[i] = s.ttft
	}
	slices.Sort(sorted)
	for i, rank := range windowRanks(len(sorted)) {
		if rank > 0 && sorted[rank-1] != noToken {
			all[i].set(float64(sorted[rank-1]) / 1e6)
		}
	}
	return all
}

// Window has the statistics of the last hour's times to first token, in
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
	all := w.stats()
	return &Window{
		Samples: len(w.samples),
		P50:     all[statP50].pointer(), P99: all[statP99].pointer(),
		P99Lower: all[statP99Lower].pointer(), P99Upper: all[statP99Upper].pointer(),
	}
}

// windowFamilies are statistics of the time to first token over the last hour.
func windowFamilies() []*probeFamily {
	return []*probeFamily{
		windowFamily(Family{
			Name: "probe_ttft_window_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"stat"}, Values: windowStats(),
			Help: "Time to first token over the last hour, or over the latest 1,024 probes if those are fewer. Each value is a measured one. Failures before the first token count as slower than any success; confirmations, disturbed and imprecise probes and probes with more events than tokens do not count. With count_waiting the waits of inference_probe_waiting_total count too. p50 needs 10 probes, p99 needs 100. p99_lower and p99_upper are bounds of the 99th percentile, each with 95 % confidence; p99_upper needs 299 probes. Absent with too few probes, or if the value falls on a failure.",
		}, func(e encoder, f *family, w *window) {
			all := w.stats()
			emitGauges(e, f, all[:])
		}),
		windowFamily(Family{
			Name: "probe_ttft_window_samples", Type: Gauge,
			Help: "Number of probes in inference_probe_ttft_window_seconds, including failures before the first token.",
		}, func(e encoder, _ *family, w *window) { e.gauge(0, float64(len(w.samples))) }),
	}
}

// windowFamily returns a family of the current window.
func windowFamily(f Family, emit func(e encoder, f *family, w *window)) *probeFamily {
	return newProbeFamily(f, nil, func(e encoder, f *family, v *values) {
		if v.slo == nil {
			return
		}
		v.slo.ttfts.expire(v.now())
		emit(e, f, &v.slo.ttfts)
	})
}
