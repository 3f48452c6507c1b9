package main

import (
	"time"
)

const day = 24 * time.Hour

// intervals are the probe intervals that the tables compare.
func intervals() []time.Duration {
	return []time.Duration{15 * time.Second, 30 * time.Second, time.Minute}
}

// state is a steady one, in which every page is a false one.
type state struct {
	name string
	behavior
	// restarts says that the exporter starts again each day.
	restarts bool
}

// allowed is the share of bad probes that the objective allows.
const allowed = 0.01

// states lists steady states. Without a memory all objectives have the same share of bad
// probes at once, so that pages for any of them count. Failures have none: a spell of minutes
// in which all fail is an outage.
func states() []state {
	all := func(share float64) behavior { return behavior{failed: share, ttft: share, tpot: share} }
	list := []state{
		{name: "a tenth of the error budget", behavior: all(allowed / 10)},
		{name: "half of the error budget", behavior: all(allowed / 2)},
		{name: "half of the error budget, the exporter restarts each day", behavior: all(allowed / 2), restarts: true},
		{name: "exactly at the objectives", behavior: all(allowed)},
	}
	for _, memory := range []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute} {
		text := ", memory of " + shortDuration(memory)
		list = append(
			list,
			state{name: "TTFT at half of the budget" + text, behavior: behavior{ttft: allowed / 2, memory: memory}},
			state{name: "TTFT at the objective" + text, behavior: behavior{ttft: allowed, memory: memory}},
		)
	}
	return list
}

// incident is a change for the worse, which has to cause a page, or a blip that must not.
type incident struct {
	name   string
	before behavior
	// after is how the endpoint behaves so long after the onset.
	after func(time.Duration) behavior
}

func always(b behavior) func(time.Duration) behavior {
	return func(time.Duration) behavior { return b }
}

// incidents lists changes of an endpoint that is at a tenth of its error budget.
func incidents() []incident {
	calm := behavior{failed: allowed / 10, ttft: allowed / 10, tpot: allowed / 10}
	failing := func(share float64) behavior {
		b := calm
		b.failed = share
		return b
	}
	blip := func(otherwise behavior) func(time.Duration) behavior {
		return func(after time.Duration) behavior {
			if after < 90*time.Second {
				return failing(1)
			}
			return otherwise
		}
	}
	late := func(before, after float64) (b, a behavior) {
		b, a = calm, calm
		b.ttft, a.ttft = before, after
		return b, a
	}
	slow := calm
	slow.tpot = 1
	hung := calm
	hung.hangs = true
	list := []incident{
		{"all probes fail", calm, always(failing(1))},
		{"nothing comes", calm, always(hung)},
		{"half of the probes fail", calm, always(failing(0.5))},
		{"30 % fail", calm, always(failing(0.3))},
		{"10 % fail", calm, always(failing(0.1))},
		{"flapping, 2 min down and 2 min up", calm, func(after time.Duration) behavior {
			if after%(4*time.Minute) < 2*time.Minute {
				return failing(1)
			}
			return calm
		}},
		{"down for 90 s, and else well", behavior{}, blip(behavior{})},
		{"down for 90 s, and else at a tenth of the error budget", calm, blip(calm)},
		{"all tokens are slow", calm, always(slow)},
	}
	for _, l := range []struct {
		name          string
		before, after float64
	}{
		{"all first tokens are late", allowed / 10, 1},
		{"TTFT doubles, sigma 0.25", allowed, shareAbove(2, 0.25)},
		{"TTFT doubles, sigma 0.5", allowed, shareAbove(2, 0.5)},
		{"TTFT doubles, sigma 1", allowed, shareAbove(2, 1)},
		{"5 % of the first tokens are late", allowed, 0.05},
	} {
		before, after := late(l.before, l.after)
		list = append(list, incident{l.name, before, always(after)})
	}
	return list
}
