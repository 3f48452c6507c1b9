package load

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// What the fit of TTFT over the length takes its samples from.
const (
	// prefillSpan is how far back it looks; without prefillWanted samples in it, as far as prefillReach.
	prefillSpan   = time.Hour
	prefillReach  = 6 * time.Hour
	prefillWanted = 30
	// maxPrefillSamples bounds the samples.
	maxPrefillSamples = 240
)

// What the samples must be like for the fit to say something.
const (
	minPrefillSamples = 20
	// edgeSamples is how many samples there must be at each end of the lengths: one or two would decide the slope.
	edgeSamples = 5
	// minLengthRatio and minLengthGap are how far apart the ends must be.
	minLengthRatio, minLengthGap = 2, 256
	maxRateError                 = 0.25 // the greatest half-width of the interval of the rate
	// maxCurvature is by how much the time of one more token may differ between the ends, relative to its mean.
	maxCurvature = 0.1
)

// Prefill is the estimate of the prefill of one endpoint: TTFT is the fixed part and grows with each prompt token that
// is not in the prefix cache. It is that of the typical probe: few slow ones do not move it. It assumes that each token
// takes as long as another and noise that is independent and in proportion to TTFT; slow hours move only the value.
type Prefill struct {
	TokensPerSecond workload.Interval `json:"prefill_tokens_per_second"` // the speed on uncached prompt tokens
	// FixedSeconds is the part that does not depend on the length: network, queue, tokenising of the least, and
	// the first step of decoding. It is not negative, nor is its lower bound.
	FixedSeconds workload.Interval `json:"ttft_fixed_seconds"`
}

// prefillSample is one probe: how many tokens it had the server compute, and its TTFT in seconds.
type prefillSample struct {
	at              time.Time
	tokens, seconds float64
}

type prefill struct {
	// first is the first sample. Samples are kept from the first on that is far
	// from it in length: with a single length there is nothing to fit.
	first   prefillSample
	samples []prefillSample // in the order of time
}

// observe adds a result, if it shows how long a prefill took that nothing else of this run was in the way of.
func (p *prefill) observe(r *result.Result, now time.Time) {
	tokens, ok := uncached(r)
	if !ok || !timed(r) || r.Concurrency > 0 {
		return
	}
	s := prefillSample{now, float64(tokens), r.Timing.TTFT.Seconds()}
	if p.first.at.IsZero() {
		p.first = s
		return
	}
	if p.samples == nil {
		if !farApart(min(s.tokens, p.first.tokens), max(s.tokens, p.first.tokens)) {
			return
		}
		p.samples = append(p.samples, p.first)
	}
	p.samples = stats.AppendLatest(p.samples, s, maxPrefillSamples)
}

// uncached returns how many tokens of the prompt the server had to compute.
func uncached(r *result.Result) (tokens int, ok bool) {
	n := r.Tokens
	switch {
	case n.Prompt <= 0 || n.Cached > n.Prompt:
		return 0, false
	case n.Cached >= 0:
		return n.Prompt - n.Cached, true
	}
	return n.Prompt, cold(r)
}

// timed reports whether the TTFT of a result can be relied on.
func timed(r *result.Result) bool {
	return r.Outcome == result.Success && (r.Kind == api.Generation || r.Kind == "") &&
		r.Timing.TTFT > 0 && !r.Imprecise && !r.Buffered
}

func farApart(short, long float64) bool {
	return long >= minLengthRatio*short && long-short >= minLengthGap
}

func (p *prefill) expire(now time.Time) {
	left := len(p.samples)
	p.samples = stats.DropOld(p.samples, func(s prefillSample) bool {
		age := now.Sub(s.at)
		old := age >= prefillReach || (age >= prefillSpan && left > prefillWanted)
		left--
		return old
	})
}

// estimate fits a line, and returns nil where the samples do not support one.
func (p *prefill) estimate(now time.Time) *Prefill {
	p.expire(now)
	if len(p.samples) < minPrefillSamples {
		return nil
	}
	byLength := slices.SortedFunc(slices.Values(p.samples), func(a, b prefillSample) int { return cmp.Compare(a.tokens, b.tokens) })
	n := len(byLength)
	if !farApart(byLength[edgeSamples-1].tokens, byLength[n-edgeSamples].tokens) {
		return nil
	}
	shortest, longest := byLength[0].tokens, byLength[n-1].tokens
	middle, half := (shortest+longest)/2, (longest-shortest)/2
	t, y := make([]float64, n), make([]float64, n)
	for i, s := range byLength {
		t[i], y[i] = (s.tokens-middle)/half, s.seconds
	}
	line, ok := fit(t, y, 2)
	if !ok || line.coef[1] <= 0 || curved(t, y) {
		return nil
	}
	return line.prefill(middle, half, n)
}

// prefill turns a line over (tokens - middle) / half into the two parts of TTFT;
// nil where the rate is known too badly, or the fixed part would be negative.
func (p *polynomial) prefill(middle, half float64, n int) *Prefill {
	bound := stats.StudentT95(n - 2)
	level, slope := p.coef[0], p.coef[1]
	slopeError := bound * math.Sqrt(p.cov[1][1])
	if slopeError > maxRateError*slope {
		return nil
	}
	m := middle / half
	fixed := level - m*slope
	fixedError := bound * math.Sqrt(max(0, p.cov[0][0]-2*m*p.cov[0][1]+m*m*p.cov[1][1]))
	if fixed+fixedError < 0 {
		return nil
	}
	return &Prefill{
		TokensPerSecond: workload.Interval{Value: half / slope, Lower: half / (slope + slopeError), Upper: half / (slope - slopeError)},
		FixedSeconds:    workload.Interval{Value: max(0, fixed), Lower: max(0, fixed-fixedError), Upper: fixed + fixedError},
	}
}

// curved reports whether the time of one more token certainly differs between the shortest and the longest length, as
// where attention begins to weigh more than the rest: then there is no one rate. With few lengths between the ends it
// is not known. t is sorted. The ends are where edgeSamples lie: the first long prompt must not decide alone.
func curved(t, y []float64) bool {
	low, high := t[edgeSamples-1], t[len(t)-edgeSamples]
	between := 0
	for _, v := range t {
		if math.Abs(v-(low+high)/2) < 0.9*(high-low)/2 {
			between++
		}
	}
	if between < edgeSamples {
		return false
	}
	parabola, ok := fit(t, y, 3)
	if !ok {
		return true
	}
	bound := stats.StudentT95(len(t) - 3)
	change := 4 * (math.Abs(parabola.coef[2]) - bound*math.Sqrt(parabola.cov[2][2]))
	return change > maxCurvature*math.Abs(parabola.coef[1])
}

// Constants of the robust fit.
const (
	// tuning is where Tukey's biweight gives a sample no weight any more, in standard deviations: as usual, at
	// 5 % less efficiency for normal noise.
	tuning = 4.685
	// maxRounds bounds the iteration, which settles within about ten.
	maxRounds = 30
	// settled is the change of the coefficients, relative to the size of what is fitted, at which it ends.
	settled    = 1e-5
	leastNoise = 1e-4 // the least noise that is assumed: a clock has a resolution
)

// polynomial is a fit of y by a polynomial of t, whose noise is proportional to y.
type polynomial struct {
	coef [maxTerms]float64
	cov  matrix // of coef
}

// maxTerms is the most terms of a polynomial: a parabola.
const maxTerms = 3

// matrix is a symmetric one; only the terms of the polynomial are used.
type matrix [maxTerms][maxTerms]float64

// fit finds the polynomial that describes most samples best: least squares of the residuals relative to the fit, where
// samples far off have little weight or none (Tukey's biweight). It begins with residuals relative to y itself, so that
// what is far too high has little weight from the start. y must be positive. false is that samples do not determine it.
func fit(t, y []float64, terms int) (p polynomial, ok bool) {
	fitted, weights := slices.Clone(y), slices.Repeat([]float64{1}, len(y))
	residuals, sizes := make([]float64, len(y)), make([]float64, len(y))
	noise := 0.0
	for range maxRounds {
		before := p.coef
		if p.coef, ok = leastSquares(t, y, fitted, weights, terms); !ok {
			return p, false
		}
		for i := range t {
			at := p.at(t[i], terms)
			fitted[i] = at
			if at <= 0 { // only noise: what is fitted is positive
				fitted[i] = y[i]
			}
			residuals[i] = (y[i] - at) / fitted[i]
		}
		noise = max(leastNoise, stats.Deviation(residuals, sizes))
		for i, r := range residuals {
			weights[i] = biweight(r / noise)
		}
		change := 0.0
		for k := range terms {
			change = max(change, math.Abs(p.coef[k]-before[k]))
		}
		if change < settled*math.Abs(p.coef[0]) {
			break
		}
	}
	p.cov, ok = covariance(t, fitted, residuals, noise, terms)
	return p, ok
}

func (p *polynomial) at(t float64, terms int) float64 {
	v := 0.0
	for k := terms - 1; k >= 0; k-- {
		v = v*t + p.coef[k]
	}
	return v
}

// biweight is the weight of a sample by its residual in standard deviations.
func biweight(u float64) float64 {
	if math.Abs(u) >= tuning {
		return 0
	}
	v := 1 - (u/tuning)*(u/tuning)
	return v * v
}

// leastSquares minimizes the sum of weight × ((y - polynomial) / fitted)².
func leastSquares(t, y, fitted, weights []float64, terms int) (coef [maxTerms]float64, ok bool) {
	var normal matrix
	var right [maxTerms]float64
	for i := range t {
		powers := normal.add(t[i], weights[i]/(fitted[i]*fitted[i]), terms)
		for k := range terms {
			right[k] += powers[k] * y[i]
		}
	}
	inverse, ok := normal.inverse(terms)
	if !ok {
		return coef, false
	}
	for j := range terms {
		for k := range terms {
			coef[j] += inverse[j][k] * right[k]
		}
	}
	return coef, true
}

// covariance returns that of the coefficients by the asymptotics of M-estimates, corrected for degrees of freedom.
func covariance(t, fitted, residuals []float64, noise float64, terms int) (cov matrix, ok bool) {
	var normal matrix
	n, sumSquares, sumSlopes := float64(len(t)), 0.0, 0.0
	for i, r := range residuals {
		u := r / noise
		normal.add(t[i], 1/(fitted[i]*fitted[i]), terms)
		influence := u * biweight(u)
		sumSquares += influence * influence
		if v := u / tuning; math.Abs(v) < 1 {
			sumSlopes += (1 - v*v) * (1 - 5*v*v)
		}
	}
	inverse, ok := normal.inverse(terms)
	if !ok || sumSlopes <= 0 {
		return cov, false
	}
	scale := noise * noise * (sumSquares / (n - float64(terms))) / ((sumSlopes / n) * (sumSlopes / n))
	for j := range terms {
		for k := range terms {
			cov[j][k] = inverse[j][k] * scale
		}
	}
	return cov, true
}

// add adds a sample of a weight at t to the normal equations, and returns w × t⁰, w × t¹ and so on.
func (m *matrix) add(t, w float64, terms int) (powers [2*maxTerms - 1]float64) {
	powers[0] = w
	for k := 1; k < 2*terms-1; k++ {
		powers[k] = powers[k-1] * t
	}
	for j := range terms {
		for k := range terms {
			m[j][k] += powers[j+k]
		}
	}
	return powers
}

// inverse inverts by elimination, which needs no exchange of rows if positive definite; what is not quite is refused.
func (m matrix) inverse(terms int) (out matrix, ok bool) {
	size := m
	for i := range terms {
		out[i][i] = 1
	}
	for i := range terms {
		pivot := m[i][i]
		if !(pivot > 1e-9*size[i][i]) { // false for NaN, too
			return out, false
		}
		for k := range terms {
			m[i][k] /= pivot
			out[i][k] /= pivot
		}
		for j := range terms {
			if j == i {
				continue
			}
			factor := m[j][i]
			for k := range terms {
				m[j][k] -= factor * m[i][k]
				out[j][k] -= factor * out[i][k]
			}
		}
	}
	return out, true
}
