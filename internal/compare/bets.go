package compare

import (
	"math"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// The tests are games against a hypothesis. Each sample changes the capital of a player who began with 1 and bets that
// the hypothesis is false: by a factor whose mean is at most 1 if it is true. By Ville's inequality a true hypothesis
// lets the capital reach 1/alpha, ever, with a probability of at most alpha. So one may look after each sample and stop
// at any time, and nothing is assumed of the distribution but what the score of a game says.
//
// Sources: J. Ville, Étude critique de la notion de collectif, 1939; G. Shafer, Testing by betting, Journal of the
// Royal Statistical Society A 184, 2021; I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by
// betting, Journal of the Royal Statistical Society B 86, 2024, which has the scores of means, the stakes and the
// bounds below.

// sample is what one pair of probes showed of a quantity: candidate less baseline.
type sample struct {
	value float64
	// scale is the standard deviation of samples before it; 0 is not known.
	scale float64
}

// score is what a player wins by a sample for each unit of the stake, at least -1. Its
// mean is at most 0 if the hypothesis with the given value is true.
type score func(s sample, value float64) float64

// clip is how many standard deviations count of a sample at most. The score is Huber's (Robust estimation of a location
// parameter, 1964), which loses little with normal noise, and to which an outlier is one sample like another.
const clip = 1.5

// centreAbove is against the hypothesis that the samples, given those before them, are symmetric about a centre of at
// most value. Where two servers are equal and the order within each pair is drawn, the centre is 0, whatever the
// distribution and whatever drifts: to swap the two changes but the sign.
func centreAbove(s sample, value float64) float64 {
	if s.scale > 0 {
		return min(1, max(-1, (s.value-value)/(clip*s.scale)))
	}
	switch {
	case s.value > value:
		return 1
	case s.value < value:
		return -1
	}
	return 0
}

// centreBelow is against a centre of at least value.
func centreBelow(s sample, value float64) float64 { return -centreAbove(s, value) }

// meanAbove is against the hypothesis that the samples, of -1 to 1, have a mean of at most value given those before.
func meanAbove(s sample, value float64) float64 { return (s.value - value) / (1 + value) }

// meanBelow is against a mean of at least value.
func meanBelow(s sample, value float64) float64 { return (value - s.value) / (1 - value) }

// stakes is how many players there are: the capital is the mean of theirs, and the
// player i of them, counted from 1, stakes the share i/stakes of the own.
const stakes = 20

type capital [stakes]float64

func newCapital() *capital {
	c := new(capital)
	for i := range c {
		c[i] = 1
	}
	return c
}

// play plays for a score, and returns the mean of the capital.
func (c *capital) play(won float64) float64 {
	sum := 0.0
	for i := range c {
		c[i] *= 1 + float64(i+1)/stakes*won
		sum += c[i]
	}
	return sum / stakes
}

// most returns the highest capital that a game had.
func most(samples []sample, play score, value float64) float64 {
	c, highest := newCapital(), 1.0
	for _, s := range samples {
		highest = max(highest, c.play(play(s, value)))
	}
	return highest
}

// bound returns the value between reached, at which the capital of a game reaches 1/alpha, and missed, at which it does
// not, up to which it does; NaN where it does not at reached either. The capital is monotonic in the value.
func bound(samples []sample, play score, reached, missed, alpha float64) float64 {
	if most(samples, play, reached) < 1/alpha {
		return math.NaN()
	}
	for math.Abs(reached-missed) > 1e-5 {
		middle := (reached + missed) / 2
		if most(samples, play, middle) >= 1/alpha {
			reached = middle
		} else {
			missed = middle
		}
	}
	return reached
}

// The standard deviation is that of the first samples: at least minScaled, so that there
// is one, and at most maxScaled, by which it is known within a fifth.
const (
	minScaled = 4
	maxScaled = 30
)

// deviation returns the standard deviation of samples, whatever their centre; 0 where they are too few.
func deviation(samples []sample) float64 {
	if len(samples) < minScaled {
		return 0
	}
	values := stats.Map(samples, func(s sample) float64 { return s.value })
	slices.Sort(values)
	median := stats.Median(values)
	for i := range values {
		values[i] -= median
	}
	return stats.Deviation(values, values)
}
