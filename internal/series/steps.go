package series

import (
	"math"
	"slices"
	"time"

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
	// At is when the first probe after the step started, as far as noise allows to date it.
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
	maxPause = 18 * time.Hour
)

// Steps finds the lasting changes of the latencies and the failures of one series. The method is that of E-divisive
// with a t-test, as in Hunter (arXiv 2301.03034) and Apache Otava: the latest probes are split where the means of both
// parts differ most, and the difference is tested. Observe looks at no more than maxProbes probes of the log and
// allocates nothing but its results. Steps is not safe for concurrent use. Its JSON is that of what was learned.
type Steps struct {
	Last      int64                `json:"last"` // start of the latest probe, in tenths of a second since 1970; 0 is none
	Latencies [numLatencies]levels `json:"latencies"`
	Failures  failureLevels        `json:"failures"`
	Latest    []Step               `json:"latest,omitempty"` // of each metric that had one
}

// stepProbe is a sample of a log.
type stepProbe struct {
	at     int64 // in tenths of a second since 1970
	times  [numLatencies]micros
	failed bool
}

// stepProbes appends the latest samples, the latest first, as far as there is room.
func (l *Log) stepProbes(all []stepProbe) []stepProbe {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.latest() {
		if len(all) == cap(all) {
			break
		}
		if !r.what.atLeast(sample) {
			continue
		}
		p := stepProbe{r.at, [numLatencies]micros{absent, absent}, r.what.outcome() != success}
		if r.what.atLeast(timed) && !p.failed {
			p.times = [numLatencies]micros{r.ttft, r.tpot}
		}
		all = append(all, p)
	}
	return all
}

func (p *stepProbe) has(i int) bool { return p.times[i] != absent && p.times[i] != 0 }

// log returns the logarithm of a latency in seconds.
func (p *stepProbe) log(i int) float64 { return p.times[i].log() }

func timeOfTenths(t int64) time.Time { return time.UnixMilli(t * 100) }

func inTenths(d time.Duration) int64 { return int64(d / (time.Second / 10)) }

// logUnit is the unit of stored logarithms. It is a twentieth of a percent, and times from 0.1 µs to 100 days fit.
const logUnit = 1.0 / 2000

// inUnits returns a logarithm in units of logUnit.
func inUnits(v float64) int16 {
	return int16(math.Round(min(math.MaxInt16, max(math.MinInt16, v/logUnit))))
}

// Observe takes the latest probe of a log, which is a sample, and returns the steps that it confirms.
func (s *Steps) Observe(l *Log) []Step {
	var room [maxProbes + 1]stepProbe // with the one that leaves the search
	probes := l.stepProbes(room[:0])
	if len(probes) == 0 {
		return nil
	}
	p := &probes[0]
	if s.Last == 0 || p.at-s.Last > inTenths(maxPause) {
		s.forget()
	}
	s.Last = p.at
	for i := range s.Latencies {
		if p.has(i) {
			s.Latencies[i].addToDay(p.log(i), p.at)
		}
	}
	s.count(probes)
	var found []Step
	for i := range s.Latencies {
		if !p.has(i) {
			continue
		}
		if step, ok := s.latencyStep(i, probes); ok {
			found = append(found, step)
		}
	}
	if step, ok := s.Failures.step(probes); ok {
		found = append(found, step)
	}
	for _, step := range found {
		s.Latest = slices.DeleteFunc(s.Latest, func(other Step) bool { return other.Metric == step.Metric })
		s.Latest = append(s.Latest, step)
	}
	return found
}

// forget begins the search again, and keeps what is known of the days.
func (s *Steps) forget() {
	s.Failures = failureLevels{}
	for i := range s.Latencies {
		s.Latencies[i].restart(0)
	}
}

// addToDay adds a logarithm to the daily cycle.
func (l *levels) addToDay(v float64, at int64) {
	if l.Cycle.isOver(at) {
		l.Cycle.learn(at)
		l.Waited = relearn
	}
	part := partOf(at)
	less := v - l.Cycle.at(part)
	l.Cycle.add(part, v+l.clip(less)-less, at)
}

// count counts the latest probe. The one that leaves the search counts among the older ones.
func (s *Steps) count(probes []stepProbe) {
	n := min(len(probes), maxProbes)
	for i := range s.Latencies {
		l := &s.Latencies[i]
		if l.Since == maxProbes && len(probes) > maxProbes && probes[maxProbes].has(i) {
			old := &probes[maxProbes]
			l.age(old.log(i) - l.Cycle.at(partOf(old.at)))
		}
		l.Since = min(l.Since+1, n)
	}
	if s.Failures.Since == maxProbes && len(probes) > maxProbes {
		s.Failures.age(probes[maxProbes].failed)
	}
	s.Failures.Since = min(s.Failures.Since+1, n)
}

const (
	// partsOfDay is into how many parts a day is divided. They begin with the hour
	// and the half hour, as jobs do that run every day.
	partsOfDay = 48
	// maxDays is over how many days the cycle is averaged.
	maxDays = 7
	// fewInPart is how many latencies in a part of a day count half: fewer are more noise than cycle.
	fewInPart = 2
)

// partOf returns the part of the day, in UTC.
func partOf(at int64) int {
	const part = 24 * 60 * 60 * 10 / partsOfDay
	return int(uint64(at) / part % partsOfDay)
}

// dailyCycle is by how much the logarithm of a latency usually is above or below that of the whole day, for each part
// of the day. It learns from whole days, so that what is known of one part is known of all.
type dailyCycle struct {
	Days  uint8 `json:"days"`  // that it was learnt from, at most maxDays
	Began int64 `json:"began"` // the day; 0 before the first
	// Parts are those of the day, from the part First on, as far as they have had a
	// latency: there is a cycle for each latency of each series.
	First uint8     `json:"first"`
	Parts []dayPart `json:"parts,omitempty"`
}

// dayPart is a part of the day: what is known of it, in units of logUnit, and the logarithms of the day that began.
type dayPart struct {
	Sum   float32 `json:"s"`
	Count uint16  `json:"n"`
	Known int16   `json:"k"`
}

// place returns the index of a part of the day, which may be one beyond parts.
func (c *dailyCycle) place(part int) int { return (part - int(c.First) + partsOfDay) % partsOfDay }

// part returns a part of the day to change it.
func (c *dailyCycle) part(part int) *dayPart {
	if len(c.Parts) == 0 {
		c.First = uint8(part)
	}
	i := c.place(part)
	for len(c.Parts) <= i {
		c.Parts = stats.AppendLatest(c.Parts, dayPart{}, partsOfDay)
	}
	return &c.Parts[i]
}

// at returns the cycle in a part of the day.
func (c *dailyCycle) at(part int) float64 {
	if i := c.place(part); i < len(c.Parts) {
		return float64(c.Parts[i].Known) * logUnit
	}
	return 0
}

// known returns the cycle in all parts of the day.
func (c *dailyCycle) known() (all [partsOfDay]float64) {
	for i, p := range c.Parts {
		all[(int(c.First)+i)%partsOfDay] = float64(p.Known) * logUnit
	}
	return all
}

func (c *dailyCycle) isOver(at int64) bool {
	return c.Began != 0 && at-c.Began >= inTenths(24*time.Hour)
}

func (c *dailyCycle) add(part int, v float64, at int64) {
	if c.Began == 0 {
		c.Began = at
	}
	if p := c.part(part); p.Count+1 > 0 {
		p.Sum += float32(v)
		p.Count++
	}
}

// shift adds a step to what the day had before it.
func (c *dailyCycle) shift(size float64) {
	for i := range c.Parts {
		c.Parts[i].Sum += float32(size) * float32(c.Parts[i].Count)
	}
}

// learn takes in the day that is over, and begins another.
func (c *dailyCycle) learn(at int64) {
	level, parts := 0.0, 0
	for _, p := range c.Parts {
		if p.Count > 0 {
			level += p.mean() - float64(p.Known)*logUnit
			parts++
		}
	}
	level /= float64(max(1, parts))
	c.Days = min(c.Days+1, maxDays)
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Count > 0 {
			known := float64(p.Known) * logUnit
			trust := float64(p.Count) / float64(p.Count+fewInPart) / float64(c.Days)
			p.Known = inUnits(known + trust*(p.mean()-level-known))
		}
		p.Sum, p.Count = 0, 0
	}
	c.Began = at
}

// mean returns the mean logarithm of the day that began.
func (p *dayPart) mean() float64 { return float64(p.Sum) / float64(p.Count) }
