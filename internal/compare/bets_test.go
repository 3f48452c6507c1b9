package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near[T ~float64](a, b T) bool { return math.Abs(float64(a-b)) < 1e-9 }

func TestCapital(t *testing.T) {
	c := newCapital()
	// The mean of 1 + i/20 over i from 1 to 20, and that of its square.
	if got := c.play(1); !near(got, 1.525) {
		t.Errorf("after a win: %v", got)
	}
	if got := c.play(1); !near(got, 1+2*0.525+2870.0/20/400) {
		t.Errorf("after two wins: %v", got)
	}
	if got := newCapital().play(-1); !near(got, 1-0.525) {
		t.Errorf("after a loss: %v", got)
	}
}

// The mean of the capital over all sequences of fair signs is 1, whatever their size.
func TestFairGamesGainNothing(t *testing.T) {
	sizes := []float64{0.1, 3, 0.02, 1, 100, 0.5, 0.5, 7, 0.001, 2}
	sum := 0.0
	for signs := range 1 << len(sizes) {
		test := newTest(TTFT, Defaults())
		test.margin = 0
		for i, size := range sizes {
			if signs>>i&1 == 1 {
				size = -size
			}
			test.add(Figures{TTFT: 1}, Figures{TTFT: math.Exp(size)})
		}
		for _, v := range test.above {
			sum += v / stakes
		}
	}
	// The scale depends on the signs before, not on the one that is bet on.
	if got := sum / float64(int(1)<<len(sizes)); !near(got, 1) {
		t.Errorf("mean capital %v, want 1", got)
	}
}

func TestScores(t *testing.T) {
	f := func(name string, play score, s sample, value, want float64) {
		t.Helper()
		if got := play(s, value); !near(got, want) {
			t.Errorf("%s of %+v at %v: got %v, want %v", name, s, value, got, want)
		}
	}
	f("centre above", centreAbove, sample{0.5, 0}, 0.1, 1)
	f("centre above", centreAbove, sample{0.1, 0}, 0.1, 0)
	f("centre above", centreAbove, sample{-0.5, 0}, 0.1, -1)
	f("centre above", centreAbove, sample{0.4, 0.2}, 0.1, 1)
	f("centre above", centreAbove, sample{0.25, 0.2}, 0.1, 0.5)
	f("centre below", centreBelow, sample{0.25, 0.2}, 0.1, -0.5)
	f("centre above", centreAbove, sample{-50, 0.2}, 0.1, -1)
	f("mean above", meanAbove, sample{value: 0.25}, 0.25, 0)
	f("mean above", meanAbove, sample{value: 1}, 0.25, 0.6)
	f("mean above", meanAbove, sample{value: -1}, 0.25, -1)
	f("mean below", meanBelow, sample{value: -1}, 0.25, 1.25/0.75)
	f("mean below", meanBelow, sample{value: 1}, 0.25, -1)
}

// The deviation is that of normal noise, and stays it with outliers.
func TestDeviation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var samples []sample
	if deviation(samples) != 0 {
		t.Error("a deviation without samples")
	}
	for i := range 2000 {
		v := 7 + 0.3*rng.NormFloat64()
		if i%50 == 0 {
			v = 1e6
		}
		samples = append(samples, sample{value: v})
	}
	if got := deviation(samples); math.Abs(got-0.3) > 0.03 {
		t.Errorf("got %v, want 0.3", got)
	}
}

// The bounds hold at every look at once: in at most alpha of the seeds the truth is ever
// outside of one. The samples have a heavy tail.
func TestBoundsHoldWheneverOneLooks(t *testing.T) {
	const centre, alpha, looks = 0.3, 0.1, 30
	missed, seeds := map[string]int{}, 200
	if testing.Short() {
		seeds = 40
	}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var latencies, shares []sample
		ever := map[string]bool{}
		for range looks {
			noise := rng.NormFloat64() / (0.2 + math.Abs(rng.NormFloat64()))
			latencies = append(latencies, sample{centre + 0.2*noise, deviation(latencies)})
			share := sample{}
			if rng.Float64() < centre {
				share.value = 1
			}
			shares = append(shares, share)
			f := func(name string, samples []sample, above, below score, lowest, highest float64) {
				lower := bound(samples, above, lowest, highest, alpha)
				upper := bound(samples, below, highest, lowest, alpha)
				ever[name+" lower"] = ever[name+" lower"] || lower > centre
				ever[name+" upper"] = ever[name+" upper"] || upper < centre
			}
			f("centre", latencies, centreAbove, centreBelow, -7, 7)
			f("mean", shares, meanAbove, meanBelow, -0.999, 0.999)
		}
		for name, is := range ever {
			if is {
				missed[name]++
			}
		}
	}
	t.Log(missed)
	for name, n := range missed {
		if n > seeds/10 {
			t.Errorf("%s: missed in %d of %d", name, n, seeds)
		}
	}
}
