package main

import "time"

// intervals are the probe intervals that the tables compare.
var intervals = []time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}

// objective is that of every simulated endpoint, the default of the exporter.
const objective = 0.99

// noise is a steady state in which every page is a false one.
type noise struct {
	name string
	behavior
}

// noises lists steady states. All objectives are at the same share of bad
// probes at once, so that pages for any of them count. Failures come on their
// own only: a spell of minutes in which all fail is an outage, and no noise.
func noises() []noise {
	const budget = 1 - objective
	all := func(share float64) behavior {
		return behavior{shares: shares{failed: share, ttft: share, tpot: share}}
	}
	slow := shares{ttft: budget / 2, tpot: budget / 2, e2e: budget / 2}
	return []noise{
		{"half the error budget", all(budget / 2)},
		{"exactly at the objective", all(budget)},
		{"half the budget, slow for a minute at a time", behavior{shares: slow, spell: time.Minute}},
	}
}

// incident is a change for the worse, of which a page has to tell.
type incident struct {
	name          string
	before, after behavior
}

// incidents lists changes. Where times to first token grow, all else stays at
// half the error budget.
func incidents() []incident {
	const half = (1 - objective) / 2
	calm := shares{failed: half, ttft: half, tpot: half}
	slowTTFT := func(name string, before, after float64) incident {
		b, a := calm, calm
		b.ttft, a.ttft = before, after
		return incident{name, behavior{shares: b}, behavior{shares: a}}
	}
	twice := func(name string, headroom, sigma float64) incident {
		return slowTTFT(name, shareAbove(1, headroom, sigma), shareAbove(2, headroom, sigma))
	}
	everything := calm
	everything.ttft, everything.tpot, everything.e2e = shareAbove(2, 1, 0.5), shareAbove(2, 1, 0.5), shareAbove(2, 1, 0.5)
	broken := calm
	broken.failed = 0.5
	const slow = 0.05
	return []incident{
		{"outage, connections refused", behavior{shares: calm}, behavior{outage: outageRefused}},
		{"outage, nothing comes", behavior{shares: calm}, behavior{outage: outageHung}},
		{"half of the answers break off", behavior{shares: calm}, behavior{shares: broken}},
		twice("TTFT doubles, sigma 0.25", 1, 0.25),
		twice("TTFT doubles, sigma 0.5", 1, 0.5),
		{"TTFT, TPOT and e2e double, sigma 0.5", behavior{shares: calm}, behavior{shares: everything}},
		twice("TTFT doubles, sigma 1", 1, 1),
		twice("TTFT doubles, sigma 0.5, threshold 1.5 x old p99", 1.5, 0.5),
		slowTTFT("5 % of TTFT very slow", 1-objective, slow+(1-slow)*(1-objective)),
	}
}
