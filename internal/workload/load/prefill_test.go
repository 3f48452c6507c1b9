package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const ms = time.Millisecond

type labOf = lab.Lab[*Estimate, *Finding]

func newLab() *labOf {
	return lab.New[*Estimate, *Finding](func() *Estimate { return &Estimate{module: new(config.Module), conversations: conversations{}} })
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

// near reports whether two numbers are equal but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// server is a server whose true prefill is known.
type server struct {
	fixed    float64 // seconds
	rate     float64 // tokens per second
	curve    float64 // seconds per token and token
	noise    float64 // standard deviation relative to TTFT
	outliers float64 // share of probes that take thrice as long
	random   *rand.Rand
}

func newServer(seed uint64) *server {
	return &server{fixed: 0.05, rate: 10_000, noise: 0.1, random: rand.New(rand.NewPCG(seed, 1))}
}

// ask returns the probe of a prompt of about a length.
func (s *server) ask(length int) *result.Result {
	length += int(0.01 * float64(length) * s.random.NormFloat64())
	n := float64(length)
	seconds := (s.fixed + n/s.rate + s.curve*n*n) * max(0.1, 1+s.noise*s.random.NormFloat64())
	if s.random.Float64() < s.outliers {
		seconds *= 3
	}
	return lab.Probe(length, time.Duration(seconds*float64(time.Second)))
}

// fitted returns the estimate from n probes of the lengths in turn.
func (s *server) fitted(n int, lengths ...int) *Prefill {
	l := newLab()
	for i := range n {
		l.Run(s.ask(lengths[i%len(lengths)]))
	}
	if l.Last == nil {
		return nil
	}
	return l.Last.Prefill
}

func TestPrefillOfExactSamples(t *testing.T) {
	s := newServer(1)
	s.noise = 0
	p := s.fitted(30, 256, 1024, 4096)
	if p == nil {
		t.Fatal("no estimate")
	}
	for name, v := range map[string]struct {
		workload.Interval
		want float64
	}{"rate": {p.TokensPerSecond, 10_000}, "fixed part": {p.FixedSeconds, 0.05}} {
		if math.Abs(v.Value/v.want-1) > 1e-4 || v.Lower > v.Value || v.Upper < v.Value || v.Upper/v.Lower > 1.01 {
			t.Errorf("%s: %+v, want %v", name, v.Interval, v.want)
		}
	}
}

// The length that counts is that of what was not cached.
func TestPrefillCountsUncachedTokens(t *testing.T) {
	s := newServer(1)
	s.noise = 0
	l := newLab()
	for range 15 { // pairs of 4000 tokens, of which the second time 3968 are cached
		second := warm(s.ask(32))
		second.Tokens.Prompt += 3968
		l.Run(s.ask(4000), cached(second, 3968))
	}
	if l.Last == nil || l.Last.Prefill == nil || math.Abs(l.Last.Prefill.TokensPerSecond.Value/10_000-1) > 1e-4 {
		t.Errorf("%+v, want 10000 tokens/s", l.Last)
	}
}

// Each of these alone keeps a sample out.
func TestWhatIsNoSample(t *testing.T) {
	for name, change := range map[string]func(*result.Result){
		"failed":             func(r *result.Result) { r.Outcome = result.TimeoutStall },
		"of a burst":         func(r *result.Result) { r.Concurrency = 1 },
		"imprecise":          func(r *result.Result) { r.Imprecise = true },
		"buffered":           func(r *result.Result) { r.Buffered = true },
		"no first token":     func(r *result.Result) { r.Timing.TTFT = result.Absent },
		"prompt not counted": func(r *result.Result) { r.Tokens.Prompt = -1 },
		"warm, cache not reported": func(r *result.Result) {
			r.Prefix = "warm"
		},
		"asked again and again, cache not reported": func(r *result.Result) { r.Length = 0 },
		"more cached than asked":                    func(r *result.Result) { r.Tokens.Cached = r.Tokens.Prompt + 1 },
		"scoring":                                   func(r *result.Result) { r.Kind = api.Scoring },
	} {
		s, l := newServer(1), newLab()
		for i := range 60 {
			l.Run(lab.With(s.ask([]int{256, 1024, 4096}[i%3]), change))
		}
		if l.Last != nil && l.Last.Prefill != nil {
			t.Errorf("%s: %+v", name, l.Last.Prefill)
		}
	}
}

func TestPrefillIsAbsent(t *testing.T) {
	f := func(name string, want bool, n int, change func(*server), lengths ...int) {
		t.Helper()
		s := newServer(1)
		change(s)
		if p := s.fitted(n, lengths...); (p != nil) != want {
			t.Errorf("%s: %+v, want one: %v", name, p, want)
		}
	}
	as := func(*server) {}
	f("19 samples", false, 19, as, 256, 4096)
	f("20 samples", true, 20, as, 256, 4096)
	f("one length", false, 60, as, 1024)
	f("less than twice as long", false, 60, func(s *server) { s.noise = 0 }, 1000, 1800)
	f("less than 256 tokens longer", false, 60, func(s *server) { s.noise = 0 }, 16, 250)
	f("far enough", true, 60, func(s *server) { s.noise = 0 }, 250, 550)
	f("4 long ones", false, 24, as, 256, 256, 256, 256, 256, 4096)
	f("5 long ones", true, 30, func(s *server) { s.noise = 0.02 }, 256, 256, 256, 256, 256, 4096)
	f("only noise", false, 60, func(s *server) { s.rate = 1e9 }, 256, 4096)
	f("noise of half", false, 30, func(s *server) { s.noise = 0.5 }, 256, 512)
	f("shorter for longer ones", false, 60, func(s *server) { s.fixed, s.rate = 1, -10_000 }, 256, 4096)
	// The last token takes 3 times as long as the first: 2 × 32000 × curve is
	// twice 1/rate.
	f("attention weighs", false, 60, func(s *server) { s.curve = 1. / 10_000 / 32_000 }, 1000, 8000, 32000)
	f("attention weighs little", true, 60, func(s *server) { s.curve = 1. / 10_000 / 32_000 / 40 }, 1000, 8000, 32000)
	// 5 ms less than nothing.
	f("negative fixed part", false, 60, func(s *server) { s.fixed, s.noise = -0.005, 0.001 }, 256, 4096)
}

// The first prompt may be longer than all others, as nobody knew the tokenizer. It
// is no third length, and alone no sign that TTFT is no straight line.
func TestOneLongerPromptIsNoCurve(t *testing.T) {
	for seed := range uint64(200) {
		s, l := newServer(seed), newLab()
		l.Run(s.ask(5240))
		for i := range 29 {
			l.Run(s.ask([]int{256, 4096}[i%2]))
		}
		if l.Last == nil || l.Last.Prefill == nil {
			t.Fatalf("no estimate from data set %d", seed)
		}
	}
}

// A fixed part of nearly nothing is known to be between nothing and little.
func TestFixedPartIsNotNegative(t *testing.T) {
	for seed := range uint64(20) {
		s := newServer(seed)
		s.fixed = 0
		if p := s.fitted(60, 256, 1024, 4096); p != nil && (p.FixedSeconds.Lower != 0 || p.FixedSeconds.Value < 0 || p.FixedSeconds.Upper <= 0) {
			t.Errorf("seed %d: %+v", seed, p.FixedSeconds)
		}
	}
}

func TestPrefillWindow(t *testing.T) {
	l, s := newLab(), newServer(1)
	expect := func(what string, samples int) {
		t.Helper()
		l.Run()
		if got := len(l.Estimate.prefill.samples); got != samples {
			t.Errorf("%s: %d samples, want %d", what, got, samples)
		}
	}
	for i := range 300 {
		l.Run(s.ask([]int{256, 4096}[i%2]))
	}
	expect("at most", 240)
	l.Now = l.Now.Add(time.Hour - 200*time.Second)
	expect("of the last hour", 198)
	l.Now = l.Now.Add(time.Hour)
	expect("where the hour has none", 30)
	if l.Last.Prefill == nil {
		t.Error("the rest says nothing")
	}
	l.Now = l.Now.Add(5 * time.Hour)
	if expect("after seven hours", 0); l.Last != nil {
		t.Errorf("nothing says %+v", l.Last)
	}
}

// accuracy is how far estimates are from the truth over many data sets: relative
// errors, sorted, and how often the bounds enclose it.
type accuracy struct {
	rate, fixed           []float64
	rateWithin, fixWithin int
	absent                int
}

// judge estimates from data sets of n probes of the lengths in turn.
func judge(sets, n int, outliers, fixed float64, lengths ...int) (a accuracy) {
	for seed := range sets {
		s := newServer(uint64(seed))
		s.outliers, s.fixed = outliers, fixed
		p := prefill{}
		for i := range n {
			p.observe(s.ask(lengths[i%len(lengths)]), time.Unix(int64(i), 0))
		}
		e := p.estimate(time.Unix(int64(n), 0))
		if e == nil {
			a.absent++
			continue
		}
		add := func(errs *[]float64, within *int, v workload.Interval, want float64) {
			*errs = append(*errs, math.Abs(v.Value/want-1))
			if v.Lower <= want && want <= v.Upper {
				*within++
			}
		}
		add(&a.rate, &a.rateWithin, e.TokensPerSecond, s.rate)
		add(&a.fixed, &a.fixWithin, e.FixedSeconds, s.fixed)
	}
	slices.Sort(a.rate)
	slices.Sort(a.fixed)
	return a
}

// quantile returns that of sorted values.
func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }

// With noise of 10 % the typical error of 30 probes is far below 5 %, with
// outliers, too, and the bounds are honest.
func TestPrefillAccuracy(t *testing.T) {
	const sets = 1000
	f := func(name string, a accuracy, rate95, fixed95 float64) {
		t.Helper()
		t.Logf("%s: error of the rate %.4f, 95 %% below %.4f; of the fixed part %.4f, %.4f; absent %d", name,
			quantile(a.rate, 0.5), quantile(a.rate, 0.95), quantile(a.fixed, 0.5), quantile(a.fixed, 0.95), a.absent)
		if m := quantile(a.rate, 0.5); m > 0.05 {
			t.Errorf("%s: median error of the rate %v", name, m)
		}
		if m := quantile(a.fixed, 0.5); m > 0.05 {
			t.Errorf("%s: median error of the fixed part %v", name, m)
		}
		if q := quantile(a.rate, 0.95); q > rate95 {
			t.Errorf("%s: 95th percentile of the error of the rate %v, want %v", name, q, rate95)
		}
		if q := quantile(a.fixed, 0.95); q > fixed95 {
			t.Errorf("%s: 95th percentile of the error of the fixed part %v, want %v", name, q, fixed95)
		}
		found := float64(sets - a.absent)
		for what, within := range map[string]int{"rate": a.rateWithin, "fixed part": a.fixWithin} {
			if share := float64(within) / found; share < 0.92 || share > 0.98 {
				t.Errorf("%s: the bounds of the %s enclose it in a share of %v", name, what, share)
			}
		}
		if a.absent > sets/40 {
			t.Errorf("%s: absent in %d of %d", name, a.absent, sets)
		}
	}
	// By theory 1.96 standard errors of 15 + 15 probes, and a tenth for the
	// robustness: with TTFTs of 0.0516 and 0.4596 s at 16 and 4096 tokens
	// 1.96 × 0.1/sqrt(15) × sqrt(0.0516² + 0.4596²) / 0.408 is 5.7 % of the slope.
	f("pairs", judge(sets, 30, 0, 0.05, 16, 4096), 1.1*0.057, 1.1*0.053)
	f("30 of each length", judge(sets, 60, 0, 0.05, 16, 4096), 0.05, 0.05)
	f("30 of each length, outliers", judge(sets, 60, 0.05, 0.05, 16, 4096), 0.05, 0.05)
	f("ladder", judge(sets, 30, 0, 0.05, 256, 1024, 4096), 0.08, 0.13)
	f("ladder, 30 of each", judge(sets, 90, 0.05, 0.05, 256, 1024, 4096), 0.05, 0.075)
}

func TestInverse(t *testing.T) {
	m := matrix{{4, 2, 1}, {2, 5, 3}, {1, 3, 6}} // its determinant is 67
	got, ok := m.inverse(3)
	want := matrix{{21. / 67, -9. / 67, 1. / 67}, {-9. / 67, 23. / 67, -10. / 67}, {1. / 67, -10. / 67, 16. / 67}}
	for j := range want {
		for k := range want {
			if !near(got[j][k], want[j][k]) {
				t.Errorf("[%d][%d] is %v, want %v", j, k, got[j][k], want[j][k])
			}
		}
	}
	if !ok {
		t.Error("refused")
	}
	for name, singular := range map[string]matrix{
		"zero": {}, "one length": {{2, 6}, {6, 18}}, "not a number": {{math.NaN(), 0}, {0, 1}},
	} {
		if _, ok := singular.inverse(2); ok {
			t.Errorf("%s: inverted", name)
		}
	}
}

// Samples on a polynomial give the polynomial, outliers aside.
func TestFitIsExact(t *testing.T) {
	f := func(name string, terms int, want [maxTerms]float64, outlier float64) {
		t.Helper()
		var x, y []float64
		for i := range 30 {
			at := float64(i%6)/2.5 - 1
			v := want[0] + want[1]*at + want[2]*at*at
			if i%10 == 5 {
				v *= outlier
			}
			x, y = append(x, at), append(y, v)
		}
		got, ok := fit(x, y, terms)
		if !ok {
			t.Fatalf("%s: no fit", name)
		}
		for k := range terms {
			if math.Abs(got.coef[k]-want[k]) > 1e-6 {
				t.Errorf("%s: %v, want %v", name, got.coef, want)
				break
			}
		}
	}
	f("line", 2, [3]float64{0.3, 0.2}, 1)
	f("a tenth thrice as long", 2, [3]float64{0.3, 0.2}, 3)
	f("a tenth a third as long", 2, [3]float64{0.3, 0.2}, 1./3)
	f("parabola", 3, [3]float64{0.5, 0.2, 0.1}, 1)
	f("parabola with outliers", 3, [3]float64{0.5, 0.2, 0.1}, 3)
	if _, ok := fit([]float64{1, 1, 1}, []float64{1, 2, 3}, 2); ok {
		t.Error("a line through one length")
	}
}

// The line through the means of two lengths x1 and x2, with noise of a share s
// of y, has the slope (m2 - m1) / (x2 - x1), whose variance is
// s² (y1²/n1 + y2²/n2) / (x2 - x1)². The covariance must say so, and the slopes of
// many fits must scatter so; normal noise costs the robust fit 5 % of variance.
func TestSlopeScattersAsTheorySays(t *testing.T) {
	const level, slope, share, n, runs = 0.3, 0.2, 0.1, 200, 400
	low, high := level-slope, level+slope
	want := share * math.Sqrt((low*low+high*high)/(n/2)) / 2
	random := rand.New(rand.NewPCG(1, 2))
	var sumSquares, sumClaimed float64
	for range runs {
		var x, y []float64
		for i := range n {
			at := float64(2*(i%2) - 1)
			x, y = append(x, at), append(y, (level+slope*at)*(1+share*random.NormFloat64()))
		}
		p, ok := fit(x, y, 2)
		if !ok {
			t.Fatal("no fit")
		}
		sumSquares += (p.coef[1] - slope) * (p.coef[1] - slope)
		sumClaimed += math.Sqrt(p.cov[1][1])
	}
	if got := math.Sqrt(sumSquares/runs) / want; got < 0.93 || got > 1.12 { // 1/sqrt(0.95), and 3 standard errors of 1/sqrt(2 × 400)
		t.Errorf("slopes scatter %v times as much as they must", got)
	}
	if got := sumClaimed / runs / want; got < 0.97 || got > 1.08 {
		t.Errorf("the standard error is %v times what it must be", got)
	}
}

// An ordinary module has no findings.
func TestNothing(t *testing.T) {
	l := newLab()
	if f := l.Run(); f != nil {
		t.Errorf("no results give %+v", f)
	}
	for range 300 {
		if f := l.Run(lab.Probe(256, 20*time.Millisecond)); f != nil {
			t.Fatalf("a single length gives %+v", f)
		}
	}
	if n := cap(l.Estimate.prefill.samples); n != 0 {
		t.Errorf("%d samples of a single length are kept", n)
	}
}

func TestCanceledSaysNothing(t *testing.T) {
	if f := newLab().Run(lab.With(cached(lab.Probe(256, time.Second), 256), func(r *result.Result) { r.Outcome = result.Canceled })); f != nil {
		t.Errorf("findings %+v, want none", f)
	}
}

// BenchmarkPrefillAccuracy reports relative errors over 2,000 data sets with 10 %
// noise.
func BenchmarkPrefillAccuracy(b *testing.B) {
	for _, lengths := range [][]int{{16, 4096}, {256, 4096}, {256, 1024, 4096}, {256, 512, 1024, 2048, 4096}, {1000, 8000, 32000}} {
		for _, n := range []int{30, 60, 90, 240} {
			for _, outliers := range []float64{0, 0.05} {
				b.Run(fmt.Sprintf("%v/n=%d/outliers=%v", lengths, n, outliers), func(b *testing.B) {
					var a accuracy
					for b.Loop() {
						a = judge(2000, n, outliers, 0.05, lengths...)
					}
					b.ReportMetric(100*quantile(a.rate, 0.5), "%rate-p50")
					b.ReportMetric(100*quantile(a.rate, 0.95), "%rate-p95")
					b.ReportMetric(100*quantile(a.fixed, 0.5), "%fixed-p50")
					b.ReportMetric(100*quantile(a.fixed, 0.95), "%fixed-p95")
					b.ReportMetric(float64(100*a.rateWithin)/float64(len(a.rate)), "%rate-within")
					b.ReportMetric(float64(100*a.absent)/2000, "%absent")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
