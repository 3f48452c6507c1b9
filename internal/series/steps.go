package series

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Metric is what a step is in. The set is closed: it is a label value.
type Metric string

// The metrics.
const (
	MetricTTFT     Metric = "ttft"     // time to first token
	MetricTPOT     Metric = "tpot"     // time per output token
	MetricFailures Metric = "failures" // share of the probes that failed
)

// Metrics lists the closed set.
func Metrics() []Metric { return []Metric{MetricTTFT, MetricTPOT, MetricFailures} }

// numLatencies is how many of Metrics, the first ones, are latencies.
const numLatencies = 2

// Step is a lasting change of the level of a metric.
type Step struct {
	// At is when the first probe after the step started, as far as noise allows to
	// date it.
	At     time.Time `json:"at"`
	Metric Metric    `json:"metric"`
	// Before and After are the levels, in seconds and for that time of the day, or as
	// the share of the probes that failed.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Lower and Upper are bounds of After / Before, with 95 % confidence; 0 for failures,
	// of which often none were before.
	Lower float64 `json:"lower,omitempty"`
	Upper float64 `json:"upper,omitempty"`
}

const (
	// maxProbes is how many of the latest probes are looked at one by one, and
	// maxOlder how many of those before them count together.
	maxProbes, maxOlder = 256, 512
	// threshold is by how many standard errors two levels differ that are a step. It
	// is large because it is tried after each probe and for each split of maxProbes.
	stepThreshold = 5.5
	// maxPause is the longest time between two probes over which the search goes on.
	maxPause = math.MaxUint16 * time.Second
)

// Steps finds the lasting changes of the latencies and the failures of one series. The
// method is that of E-divisive with a t-test, as in Hunter (arXiv 2301.03034) and Apache
// Otava: the latest probes are split where the means of both parts differ most, and the
// difference is tested. Observe looks at no more than maxProbes probes and allocates
// nothing but its results. Steps is not safe for concurrent use.
type Steps struct {
	probes    []stepProbe // a ring that begins at next
	next      int
	last      time.Time // start of the latest probe
	latencies [numLatencies]levels
	failures  failureLevels
	latest    []Step // of each metric that had one
}

// stepProbe is one probe in little room.
type stepProbe struct {
	pause uint16              // seconds since the start of the probe before
	logs  [numLatencies]int16 // logarithms of seconds less their daily cycle, in units of logUnit
}

// has reports whether a latency was measured.
func (p *stepProbe) has(i int) bool { return p.logs[i] > missing }

// failed reports whether the probe failed.
func (p *stepProbe) failed() bool { return p.logs[0] == ofFailure }

const (
	// logUnit is the unit of stored logarithms. It is a twentieth of a percent, and
	// times from 0.1 µs to 100 days fit.
	logUnit = 1.0 / 2000
	// missing is the logarithm of a latency that was not measured, and ofFailure that of
	// a probe that failed.
	missing, ofFailure = math.MinInt16 + 1, math.MinInt16
)

// inUnits returns a logarithm in units of logUnit.
func inUnits(v float64) int16 {
	return int16(math.Round(min(math.MaxInt16, max(missing+1, v/logUnit))))
}

// Observe adds a result, and returns the steps that it confirms. timed means that the
// latencies of the result count. Results must come in the order of their starts.
func (s *Steps) Observe(r *result.Result, timed bool) []Step {
	if r.Outcome == result.Canceled {
		return nil
	}
	pause := max(0, r.Start.Sub(s.last))
	if s.last.IsZero() || pause > maxPause {
		s.forget()
		pause = 0
	}
	p := stepProbe{uint16(pause.Round(time.Second) / time.Second), [numLatencies]int16{missing, missing}}
	switch {
	case r.Outcome != result.Success:
		p.logs[0] = ofFailure
	case timed:
		for i, d := range [numLatencies]time.Duration{r.Timing.TTFT, r.Timing.TPOT} {
			if d > 0 {
				p.logs[i] = s.withoutCycle(i, math.Log(d.Seconds()), r.Start)
			}
		}
	}
	s.last = r.Start
	s.add(p)
	var found []Step
	for i := range s.latencies {
		if !p.has(i) {
			continue
		}
		if step, ok := s.latencyStep(i); ok {
			found = append(found, step)
		}
	}
	if step, ok := s.failureStep(); ok {
		found = append(found, step)
	}
	s.keep(found)
	return found
}

// forget drops the probes, and keeps what is known of the days.
func (s *Steps) forget() {
	s.probes, s.next, s.failures = nil, 0, failureLevels{}
	for i := range s.latencies {
		s.latencies[i].restart(0)
	}
}

// withoutCycle adds a logarithm to the daily cycle, and returns it less that cycle.
func (s *Steps) withoutCycle(i int, v float64, at time.Time) int16 {
	l := &s.latencies[i]
	if l.cycle.isOver(at) {
		before := l.cycle.known()
		l.cycle.learn(at)
		s.rebase(i, &before)
	}
	part := partOf(at)
	less := v - l.cycle.at(part)
	l.cycle.add(part, v+l.clip(less)-less, at)
	return inUnits(less)
}

// rebase makes the kept logarithms those less the cycle that is known now.
func (s *Steps) rebase(i int, before *dayParts) {
	at := s.last
	for j := range s.probes {
		p := s.back(j)
		if part := partOf(at); p.has(i) {
			p.logs[i] = inUnits(float64(p.logs[i])*logUnit + float64(before[part])*logUnit - s.latencies[i].cycle.at(part))
		}
		at = at.Add(-time.Duration(p.pause) * time.Second)
	}
	s.latencies[i].waited = relearn
}

// add puts a probe into the ring. The one that leaves it counts among the older ones.
func (s *Steps) add(p stepProbe) {
	if n := len(s.probes); n < maxProbes {
		if n == cap(s.probes) {
			s.probes = slices.Grow(s.probes, min(n+8, maxProbes-n))
		}
		s.probes = append(s.probes, p)
	} else {
		old := &s.probes[s.next]
		for i := range s.latencies {
			if l := &s.latencies[i]; l.n == maxProbes && old.has(i) {
				l.age(float64(old.logs[i]) * logUnit)
			}
		}
		if s.failures.n == maxProbes {
			s.failures.age(old.failed())
		}
		*old = p
		s.next = (s.next + 1) % maxProbes
	}
	for i := range s.latencies {
		s.latencies[i].n = min(s.latencies[i].n+1, maxProbes)
	}
	s.failures.n = min(s.failures.n+1, maxProbes)
	if p.failed() {
		s.failures.kept++
	}
}

// back returns the probe that i others have followed.
func (s *Steps) back(i int) *stepProbe {
	return &s.probes[(s.next+len(s.probes)-1-i)%len(s.probes)]
}

// startOf returns when the probe started that i others have followed.
func (s *Steps) startOf(i int) time.Time {
	at := s.last
	for j := range i {
		at = at.Add(-time.Duration(s.back(j).pause) * time.Second)
	}
	return at
}

const (
	// partsOfDay is into how many parts a day is divided. They begin with the hour
	// and the half hour, as jobs do that run every day.
	partsOfDay = 48
	// maxDays is over how many days the cycle is averaged.
	maxDays = 7
	// fewInPart is how many latencies in a part of a day count half: fewer are more
	// noise than cycle.
	fewInPart = 2
)

// dayParts has a logarithm for each part of a day, in units of logUnit.
type dayParts [partsOfDay]int16

// partOf returns the part of the day, in UTC.
func partOf(at time.Time) int {
	const day = 24 * 60 * 60
	return int((at.Unix()%day + day) % day * partsOfDay / day)
}

// dailyCycle is by how much the logarithm of a latency usually is above or below that
// of the whole day, for each part of the day. It learns from whole days, so that what
// is known of one part is known of all.
type dailyCycle struct {
	days  uint8 // that it was learnt from, at most maxDays
	began time.Time
	// parts are those of the day, from the part first on, as far as they have had a
	// latency: there is a cycle for each latency of each series.
	first uint8
	parts []dayPart
}

// dayPart is a part of the day: what is known of it, in units of logUnit, and the
// logarithms of the day that began.
type dayPart struct {
	sum   float32
	count uint16
	known int16
}

// place returns the index of a part of the day, which may be one beyond parts.
func (c *dailyCycle) place(part int) int { return (part - int(c.first) + partsOfDay) % partsOfDay }

// part returns a part of the day to change it.
func (c *dailyCycle) part(part int) *dayPart {
	if len(c.parts) == 0 {
		c.first = uint8(part)
	}
	i := c.place(part)
	for len(c.parts) <= i {
		c.parts = stats.AppendLatest(c.parts, dayPart{}, partsOfDay)
	}
	return &c.parts[i]
}

// at returns the cycle in a part of the day.
func (c *dailyCycle) at(part int) float64 {
	if i := c.place(part); i < len(c.parts) {
		return float64(c.parts[i].known) * logUnit
	}
	return 0
}

// known returns the cycle in all parts of the day.
func (c *dailyCycle) known() (all dayParts) {
	for i, p := range c.parts {
		all[(int(c.first)+i)%partsOfDay] = p.known
	}
	return all
}

// isOver reports whether a day has passed.
func (c *dailyCycle) isOver(at time.Time) bool {
	return !c.began.IsZero() && at.Sub(c.began) >= 24*time.Hour
}

// add adds a logarithm.
func (c *dailyCycle) add(part int, v float64, at time.Time) {
	if c.began.IsZero() {
		c.began = at
	}
	if p := c.part(part); p.count+1 > 0 {
		p.sum += float32(v)
		p.count++
	}
}

// shift adds a step to what the day had before it.
func (c *dailyCycle) shift(size float64) {
	for i := range c.parts {
		c.parts[i].sum += float32(size) * float32(c.parts[i].count)
	}
}

// learn takes in the day that is over, and begins another.
func (c *dailyCycle) learn(at time.Time) {
	level, parts := 0.0, 0
	for _, p := range c.parts {
		if p.count > 0 {
			level += p.mean() - float64(p.known)*logUnit
			parts++
		}
	}
	level /= float64(max(1, parts))
	c.days = min(c.days+1, maxDays)
	for i := range c.parts {
		p := &c.parts[i]
		if p.count > 0 {
			known := float64(p.known) * logUnit
			trust := float64(p.count) / float64(p.count+fewInPart) / float64(c.days)
			p.known = inUnits(known + trust*(p.mean()-level-known))
		}
		p.sum, p.count = 0, 0
	}
	c.began = at
}

// mean returns the mean logarithm of the day that began.
func (p *dayPart) mean() float64 { return float64(p.sum) / float64(p.count) }
