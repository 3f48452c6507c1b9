package loadtest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// answer returns a success that was sent at some second of the run, and had 100 tokens of answer to 400 of prompt.
func answer(sent, ttft, took float64) Sample {
	return Sample{
		Sent: seconds(sent), TTFT: seconds(ttft), TPOT: 10 * time.Millisecond, Ended: seconds(sent + took),
		Input: 400, Output: 100, Outcome: result.Success,
	}
}

func failure(sent, took float64) Sample {
	return Sample{Sent: seconds(sent), Ended: seconds(sent + took), TTFT: result.Absent, TPOT: result.Absent, Input: -1, Output: -1, Outcome: result.TimeoutTotal}
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// recorded returns a level from second 100 to second 160, whose load was there at second 106.
func recorded(samples ...Sample) *Recorded {
	return &Recorded{Level: 4, Begin: seconds(100), Full: seconds(106), Stop: seconds(160), Samples: samples}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want)) }

// The steady state begins when all requests that were sent while the load rose have ended, at the latest after a third.
func TestSteadyState(t *testing.T) {
	f := func(name string, want float64, samples ...Sample) {
		t.Helper()
		if got := Measure(recorded(samples...), nil, Context{}).Seconds; !near(got, want) {
			t.Errorf("%s: %v s, want %v", name, got, want)
		}
	}
	f("no requests", 160-106)
	f("all have ended before the load was there", 160-106, answer(101, 1, 2))
	f("one ends later", 160-110, answer(105, 1, 5), answer(107, 1, 20))
	f("one ends after a third of the time", 160-120, answer(105, 1, 40))
	never := recorded(answer(105, 1, 40))
	never.Full = 0
	if l := Measure(never, nil, Context{}); l.Seconds != 0 || l.Requests != 0 || l.OutputTokensPerSecond != 0 {
		t.Errorf("a level whose load was never there has figures: %+v", l)
	}
}

// What each request adds, with the window from 110 to 160 s, by hand.
func TestMeasureCounts(t *testing.T) {
	late := answer(130, 9, 10)
	late.Late = true
	bad := answer(140, 4, 5)
	bad.Judgement.Bad = 1 << series.TTFT
	canceled := failure(150, 10)
	canceled.Outcome = result.Canceled
	l := Measure(recorded(
		answer(105, 1, 5),  // warm-up: it ends when the window begins
		answer(106, 2, 6),  // sent before the window: tokens from 108 to 112, half of them in it; 2 s in flight
		answer(120, 1, 11), // 100 tokens, 11 s in flight
		late,               // 100 tokens, 10 s
		bad,                // 100 tokens, 5 s
		failure(150, 2),    // 2 s
		canceled,           // 10 s
		answer(155, 1, 13), // tokens from 156 to 168, a third of them in the window, 5 s
	), &series.Objectives{TTFT: 3 * time.Second}, Context{Price: &config.Price{GPUHourUSD: 3.6, GPUs: 2}, GPUs: 2})
	if l.Requests != 5 || l.Failed != 1 || l.Late != 1 {
		t.Errorf("%d requests, %d failed, %d late, want 5, 1, 1", l.Requests, l.Failed, l.Late)
	}
	// The sample from 105 to 110 and that from 106 to 112 end the warm-up at 112.
	window := 160.0 - 112
	tokens := 100 + 100 + 100 + 100.0/3
	for name, v := range map[string][2]float64{
		"seconds":                {l.Seconds, window},
		"in flight":              {l.InFlight, (11 + 10 + 5 + 2 + 10 + 5) / window},
		"tokens per second":      {l.OutputTokensPerSecond, tokens / window},
		"tokens per GPU":         {l.OutputTokensPerSecondPerGPU, tokens / window / 2},
		"USD per million tokens": {l.USDPerMillionOutputTokens, 7.2 / 3600 * window / tokens * 1e6},
		"goodput":                {*l.Goodput, 2.0 / 4},
		"median of TTFT":         {l.TTFT.P50.Value, 1},
		"median of TPOT":         {l.TPOT.P50.Value, 0.01},
	} {
		if !near(v[0], v[1]) {
			t.Errorf("%s: %v, want %v", name, v[0], v[1])
		}
	}
	if l.TTFT.P99 != (Quantile{}) && l.TTFT.P99.Value != 0 {
		t.Errorf("one of 4 failed, and the 99th percentile is %v", l.TTFT.P99)
	}
}

// Without a price by the hour the prices of tokens count: 4 tokens of prompt for each of the answer.
func TestMeasureTokenPrices(t *testing.T) {
	c := Context{Price: &config.Price{InputUSD: 0.5, OutputUSD: 2}}
	if got := Measure(recorded(answer(120, 1, 2), answer(130, 1, 2)), nil, c).USDPerMillionOutputTokens; !near(got, 2+4*0.5) {
		t.Errorf("%v USD, want 4", got)
	}
	unknown := answer(130, 1, 2)
	unknown.Input, unknown.Output = -1, -1
	if l := Measure(recorded(answer(120, 1, 2), unknown), nil, c); l.USDPerMillionOutputTokens != 0 || l.OutputTokensPerSecond != 0 || l.Goodput != nil {
		t.Errorf("figures of unknown tokens: %+v", l)
	}
}

// Of 1,000 requests with TTFT of 1 ms to 1 s the ranks 940 and so on are known from tables of the binomial distribution:
// the bounds of the median at 97.5 % each are the ranks 469 and 532.
func TestMeasureQuantiles(t *testing.T) {
	// In each tenth of n requests there is one of each ten ranks.
	spread := func(n int) (all []Sample) {
		for i := range n {
			all = append(all, answer(120, float64(1000-i%(n/10)*10-10*i/n)/1000, 2))
		}
		return all
	}
	all := spread(1000)
	ttft := Measure(recorded(all...), nil, Context{}).TTFT
	if want := (Quantile{0.5, 0.469, 0.532}); ttft.P50 != want {
		t.Errorf("median %v, want %v", ttft.P50, want)
	}
	if ttft.P99.Value != 0.99 || ttft.P99.Lower >= 0.99 || ttft.P99.Upper <= 0.99 || ttft.P90.Value != 0.9 {
		t.Errorf("p90 %v, p99 %v", ttft.P90, ttft.P99)
	}
	// Of 100 requests there is no upper bound of the 99th percentile: 1 - 0.99^100 is 63 %.
	if q := Measure(recorded(spread(100)...), nil, Context{}).TTFT.P99; q.Upper != 0 || q.Value != 0.999 || q.Lower == 0 {
		t.Errorf("p99 of 100 requests %v", q)
	}
	// Of 99 it is above all of them in 37 % of all cases: the largest, 1 s, is none.
	if q := Measure(recorded(spread(100)[:99]...), nil, Context{}).TTFT.P99; q.Upper != 0 || q.Value != 0 || q.Lower < 0.99 {
		t.Errorf("p99 of 99 requests %v", q)
	}
}

// exactTail returns the probability of at least k of n when each has one of 1 %, in whole numbers.
func exactTail(n, k int64) float64 {
	sum := new(big.Int)
	for j := k; j <= n; j++ {
		ways := new(big.Int).Binomial(n, j)
		sum.Add(sum, ways.Mul(ways, new(big.Int).Exp(big.NewInt(99), big.NewInt(n-j), nil)))
	}
	v, _ := new(big.Rat).SetFrac(sum, new(big.Int).Exp(big.NewInt(100), big.NewInt(n), nil)).Float64()
	return v
}

func TestVerdicts(t *testing.T) {
	f := func(n, slow, failed int, want Verdict) {
		t.Helper()
		var all []Sample
		for i := range n {
			switch {
			case i < slow:
				all = append(all, answer(120, 2, 3))
			case i < slow+failed:
				all = append(all, failure(120, 3))
			default:
				all = append(all, answer(120, 1, 3))
			}
		}
		l := Measure(recorded(all...), &series.Objectives{TTFT: time.Second}, Context{})
		if confidence := exactTail(int64(n), int64(slow+failed+1)); l.Verdict != want || !near(l.Confidence, confidence) {
			t.Errorf("%d requests, %d slow, %d failed: %q with %v, want %q with %v", n, slow, failed, l.Verdict, l.Confidence, want, confidence)
		}
	}
	f(298, 0, 0, Undecided) // 0.99^298 is 5.003 %
	f(299, 0, 0, Met)       // 0.99^299 is 4.95 %
	f(299, 1, 0, Undecided)
	f(720, 2, 0, Met) // TestRankBounds of stats: with at most 2 of 720
	f(720, 3, 0, Undecided)
	f(720, 6, 6, Undecided)
	f(720, 12, 1, Missed) // and with 13
	f(1, 0, 1, Missed)    // one of one: 1 %
	f(5, 0, 0, Undecided)
}

// Of an endpoint whose 99th percentile is the objective, both verdicts are wrong, each in at most 5 % of the runs; where half or
// twice as many requests are over it, nearly all runs say so.
func TestVerdictsAreSeldomWrong(t *testing.T) {
	const runs, n = 400, 2000
	rng := rand.New(rand.NewPCG(1, 2))
	count := func(over float64) map[Verdict]int {
		verdicts := map[Verdict]int{}
		all := make([]Sample, n)
		for range runs {
			for i := range all {
				all[i] = answer(120, 0.5, 3)
				if rng.Float64() < over {
					all[i].TTFT = 2 * time.Second
				}
			}
			verdicts[Measure(recorded(all...), &series.Objectives{TTFT: time.Second}, Context{}).Verdict]++
		}
		return verdicts
	}
	// With 20 expected, at most 12 are good and at least 29 bad: 3.9 % and 3.4 % by the distribution of Poisson.
	if v := count(0.01); v[Met] > 26 || v[Missed] > 26 || v[Met]+v[Missed] < 12 {
		t.Errorf("at the objective %v", v)
	}
	// 12 or fewer where 10 are expected: 79 %; 29 or more of 40: 97 %.
	if v := count(0.005); v[Met] < 290 || v[Missed] > 0 {
		t.Errorf("with half as many %v", v)
	}
	if v := count(0.02); v[Missed] < 375 || v[Met] > 0 {
		t.Errorf("with twice as many %v", v)
	}
}

// With an objective of both, each may be wrong half as often: 13 or more of 720 are over one with 3.2 %, 14 or more with 1.5 %.
func TestVerdictOfTwoObjectives(t *testing.T) {
	for slow, want := range map[int]Verdict{13: Undecided, 14: Missed} {
		var all []Sample
		for i := range 720 {
			ttft := 1.0
			if i < slow {
				ttft = 2
			}
			all = append(all, answer(120, ttft, 3))
		}
		if l := Measure(recorded(all...), &series.Objectives{TTFT: time.Second, TPOT: time.Second}, Context{}); l.Verdict != want {
			t.Errorf("%d slow, which are %.2f %%: %q, want %q", slow, 100*exactTail(720, int64(slow)), l.Verdict, want)
		}
	}
}

// The objective of TPOT counts beside that of TTFT: the worse of both decides. Without requests there is no verdict.
func TestVerdictOfTPOT(t *testing.T) {
	var all []Sample
	for range 400 {
		all = append(all, answer(120, 1, 3))
	}
	f := func(ttft, tpot time.Duration, want Verdict) {
		t.Helper()
		if l := Measure(recorded(all...), &series.Objectives{TTFT: ttft, TPOT: tpot}, Context{}); l.Verdict != want {
			t.Errorf("objectives %v and %v: %q, want %q", ttft, tpot, l.Verdict, want)
		}
	}
	f(time.Second, 10*time.Millisecond, Met)
	f(time.Second, 9*time.Millisecond, Missed)
	f(0, 9*time.Millisecond, Missed)
	f(999*time.Millisecond, 10*time.Millisecond, Missed)
	f(0, 0, "")
	all = nil
	f(time.Second, time.Second, "")
}

// All that is not known is absent.
func TestLevelJSON(t *testing.T) {
	text, err := json.Marshal(Measure(recorded(failure(120, 2)), nil, Context{}))
	if want := `{"level":4,"at":"0001-01-01T00:00:00Z","complete":false,"seconds":54,"requests":1,"failed":1,"late":0,"in_flight":0.037037037037037035,"confidence_ratio":0}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// arrived returns the TTFT of requests in turn, whose quantiles are known exactly.
type arrived struct {
	name  string
	draw  func(rng *rand.Rand, n int) []float64
	truth func(p float64) float64
}

// oneQueue is one server of mean time 1, and independent requests of which it can serve so many times more (M/M/1): TTFT is
// exponentially distributed.
func oneQueue(load float64) arrived {
	return arrived{fmt.Sprintf("one queue, load %.0f %%", 100*load), func(rng *rand.Rand, n int) (all []float64) {
		wait := max(0, rng.ExpFloat64()/(1-load)+math.Log(load)/(1-load))
		for range n {
			at := wait + rng.ExpFloat64()
			all, wait = append(all, at), max(0, at-rng.ExpFloat64()/load)
		}
		return all
	}, func(p float64) float64 { return -math.Log(1-p) / (1 - load) }}
}

// together is users who are prefilled so many at once, and so have one TTFT.
func together(users int) arrived {
	normal := map[float64]float64{0.5: 0, 0.9: 1.2815516, 0.99: 2.3263479}
	return arrived{fmt.Sprintf("%d prefilled together", users), func(rng *rand.Rand, n int) (all []float64) {
		for range n / users {
			all = append(all, slices.Repeat([]float64{10 + rng.NormFloat64()}, users)...)
		}
		return all
	}, func(p float64) float64 { return 10 + normal[p] }}
}

// TestBoundsCover counts in how many of 1,000 runs the true quantiles are within the bounds, which state 95 %, and in how many they
// would be if requests were taken as independent of each other. docs/accuracy.md has the table that it logs.
func TestBoundsCover(t *testing.T) {
	runs, lengths := 1000, []int{200, 600, 2000}
	if testing.Short() {
		runs, lengths = 100, lengths[:2]
	}
	for _, a := range []arrived{together(1), together(4), oneQueue(0.6), oneQueue(0.8)} {
		for _, n := range lengths {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			var before, after, upper [3]int
			for range runs {
				values := a.draw(rng, n)
				q := quantiles(values)
				for i, p := range []float64{0.5, 0.9, 0.99} {
					truth, is := a.truth(p), [...]Quantile{q.P50, q.P90, q.P99}[i]
					if is.Lower <= truth && (is.Upper == 0 || truth <= is.Upper) {
						after[i]++
					}
					if is.Upper > 0 {
						upper[i]++
					}
					if l, u := stats.RankBounds(n, p, alpha/2); (l == 0 || values[l-1] <= truth) && (u == 0 || truth <= values[u-1]) {
						before[i]++
					}
				}
			}
			t.Logf("%s, %d requests: of %d runs as if independent %v, now %v, with an upper bound %v", a.name, n, runs, before, after, upper)
			for i, covered := range after {
				if covered < runs*88/100-8 {
					t.Errorf("%s, %d requests: %v of %d runs cover quantile %d", a.name, n, after, runs, i)
				}
			}
		}
	}
}
