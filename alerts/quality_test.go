package alerts

import (
	"math"
	"strconv"
	"testing"
)

// atLeast returns the probability that of n independent trials at least k
// happen, each with probability p.
func atLeast(k, n int, p float64) float64 {
	sum := 0.0
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// number returns a number that the rows of the set quality have by a name.
func number(name string) float64 {
	v, err := strconv.ParseFloat(readRows(Options{}, "quality").Let[name], 64)
	if err != nil {
		panic(err)
	}
	return v
}

// TestFewestForMedian computes how often the medians of two samples of the
// fewest probes differ by a factor of 1.5 by chance, where the logarithm of
// TTFT is normal with a standard deviation of 0.5.
func TestFewestForMedian(t *testing.T) {
	// The median of n has a standard deviation of about 1.2533 / sqrt(n).
	sd := 1.2533 * 0.5 / math.Sqrt(fewestForMedian) * math.Sqrt2
	if p := math.Erfc(math.Log(1.5)/sd/math.Sqrt2) / 2; p > 2e-4 {
		t.Errorf("a ratio of 1.5 is chance in %.2g of the looks", p)
	}
}

// enoughMissed is what the alert asks for of n checks of which a share
// fails as a rule.
func enoughMissed(n, usual float64) int {
	expected := n * usual
	return int(math.Ceil(expected + number("check_sigmas")*math.Sqrt(expected*(1-usual)) + number("check_extra")))
}

// TestQualityDrop checks that chance alone does not make that many answers fail
// their check, and that a drop which users would notice does before long.
func TestQualityDrop(t *testing.T) {
	drop, fewestChecks := number("smallest_quality_drop"), int(number("fewest_checks"))
	for _, usual := range []float64{0.001, 0.01, 0.05, 0.1, 0.3, 0.6} {
		for _, n := range []int{fewestChecks, 60, 120, 360, 720} {
			enough := max(enoughMissed(float64(n), usual), int((usual+drop)*float64(n))+1)
			if alpha := atLeast(enough, n, usual); alpha > 3e-4 {
				t.Errorf("%d checks, %g fail as a rule: %d are chance in %.2g of the looks", n, usual, enough, alpha)
			}
		}
	}
	f := func(n int, usual, now float64) {
		t.Helper()
		enough := max(enoughMissed(float64(n), usual), int((usual+drop)*float64(n))+1)
		if power := atLeast(enough, n, now); power < 0.8 {
			t.Errorf("%d checks, from %g to %g: found with a probability of only %.2f", n, usual, now, power)
		}
	}
	// An hour and six hours of a probe every 30 s.
	f(120, 0.001, 0.1)
	f(120, 0.1, 0.3)
	f(720, 0.1, 0.2)
	// Six hours of the built-in module tool-call.
	f(72, 0.01, 0.15)
	// As few checks as are looked at.
	f(fewestChecks, 0.001, 0.2)
	f(fewestChecks, 0.1, 0.5)
}

// TestAnswersBroken computes how often chance alone makes half an hour look broken, of
// independent answers whose hours deviate as much as such answers do. 90 days are 4320
// half hours; the factor of 3 stands for those that overlap.
func TestAnswersBroken(t *testing.T) {
	fewestChecks := int(number("fewest_checks"))
	// enough is how many of n answers must be wrong.
	enough := func(n int, usual float64) int {
		spread := math.Sqrt(usual * (1 - usual) / float64(2*n)) // of an hour
		return int((usual+max(number("broken_drop"), number("broken_spreads")*spread))*float64(n)) + 1
	}
	for _, usual := range []float64{0.01, 0.05, 0.1, 0.2, 0.4} {
		for _, n := range []int{fewestChecks, 60, 120, 360} {
			if alpha := atLeast(enough(n, usual), n, usual); alpha*4320*3 > 1 {
				t.Errorf("%d answers of which %g are wrong as a rule: %.2g pages in 90 days", n, usual, alpha*4320*3)
			}
		}
	}
	for _, usual := range []float64{0.01, 0.05, 0.1, 0.2} {
		if power := atLeast(enough(120, usual), 120, 0.5+usual/2); power < 0.95 {
			t.Errorf("half of the right answers become wrong, from %g: found with a probability of %.2f", usual, power)
		}
	}
}
