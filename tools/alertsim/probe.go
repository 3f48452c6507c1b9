package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/inference-exporter/inference_exporter/alerts"
)

// instance is one alert of a rule, told apart by its labels, with the state
// that `for` and `keep_firing_for` give it. Its zero value is inactive.
type instance struct {
	endpoint string
	active   bool // pending or firing
	firing   bool
	since    int64 // of active
	gone     int64 // when the condition ended that keep_firing_for outlasts; 0 is not
}

// step takes one evaluation at t: holds tells whether the condition did. It
// tells whether the alert began to fire. All times are in milliseconds.
func (a *instance) step(t int64, holds bool, hold, keep int64) bool {
	if !holds {
		a.miss(t, keep)
		return false
	}
	a.gone = 0
	if !a.active {
		a.active, a.since = true, t
	}
	if a.firing || t-a.since < hold {
		return false
	}
	a.firing = true
	return true
}

// miss takes an evaluation at which the condition did not hold.
func (a *instance) miss(t, keep int64) {
	if a.firing && keep > 0 {
		if a.gone == 0 {
			a.gone = t
		}
		if t-a.gone < keep {
			return
		}
	}
	a.active, a.firing, a.gone = false, false, 0
}

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
}

func (v verdict) failed() bool { return v.outcome != outcomeSuccess }

// chance draws one kind of badness, in bursts or not.
type chance struct{ bad bool }

// draw tells whether the next probe is bad. With bursts it is a chain of two
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

// target draws the verdicts of the probes of one endpoint.
type target struct {
	interval                time.Duration // of the probes
	random                  *rand.Rand
	failing, ttft, tpot, e2 chance
}

func (t *target) probe(b behavior) verdict {
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
	v := verdict{
		outcome:  outcomeSuccess,
		duration: answerDuration,
		slowTTFT: t.ttft.draw(t.random, b.ttft, burst),
		slowTPOT: t.tpot.draw(t.random, b.tpot, burst),
		slowE2E:  t.e2.draw(t.random, b.e2e, burst),
	}
	if t.failing.draw(t.random, b.failed, burst) {
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

// rulesFor returns the paging alerts that the exporter makes for probes with
// an interval, with the recording rules that they need.
func rulesFor(interval time.Duration) ([]rule, error) {
	o := alerts.Options{Modules: map[string]time.Duration{"interactive": interval}}
	var files [][]byte
	for _, groups := range [][]alerts.Group{alerts.Recording(o), alerts.Alerts(o)} {
		file, err := alerts.Marshal(groups)
		if err != nil {
			return nil, fmt.Errorf("rules for probes every %s: %w", interval, err)
		}
		files = append(files, file)
	}
	rules, err := parseRules(files...)
	if err != nil {
		return nil, fmt.Errorf("rules for probes every %s: %w", interval, err)
	}
	return paging(rules), nil
}
