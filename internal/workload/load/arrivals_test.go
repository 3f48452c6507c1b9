package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// The times between arrivals have the mean 1/rate, the variance 1/rate² and the
// tails of the exponential distribution, and follow from the seed.
func TestPoisson(t *testing.T) {
	const n, rate = 40_001, 4.0
	draw := func() []time.Duration { return poisson(n, rate, 1e6*time.Second, rand.New(rand.NewPCG(1, 2))) }
	all := draw()
	if !slices.Equal(all, draw()) {
		t.Error("another draw with the same seed differs")
	}
	if all[0] != 0 || !slices.IsSorted(all) {
		t.Error("the arrivals do not begin at 0 and rise")
	}
	var sum, squares float64
	over := 0 // the mean, e^-1 of them
	for i := 1; i < n; i++ {
		gap := (all[i] - all[i-1]).Seconds()
		sum, squares = sum+gap, squares+gap*gap
		if gap > 1/rate {
			over++
		}
	}
	mean := sum / (n - 1)
	variance := squares/(n-1) - mean*mean
	// Standard errors by the moments of the distribution: of the mean 1/rate/√n, of the
	// variance √8/rate²/√n. Four of them.
	bound := 4 / math.Sqrt(n-1)
	if math.Abs(mean*rate-1) > bound {
		t.Errorf("mean %v s, want %v within %v", mean, 1/rate, bound/rate)
	}
	if math.Abs(variance*rate*rate-1) > math.Sqrt(8)*bound {
		t.Errorf("variance %v s², want %v", variance, 1/rate/rate)
	}
	share, want := float64(over)/(n-1), math.Exp(-1)
	if math.Abs(share-want) > bound*math.Sqrt(want*(1-want)) {
		t.Errorf("%v of the gaps above the mean, want %v", share, want)
	}
}

// No arrival is later than the bound.
func TestPoissonIsBounded(t *testing.T) {
	all := poisson(100, 1, 5*time.Second, rand.New(rand.NewPCG(1, 2)))
	if last := all[99]; last != 5*time.Second {
		t.Errorf("the last of 100 at 1/s starts after %s, want the bound of 5s", last)
	}
}

// The arrivals of a run follow each other in the recording, from 0, and each stretch that
// fits is drawn about as often as the others.
func TestRecordedArrivals(t *testing.T) {
	const s = time.Second
	profile := config.Profile{0, s, 3 * s, 3 * s, 60 * s, 61 * s}
	a := &config.Arrivals{Process: config.ArrivalRecorded, Profile: profile}
	rng := rand.New(rand.NewPCG(1, 2))
	drawn := map[string]int{}
	for range 1000 {
		drawn[fmt.Sprint(arrivals(a, 3, 10*s, rng))]++
	}
	// Those of 57 s and 58 s do not fit.
	for _, want := range []string{"[0s 1s 3s]", "[0s 2s 2s]"} {
		if n := drawn[want]; n < 400 || n > 600 { // six standard deviations of 16
			t.Errorf("%s was drawn %d times of 1000, want about 500", want, n)
		}
	}
	if len(drawn) != 2 {
		t.Errorf("drew %v", drawn)
	}
	if all := arrivals(a, 6, 61*s, rng); !slices.Equal(all, profile) {
		t.Errorf("the whole recording is %v, want %v", all, profile)
	}
}
