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
	return poisson(n, a.Rate, most, rng)
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
