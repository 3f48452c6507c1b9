package health

import (
	"slices"
	"time"
)

const (
	// flappingSpells is how often an endpoint must be down in one incident to flap, and
	// how many incidents in a row are one: two may be chance.
	flappingSpells = 3
	// recursAfter and recursIntervals are how long after an incident another one counts
	// as its return: the longer of a time and a number of intervals.
	recursAfter     = 15 * time.Minute
	recursIntervals = 20
	// recursShare is the share of the probes that must have failed in incidents that are
	// one: below it they are chance.
	recursShare = 0.05
	// outageAfter is for how long an endpoint that flaps must be down before it is so for
	// good.
	outageAfter = 2 * time.Minute
)

// recurs reports whether the failures came back again and again.
func (i *Incident) recurs() bool { return i.Joined >= flappingSpells-1 || i.Spells >= flappingSpells }

// isFlapping reports whether the endpoint goes down and comes back again and again. Down
// is whether it is down now, and last when its latest result started.
func (i *Incident) isFlapping(down bool, last time.Time, within time.Duration) bool {
	switch {
	case i.Spells < flappingSpells:
		return false
	case down:
		return last.Sub(i.Down) <= max(outageAfter, 2*i.Longest)
	}
	return last.Sub(i.Back) <= 2*within
}

// setDown takes whether the endpoint is down; e.mu is held.
func (e *Endpoint) setDown(down bool) {
	switch i := e.failing; {
	case down && !e.down:
		i.Spells++
		i.Down = e.last
		before := i.State
		e.join()
		if i.Spells >= flappingSpells && before != Flapping {
			i.State = Flapping
			e.logger().Warn("endpoint flapping", "since", i.Begin.UTC(), "probes", i.Probes, "failed", i.Bad, "spells", i.Spells)
		}
	case !down && e.down && i != nil:
		i.Back = e.last
		i.Longest = max(i.Longest, i.Back.Sub(i.Down))
	}
	e.down = down
}

// recursWithin returns how long after an incident another one counts as its return.
func (e *Endpoint) recursWithin() time.Duration {
	var shortest time.Duration
	for _, s := range e.series {
		if s.counts && s.interval > 0 && (shortest == 0 || s.interval < shortest) {
			shortest = s.interval
		}
	}
	return max(recursAfter, recursIntervals*shortest)
}

// lastFailing returns the index of the latest incident of failures; -1 is none.
func lastFailing(past []Incident) int {
	for i := len(past) - 1; i >= 0; i-- {
		switch past[i].State {
		case Down, Flapping, Degraded:
			return i
		}
	}
	return -1
}

// join makes one incident of the one that goes on and those before it, where the
// failures came back soon and often.
func (e *Endpoint) join() {
	whole, past := *e.failing, slices.Clone(e.past)
	within := e.recursWithin()
	for {
		i := lastFailing(past)
		if i < 0 || whole.Begin.Sub(past[i].End) > within {
			break
		}
		longer := past[i].with(&whole)
		if float64(longer.Bad) < recursShare*float64(longer.Probes) {
			break
		}
		whole, past = longer, slices.Delete(past, i, i+1)
	}
	if whole.Joined > e.failing.Joined && whole.recurs() {
		*e.failing, e.past = whole, past
	}
}

// with returns one incident of two.
func (i Incident) with(next *Incident) Incident {
	i.Calm = max(i.Calm, next.Calm, next.Begin.Sub(i.End))
	i.Probes += i.After + next.Probes
	i.Bad += next.Bad
	i.Spells += next.Spells
	if next.Spells > 0 {
		i.Down, i.Back = next.Down, next.Back
	}
	i.Longest = max(i.Longest, next.Longest)
	i.Joined += next.Joined + 1
	i.State, i.End, i.After, i.Run, i.Good = Degraded, next.End, next.After, next.Run, next.Good
	if i.Spells >= flappingSpells {
		i.State = Flapping
	}
	return i
}
