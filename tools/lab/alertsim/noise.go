package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// chance makes probes bad: a share of them, each on its own or with a memory. What makes one
// probe slow often makes the next one slow too.
type chance struct {
	random *rand.Rand
	value  float64
	at     time.Time
}

// isBad draws a probe that starts at a time. With a memory it is bad while a normally
// distributed process, whose correlation falls to 1/e in that time, is above the share's
// quantile: the logarithm of a latency is such a process.
func (c *chance) isBad(share float64, memory time.Duration, at time.Time) bool {
	if memory == 0 {
		return c.random.Float64() < share
	}
	kept := math.Exp(-at.Sub(c.at).Seconds() / memory.Seconds())
	c.value = kept*c.value + math.Sqrt(1-kept*kept)*c.random.NormFloat64()
	c.at = at
	return c.value > math.Sqrt2*math.Erfinv(1-2*share)
}

// shareAbove is the share of latencies above a threshold after all of them grew by a factor,
// where they spread log-normally with the deviation sigma of their logarithm and the threshold
// was their p99.
func shareAbove(factor, sigma float64) float64 {
	const z99 = 2.3263478740408408 // the normal distribution's p99
	return math.Erfc((z99-math.Log(factor)/sigma)/math.Sqrt2) / 2
}
