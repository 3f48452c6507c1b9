package report

import (
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/google/go-cmp/cmp"
)

// TestRanks compares with hand arithmetic and with a table of the exact
// binomial test (share of samples over a threshold above 1 %, at 5 %).
func TestRanks(t *testing.T) {
	f := func(n int, p float64, lower, upper int) {
		t.Helper()
		if l, u := ranks(n, p); l != lower || u != upper {
			t.Errorf("%d samples, quantile %g: ranks %d and %d, want %d and %d", n, p, l, u, lower, upper)
		}
	}
	// 0.5^4 = 6.25 % is too often, 0.5^5 = 3.1 % is not.
	f(0, 0.5, 0, 0)
	f(4, 0.5, 0, 0)
	f(5, 0.5, 1, 5)
	// (1 + 8) / 2^8 = 3.5 %, (1 + 8 + 28) / 2^8 = 14 %.
	f(8, 0.5, 2, 7)
	// (1+20+190+1140+4845) / 2^20 = 0.6 %, with 15504 2.07 %, with 38760 5.8 %.
	f(20, 0.5, 6, 15)
	// 0.99^298 = 5.003 % is too often, 0.99^299 = 4.95 % is not.
	f(298, 0.99, 298+1-lowest(298), 0)
	f(299, 0.99, 299+1-lowest(299), 299)
	// Of n samples the k highest prove that the quantile is not below them.
	for n, k := range map[int]int{5: 1, 10: 2, 20: 2, 30: 2, 60: 3, 120: 4, 240: 6} {
		f(n, 0.99, n+1-k, 0)
	}
	// At most so many of n above a threshold prove that it is not exceeded.
	f(360, 0.99, 360+1-8, 360)
	f(720, 0.99, 720+1-13, 720-2)
	f(1440, 0.99, 1440+1-22, 1440-7)
	f(5760, 0.99, 5760+1-71, 5760-44)
}

func TestSamplesForABound(t *testing.T) {
	f := func(got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%d samples, want %d", got, want)
		}
	}
	f(samplesForUpper(0.99), 299)
	f(samplesForUpper(0.95), 59)
	f(samplesForUpper(0.5), 5)
	f(samplesForLower(0.5), 5)
	f(samplesForLower(0.99), 1)
}

func TestQuantile(t *testing.T) {
	sorted := func(n int) []time.Duration {
		out := make([]time.Duration, n)
		for i := range out {
			out[i] = time.Duration(i+1) * ms
		}
		return out
	}
	f := func(n int, p float64, want time.Duration) {
		t.Helper()
		if got := quantileOf(sorted(n), p).value; got != want {
			t.Errorf("quantile %g of 1 to %d ms: %s, want %s", p, n, got, want)
		}
	}
	f(1, 0.5, 1*ms)
	f(1, 0.99, 1*ms)
	f(2, 0.5, 1*ms)
	f(5, 0.5, 3*ms)
	f(99, 0.99, 99*ms)
	f(100, 0.99, 99*ms)
	f(101, 0.99, 100*ms)
	f(700, 0.99, 693*ms)
	q := quantileOf(sorted(20), 0.5)
	if *q.lower != 6*ms || *q.upper != 15*ms {
		t.Errorf("bounds %s and %s, want 6ms and 15ms", *q.lower, *q.upper)
	}
	if q := quantileOf(sorted(20), 0.99); *q.lower != 19*ms || q.upper != nil {
		t.Errorf("bounds %s and %v, want 19ms and none", *q.lower, q.upper)
	}
}

// series is 8 successes with TTFT 10 to 80 ms, out of order and one of them of
// a single token, and three failures, whose latencies do not count.
func series() *Summary {
	var s Summary
	for i, n := range []int{3, 1, 4, 2, 8, 5, 7, 6} {
		r := oneToken()
		r.Timing.TTFT = time.Duration(n) * 10 * ms
		r.Timing.TTFO = r.Timing.TTFT
		if i > 0 {
			r.Timing.TPOT, r.Timing.MaxGap = 20*ms, time.Duration(20+n)*ms
		}
		r.Timing.Duration = r.Timing.TTFT + time.Second
		s.Add(r)
	}
	s.Add(stalled())
	s.Add(refused())
	again := refused()
	again.Err = errors.New("another reason")
	s.Add(again)
	return &s
}

func TestSummary(t *testing.T) {
	s := series()
	if s.Probes() != 11 || s.Outcome(result.Success) != 8 || s.Outcome(result.RateLimited) != 2 || s.Outcome(result.Empty) != 0 {
		t.Errorf("%d probes, outcomes %v", s.Probes(), s.outcomes)
	}
	got := describe(s.samples["ttft_seconds"])
	lower, upper := 20*ms, 70*ms // ranks 2 and 7 of 8
	want := distribution{
		n: 8, min: 10 * ms, max: 80 * ms,
		p50: quantile{40 * ms, &lower, &upper},
		p99: quantile{value: 80 * ms, lower: got.p99.lower},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(distribution{}, quantile{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(s.samples["tpot_seconds"]); n != 7 {
		t.Errorf("%d samples of TPOT, want 7", n)
	}
	golden(t, "summary.txt", func(w io.Writer) error { return s.Text(w, target, Options{Width: 80}) })
	golden(t, "summary.json", func(w io.Writer) error { return s.JSON(indented{w}, target) })
}

func TestSummaryOfNothing(t *testing.T) {
	golden(t, "summary-empty.txt", func(w io.Writer) error { return new(Summary).Text(w, target, Options{Width: 80}) })
	golden(t, "summary-empty.json", func(w io.Writer) error { return new(Summary).JSON(indented{w}, target) })
}

// lowest is the least k for which k of n samples or more above the 99th
// percentile come at most 5 % of the time, by the sum itself.
func lowest(n int) int {
	tail := 1.0
	for k := 0; ; k++ {
		if tail <= alpha {
			return k
		}
		c := 1.0
		for i := range k {
			c = c * float64(n-i) / float64(i+1)
		}
		tail -= c * math.Pow(0.01, float64(k)) * math.Pow(0.99, float64(n-k))
	}
}
