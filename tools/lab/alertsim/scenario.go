package main

import (
	"fmt"
	"time"
)

// intervals are the probe intervals that the tables compare.
var intervals = []time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}

// objective is that of every simulated endpoint, the default of the exporter.
const objective = 0.99

// noise is a steady state in which every page is a false one.
type noise struct {
	name string
	behavior
	// restarts says that the exporter is away for a minute each day.
	restarts bool
}

// pauses are those of the exporter between two times, milliseconds.
func (n noise) pauses(from, to int64) []pause {
	if !n.restarts {
		return nil
	}
	var all []pause
	for at := from + day.Milliseconds()/2; at < to; at += day.Milliseconds() {
		all = append(all, pause{from: at, to: at + time.Minute.Milliseconds()})
	}
	return all
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
	list := []noise{
		{name: "half the error budget", behavior: all(budget / 2)},
		{name: "half the error budget, the exporter restarts each day", behavior: all(budget / 2), restarts: true},
		{name: "exactly at the objective", behavior: all(budget)},
		{name: "half the budget, slow for a minute at a time", behavior: behavior{shares: slow, spell: time.Minute}},
	}
	for _, memory := range memories() {
		text := "memory of " + shortDuration(memory)
		list = append(
			list,
			noise{name: "TTFT at the objective, " + text, behavior: behavior{shares: shares{ttft: budget}, slowly: memory}},
			noise{name: "TTFT at 0.9 of the budget, " + text, behavior: behavior{shares: shares{ttft: 0.9 * budget}, slowly: memory}},
			noise{name: "failures at the objective, " + text, behavior: behavior{shares: shares{failed: budget}, failing: memory}},
		)
	}
	for _, wrong := range []float64{0.05, 0.2, 0.4} {
		text := fmt.Sprintf("%.0f %% of the answers wrong", 100*wrong)
		list = append(list, noise{name: text, behavior: behavior{wrong: wrong}})
		for _, memory := range memories() {
			list = append(list, noise{name: text + ", memory of " + shortDuration(memory), behavior: behavior{wrong: wrong, forgetting: memory}})
		}
	}
	return list
}

// memories are the times in which noise forgets its past, in the tables.
func memories() []time.Duration {
	return []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute}
}

// incident is a change for the worse, which has to cause a page.
type incident struct {
	name          string
	before, after behavior
	// stops is what of the exporter stops.
	stops stop
}

// stop is what of the exporter stops in an incident.
type stop int

const (
	stopNothing stop = iota
	stopExporter
	stopProbes // while its page stays
)

// pauses are those of the exporter after the onset, milliseconds.
func (in incident) pauses(onset, to int64) []pause {
	if in.stops == stopNothing {
		return nil
	}
	return []pause{{from: onset, to: to, stays: in.stops == stopProbes}}
}

// incidents lists changes. Where times to first token grow, all else stays at
// half the error budget.
func incidents() []incident {
	const half = (1 - objective) / 2
	calm := shares{failed: half, ttft: half, tpot: half}
	slowTTFT := func(name string, before, after float64) incident {
		b, a := calm, calm
		b.ttft, a.ttft = before, after
		return incident{name: name, before: behavior{shares: b}, after: behavior{shares: a}}
	}
	twice := func(name string, headroom, sigma float64) incident {
		return slowTTFT(name, shareAbove(1, headroom, sigma), shareAbove(2, headroom, sigma))
	}
	everything := calm
	everything.ttft, everything.tpot, everything.e2e = shareAbove(2, 1, 0.5), shareAbove(2, 1, 0.5), shareAbove(2, 1, 0.5)
	broken := calm
	broken.failed = 0.5
	const slow = 0.05
	well := behavior{shares: calm}
	return []incident{
		{name: "outage, connections refused", before: well, after: behavior{outage: outageRefused}},
		{name: "outage, nothing comes", before: well, after: behavior{outage: outageHung}},
		{name: "the exporter stops", before: well, after: well, stops: stopExporter},
		{name: "its probes stop", before: well, after: well, stops: stopProbes},
		{name: "half of the answers break off", before: well, after: behavior{shares: broken}},
		twice("TTFT doubles, sigma 0.25", 1, 0.25),
		twice("TTFT doubles, sigma 0.5", 1, 0.5),
		remembered(twice("TTFT doubles, sigma 0.5, memory of 60 s", 1, 0.5), time.Minute),
		{name: "TTFT, TPOT and e2e double, sigma 0.5", before: well, after: behavior{shares: everything}},
		twice("TTFT doubles, sigma 1", 1, 1),
		twice("TTFT doubles, sigma 0.5, threshold 1.5 x old p99", 1.5, 0.5),
		slowTTFT("5 % of TTFT very slow", 1-objective, slow+(1-slow)*(1-objective)),
	}
}

// remembered gives times to first token a memory.
func remembered(in incident, memory time.Duration) incident {
	in.before.slowly, in.after.slowly = memory, memory
	return in
}
