package estimate

import (
	"math"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Constants of the robust fit.
const (
	// tuning is where Tukey's biweight gives a sample no weight any more, in
	// standard deviations: the usual value, at which normal noise costs 5 % of
	// the efficiency.
	tuning = 4.685
	// maxRounds bounds the iteration, which settles within about ten.
	maxRounds = 30
	// settled is the change of the coefficients, relative to the size of what is
	// fitted, at which it ends.
	settled = 1e-5
	// leastNoise is the least noise that is assumed: a clock has a resolution.
	leastNoise = 1e-4
)

// polynomial is a fit of y by a polynomial of t, whose noise is proportional to
// y.
type polynomial struct {
	coef [maxTerms]float64
	cov  matrix // of coef
}

// maxTerms is the most terms of a polynomial: a parabola.
const maxTerms = 3

// matrix is a symmetric one; only the terms of the polynomial are used.
type matrix [maxTerms][maxTerms]float64

// fit finds the polynomial with a number of terms that describes most samples
// best: least squares of the residuals relative to the fit, where samples far off
// have little weight or none (Tukey's biweight). It begins with residuals
// relative to y itself, so that what is far too high has little weight from the
// start. y must be positive. It returns false when the samples do not determine
// the polynomial.
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

// at returns the value of the polynomial.
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
		w := weights[i] / (fitted[i] * fitted[i])
		normal.add(t[i], w, terms)
		power := 1.0
		for k := range terms {
			right[k] += w * power * y[i]
			power *= t[i]
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

// covariance returns that of the coefficients, by the asymptotic theory of
// M-estimates, for small samples with the usual correction of the degrees of
// freedom.
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

// add adds w × (1, t, t²) × its transpose.
func (m *matrix) add(t, w float64, terms int) {
	powers := [2*maxTerms - 1]float64{w}
	for k := 1; k < 2*terms-1; k++ {
		powers[k] = powers[k-1] * t
	}
	for j := range terms {
		for k := range terms {
			m[j][k] += powers[j+k]
		}
	}
}

// inverse inverts by elimination, which needs no exchange of rows for what is
// positive definite; what is not quite is refused.
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
