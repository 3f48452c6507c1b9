package alerts

import (
	"math"
	"strconv"
	"testing"
)

// enoughMissed is what the alert asks for of n checks of which a share
// fails as a rule.
func enoughMissed(n, usual float64) int {
	expected := n * usual
	return int(math.Ceil(expected + checkSigmas*math.Sqrt(expected*(1-usual)) + checkExtra))
}

// TestQualityDrop checks that chance alone does not make that many answers fail
// their check, and that a drop which users would notice does before long.
func TestQualityDrop(t *testing.T) {
	drop, err := strconv.ParseFloat(smallestQualityDrop, 64)
	if err != nil {
		t.Fatal(err)
	}
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
	// As few checks as are looked at.
	f(fewestChecks, 0.001, 0.2)
	f(fewestChecks, 0.1, 0.5)
}
