package prober

import (
	"math/rand/v2"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// arrivals returns at which time from the first each of n requests is to start; nil
// is all at once.
func arrivals(a *config.Arrivals, n int, most time.Duration, rng *rand.Rand) []time.Duration {
	if a == nil {
		return nil
	}
	if a.Process == config.ArrivalRecorded {
		return recorded(a.Profile, n, most, rng)
	}
	return poisson(n, a.Rate, most, rng)
}

// recorded returns n arrivals that follow each other in the profile, from the first of
// them. Which is drawn from all such stretches that do not take longer than most; nil
// where there is none.
func recorded(profile config.Profile, n int, most time.Duration, rng *rand.Rand) []time.Duration {
	var firsts []int
	for i, span := range profile.Spans(n) {
		if span <= most {
			firsts = append(firsts, i)
		}
	}
	if len(firsts) == 0 {
		return nil
	}
	first := firsts[rng.IntN(len(firsts))]
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = profile[first+i] - profile[first]
	}
	return all
}

// poisson draws n arrivals of a Poisson process, the first of them at 0: the times
// between two are exponentially distributed with the mean 1/rate, in seconds. One
// that would be later than most is at most.
func poisson(n int, rate float64, most time.Duration, rng *rand.Rand) []time.Duration {
	all := make([]time.Duration, n)
	at := 0.0
	for i := 1; i < n; i++ {
		at = min(at+rng.ExpFloat64()/rate, most.Seconds())
		all[i] = time.Duration(at * float64(time.Second))
	}
	return all
}
