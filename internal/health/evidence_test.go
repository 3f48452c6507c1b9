package health

import (
	"math"
	"testing"
	"time"
)

// How often evidence is wrong by chance, and how soon it is found, is simulated in tools/lab/alertsim.

// Failures of which each comes within a gap of the one before are a cluster. Of clusters whose
// mean size is m, (1-1/m)^(n-1) have n or more.
func TestExpected(t *testing.T) {
	c := chance{allowed: 0.01, interval: 30 * time.Second}
	e := &evidence{Size: 3}
	// Before any is seen: a share of 0.001, so that in the 10 probes of a gap another one comes with
	// 1 - 0.999^10 = 0.009955...; of all others, which begin a cluster, there are 0.001/30 in a second.
	further := 1 - math.Pow(0.999, 10)
	want := 0.001 / 30 * (1 - further) * 90 * 86400 * further * further
	if got := e.expected(c, 0, begin()); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("%g, want %g", got, want)
	}
	// 40 clusters of 60 failures in 4 days: a mean of (20 usual ones + 60) / 60, and (3 + 40) in 4 days
	// and as long as 3 usual ones take.
	today := begin().Unix() / 86400
	e.Days = []clusters{{Day: today - 9, N: 1000, Bad: 1000}, {Day: today - 2, N: 30, Bad: 45}, {Day: today, N: 10, Bad: 15}}
	mean := (20/(1-further) + 60) / 60
	rate := (3 + 40) / (3/(0.001/30*(1-further)) + 4*86400)
	want = rate * 90 * 86400 * math.Pow(1-1/mean, 2)
	if got := e.expected(c, 4*day, begin()); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("with clusters seen: %g, want %g", got, want)
	}
}
