package estimate

import (
	"math"
	"math/rand/v2"
	"testing"
)

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
