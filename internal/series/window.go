package series

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Samples without which an estimate says little: below, the 99th percentile is the slowest
// sample, and the median moves with every probe.
const minSamplesP50, minSamplesP99 = 10, 100

// Indexes of the statistics of a window.
const (
	P50 = iota
	P99
	P99Lower
	P99Upper
	NumWindowStats
)

// WindowStats lists the label values in the order of the indexes.
func WindowStats() []string { return []string{"p50", "p99", "p99_lower", "p99_upper"} }

// Window has the statistics of the last hour's times to first token.
type Window struct {
	// Samples is how many probes there are, failures before the first token included.
	Samples int
	// Seconds are the statistics by index; NaN where the samples do not carry one, or it
	// would be a token that did not come.
	Seconds [NumWindowStats]float64
}

// WindowRanks returns which of n samples is each statistic, counted from the smallest,
// which is 1; 0 when n is too few for it. The bounds of the 99th percentile hold with
// 95 % confidence each, without any assumption on the distribution.
func WindowRanks(n int) (ranks [NumWindowStats]int) {
	if n >= minSamplesP50 {
		ranks[P50] = stats.Rank(n, 0.5)
	}
	if n >= minSamplesP99 {
		ranks[P99] = stats.Rank(n, 0.99)
	}
	ranks[P99Lower], ranks[P99Upper] = stats.RankBounds(n, 0.99, 0.05)
	return ranks
}

// BeginWindow begins the window again, as for another model: with what is added from now on.
func (l *Log) BeginWindow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.added = 0
}

// Window returns the window of the hour before now. A first token that did not come is later
// than any other.
func (l *Log) Window(now time.Time) Window {
	var room [maxWindow]time.Duration
	sorted := l.samples(room[:0], now)
	slices.Sort(sorted)
	w := Window{Samples: len(sorted)}
	for i, rank := range WindowRanks(len(sorted)) {
		w.Seconds[i] = math.NaN()
		if rank > 0 && sorted[rank-1] != math.MaxInt64 {
			w.Seconds[i] = float64(sorted[rank-1]/time.Microsecond) / 1e6
		}
	}
	return w
}

// WindowSamples returns how many samples Window has.
func (l *Log) WindowSamples(now time.Time) int {
	var room [maxWindow]time.Duration
	return len(l.samples(room[:0], now))
}

// samples appends the times to first token of the last hour. What is more than an hour ahead,
// as the clock was set back, is left out.
func (l *Log) samples(all []time.Duration, now time.Time) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	const span = int64(windowSpan / (time.Second / 10))
	at := tenths(now) - l.began
	left := l.added
	for r := range l.latest() {
		if left == 0 || int64(r.at) <= at-span || len(all) == maxWindow {
			break
		}
		left--
		if !r.marks.has(inWindow) || int64(r.at) > at+span {
			continue
		}
		d := r.ttft.duration()
		if d < 0 {
			d = math.MaxInt64
		}
		all = append(all, d)
	}
	return all
}
