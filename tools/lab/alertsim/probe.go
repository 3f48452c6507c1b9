package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// shares are the parts of all probes that are bad, each of 0 to 1. Every share
// is drawn on its own.
type shares struct {
	failed float64 // answers that break off with an error after their first tokens
	ttft   float64 // times to first token above the threshold
	tpot   float64 // times per output token above the threshold
	e2e    float64 // durations above the threshold, of answers that do not fail
}

// outage is how an endpoint is down.
type outage int

const (
	outageNone    outage = iota
	outageRefused        // connections are refused at once
	outageHung           // nothing comes; a probe ends at the limit for the first token
)

// behavior is how an endpoint answers.
type behavior struct {
	shares
	outage outage
	// spell is the mean time for which probes stay bad; 0 draws each probe on
	// its own.
	spell time.Duration
	// slowly and failing are the memories of slow first tokens and of failures:
	// the time in which the correlation of two probes falls to 1/e. 0 is none.
	slowly, failing time.Duration
	// wrong is the share of answers that fail their check, and forgetting their memory.
	// 0 asks no questions.
	wrong      float64
	forgetting time.Duration
}

// The durations of probes. Only that of a probe that hangs matters: a little
// more than the default of timeouts.first_token, and than the shorter intervals.
const (
	answerDuration  = 2 * time.Second
	errorDuration   = time.Second
	refusedDuration = 10 * time.Millisecond
	hungDuration    = 30*time.Second + 10*time.Millisecond
)

// probeTimeout is the default of timeout, which the exporter shows.
const probeTimeout = time.Minute

// outcomes are the outcomes that occur, by their label values.
const (
	outcomeSuccess = iota
	outcomeStreamError
	outcomeConnectError
	outcomeTimeoutFirstToken
	outcomeCanceled
	outcomeCount
)

var outcomeNames = [outcomeCount]string{"success", "stream_error", "connect_error", "timeout_first_token", "canceled"}

// verdict is what a probe found.
type verdict struct {
	outcome  int
	duration time.Duration
	slowTTFT bool
	slowTPOT bool
	slowE2E  bool
	noToken  bool // it ended before the first token
	wrong    bool // the answer
}

func (v verdict) failed() bool { return v.outcome != outcomeSuccess }

// chance draws one kind of bad probe, in bursts or not.
type chance struct{ bad bool }

// draw reports whether the next probe is bad. With bursts it is a chain of two
// states, whose bad one lasts burst probes in the mean and holds the share.
func (c *chance) draw(random *rand.Rand, share, burst float64) bool {
	p := share
	if burst > 0 {
		if c.bad {
			p = 1 - 1/burst
		} else {
			p = share / (burst * (1 - share))
		}
	}
	c.bad = random.Float64() < p
	return c.bad
}

// condition is what makes probes bad for a while, such as load: normally
// distributed, with a correlation that falls exponentially with time. The
// logarithm of a latency is one. Its zero value has no past.
type condition struct {
	value float64
	at    int64 // milliseconds; 0 is no past
}

// draw reports whether a probe at a time, milliseconds, is bad: whether the
// condition is among the share of its largest values.
func (c *condition) draw(random *rand.Rand, share float64, memory time.Duration, at int64) bool {
	kept := 0.0
	if c.at != 0 {
		kept = math.Exp(-float64(at-c.at) / float64(memory.Milliseconds()))
	}
	c.value = kept*c.value + math.Sqrt(1-kept*kept)*random.NormFloat64()
	c.at = at
	return c.value > math.Sqrt2*math.Erfinv(1-2*share)
}

// target draws the verdicts of the probes of one endpoint.
type target struct {
	interval                time.Duration // of the probes
	random                  *rand.Rand
	failing, ttft, tpot, e2 chance
	answers                 chance
	slowness, trouble       condition
	confusion               condition
}

// probe draws the verdict of a probe that starts at a time, milliseconds.
func (t *target) probe(b behavior, start int64) verdict {
	switch b.outage {
	case outageRefused:
		return verdict{outcome: outcomeConnectError, duration: refusedDuration, noToken: true}
	case outageHung:
		return verdict{outcome: outcomeTimeoutFirstToken, duration: hungDuration, noToken: true}
	}
	var burst float64
	if b.spell > 0 {
		burst = max(1, b.spell.Seconds()/t.interval.Seconds())
	}
	draw := func(c *chance, share float64, with *condition, memory time.Duration) bool {
		if memory > 0 {
			return with.draw(t.random, share, memory, start)
		}
		return c.draw(t.random, share, burst)
	}
	v := verdict{
		outcome:  outcomeSuccess,
		duration: answerDuration,
		slowTTFT: draw(&t.ttft, b.ttft, &t.slowness, b.slowly),
		slowTPOT: t.tpot.draw(t.random, b.tpot, burst),
		slowE2E:  t.e2.draw(t.random, b.e2e, burst),
	}
	if b.wrong > 0 {
		v.wrong = draw(&t.answers, b.wrong, &t.confusion, b.forgetting)
	}
	if draw(&t.failing, b.failed, &t.trouble, b.failing) {
		v.outcome, v.duration = outcomeStreamError, errorDuration
	}
	return v
}

// shareAbove is the share of latencies above a threshold after all of them grew
// by a factor, where they spread log-normally with the deviation sigma of their
// logarithm and the threshold is their former p99 times headroom.
func shareAbove(factor, headroom, sigma float64) float64 {
	const z99 = 2.3263478740408408 // the normal distribution's p99
	z := z99 - (math.Log(factor)-math.Log(headroom))/sigma
	return math.Erfc(z/math.Sqrt2) / 2
}
