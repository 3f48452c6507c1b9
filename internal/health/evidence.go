package health

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// evidence decides whether the bad probes of a module, by one objective, are more than
// chance explains while the objective is met.
//
// Bad probes of which each comes within a gap of the one before are a cluster. By chance a further one comes with the
// probability c, so that c^(n-1) of the clusters have n or more. Their mean size, 1/(1-c), and how many there are in 90
// days are learned from those of the last week, where they are known, and are at most what the objective allows. A
// cluster is a verdict when chance makes one as large fewer than chance.bound times in 90 days. It may be looked at after
// each probe, as a cluster counts once.
//
// Noise with a memory, in which one late answer is often followed by the next, makes larger clusters, so that more is
// asked for. Failures that come together are an outage, and no noise: of them no cluster is learned that was a verdict.
type evidence struct {
	// First and Last are when the bad probes of the cluster started, Size is how many there
	// are; 0 is no cluster. Raised reports whether it is a verdict.
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
	Size   int       `json:"size,omitempty"`
	Raised bool      `json:"raised,omitempty"`
	// Days are those of the last week on which a cluster ended, the latest last.
	Days []clusters `json:"days,omitempty"`
}

// clusters are those that ended on one day.
type clusters struct {
	Day     int64             `json:"day"` // since 1970
	N       int32             `json:"n"`
	Bad     int32             `json:"bad"` // probes in them
	Largest [numLargest]int32 `json:"largest"`
}

const (
	// verdictPeriod is the time of which chance.bound speaks.
	verdictPeriod = 90 * day
	day           = 24 * time.Hour
	// clusterGap is how long after a bad probe the next one belongs to its cluster, which is as
	// long as the longest memory of noise that is known; at least and at most so many intervals.
	clusterGap          = 5 * time.Minute
	minClusterIntervals = 5
	maxClusterIntervals = 60
	// smallestVerdict is how many bad probes a verdict has at least.
	smallestVerdict = 3
	// learnedDays is for how many days clusters are remembered. Of numLargest the last is a
	// measure of noise; those before may be incidents.
	learnedDays = 8
	numLargest  = 4
	// rateWeight is how many clusters the rate of those that are usual weighs.
	rateWeight = 3
	// tail is by how much the largest clusters of noise with a memory of up to 5 minutes
	// exceed those of a geometric distribution that has the same numLargest-th largest.
	tail = 2
)

// chance is how bad probes come by chance where nothing is known yet.
type chance struct {
	allowed  float64       // share of bad probes that the objective allows
	interval time.Duration // between two probes of the module
	late     bool          // they are answers that are late, and else failures
}

// bound returns how many verdicts chance may make in verdictPeriod.
func (c chance) bound() float64 {
	if c.late {
		return 0.08
	}
	return 0.2
}

// usual returns the mean size of clusters, how many seen ones weigh as much, and how many there
// are in a second. Failures come singly, at a tenth of what is allowed; late answers come in
// clusters that are larger the quicker the probes are, at a quarter.
func (c chance) usual() (size, weight, rate float64) {
	seconds := c.interval.Seconds()
	if c.late {
		size = 1 + math.Sqrt(20/seconds)
		return size, 5, c.allowed / 4 / seconds / size
	}
	share := c.allowed / 10
	size = math.Pow(1-share, -c.gap().Seconds()/seconds)
	return size, 20, share / seconds / size
}

func (c chance) gap() time.Duration {
	return min(max(clusterGap, minClusterIntervals*c.interval), maxClusterIntervals*c.interval)
}

// observe takes an eligible probe that started at a time, of a module that has been watched since
// begin, and reports whether it makes the cluster a verdict.
func (e *evidence) observe(c chance, begin, start time.Time, bad bool) bool {
	if e.Size > 0 && start.Sub(e.Last) > c.gap() {
		e.end(c)
	}
	if !bad {
		return e.Raised
	}
	if e.Size == 0 {
		e.First = start
	}
	e.Size++
	e.Last = start
	e.Raised = e.Raised || e.Size >= smallestVerdict && e.expected(c, start.Sub(begin), start) <= c.bound()
	return e.Raised
}

// end ends the cluster, whose bad probes are of the past from now on.
func (e *evidence) end(c chance) {
	if e.Size > 0 && (c.late || !e.Raised) {
		e.learn()
	}
	e.First, e.Last, e.Size, e.Raised = time.Time{}, time.Time{}, 0, false
}

func (e *evidence) learn() {
	today := e.Last.Unix() / int64(day/time.Second)
	if n := len(e.Days); n == 0 || e.Days[n-1].Day != today {
		e.Days = append(e.Days, clusters{Day: today})
		for e.Days[0].Day <= today-learnedDays {
			e.Days = e.Days[1:]
		}
	}
	of := &e.Days[len(e.Days)-1]
	of.N++
	of.Bad += int32(min(e.Size, math.MaxInt16))
	of.rank(int32(min(e.Size, math.MaxInt16)))
}

// isSane reports whether so many probes may be in so many clusters.
func (of *clusters) isSane() bool {
	return 0 <= of.N && of.N <= of.Bad && slices.Min(of.Largest[:]) >= 0 && of.Largest[0] <= of.Bad
}

// rank keeps a size if it is among the largest.
func (of *clusters) rank(size int32) {
	for i, larger := range of.Largest {
		if size > larger {
			size, of.Largest[i] = larger, size
		}
	}
}

// learned adds up the days that are remembered.
func (e *evidence) learned(now time.Time) clusters {
	var all clusters
	for _, of := range e.Days {
		if of.Day <= now.Unix()/int64(day/time.Second)-learnedDays {
			continue
		}
		all.N += of.N
		all.Bad += of.Bad
		for _, size := range of.Largest {
			all.rank(size)
		}
	}
	return all
}

// expected returns how many clusters as large as the one that goes on chance makes in
// verdictPeriod. Watched is for how long the module has been.
func (e *evidence) expected(c chance, watched time.Duration, now time.Time) float64 {
	seen := e.learned(now)
	size, weight, usualRate := c.usual()
	n := float64(seen.N)
	mean := (weight*size + seen.badIn(c)) / (weight + n)
	if c.late && seen.N > numLargest {
		mean = max(mean, tail*seen.tailMean())
	}
	elapsed := min(watched, learnedDays*day).Seconds()
	rate := min((rateWeight+n)/(rateWeight/usualRate+elapsed), c.allowed/c.interval.Seconds()/mean)
	return rate * verdictPeriod.Seconds() * math.Pow(1-1/mean, float64(e.Size-1))
}

// badIn returns how many bad probes the clusters had. Of late answers those that may be of
// incidents count as the largest that is not.
func (of *clusters) badIn(c chance) float64 {
	if !c.late {
		return float64(of.Bad)
	}
	if of.N < numLargest {
		return float64(of.N)
	}
	bad, last := of.Bad, of.Largest[numLargest-1]
	for _, size := range of.Largest {
		bad -= size - last
	}
	return float64(bad)
}

// tailMean returns the mean size of clusters by the numLargest-th largest: of n numbers with an exponential distribution
// it is expected at the mean times the sum of 1/k for k from numLargest to n.
func (of *clusters) tailMean() float64 {
	var sum float64
	for k := numLargest; k <= int(of.N); k++ {
		sum += 1 / float64(k)
	}
	return float64(of.Largest[numLargest-1]-1) / sum
}

const (
	// defaultAllowed is the share of bad probes without an objective, and defaultInterval the
	// time between probes without one.
	defaultAllowed  = 0.01
	defaultInterval = 30 * time.Second
	// smallestFirst is how many bad probes a verdict has at least where hardly any was good since the
	// beginning, which chance makes once for each module at most: firstTimes as many are bad.
	smallestFirst = 6
	firstTimes    = 3
)

// module is what an endpoint knows of one of its modules.
type module struct {
	Name     string                          `json:"name"`
	Begin    time.Time                       `json:"begin"` // since when it has been watched
	Evidence [series.NumObjectives]*evidence `json:"evidence"`
	// Good counts the eligible probes that were good, up to 255.
	Good     [series.NumObjectives]uint8 `json:"good"`
	allowed  float64
	promised bool          // by an objective that is configured
	interval time.Duration // between two probes, of all its series
}

// isSane reports whether the evidence may be of this machine's past.
func (m *module) isSane(now time.Time) bool {
	if m == nil || m.Begin.After(now) {
		return false
	}
	for _, e := range m.Evidence {
		if e != nil && (e.Size < 0 || e.First.After(e.Last) || e.Last.After(now) || slices.ContainsFunc(e.Days, func(of clusters) bool { return !of.isSane() })) {
			return false
		}
	}
	return true
}

func (m *module) clone() *module {
	m = copyOf(m)
	for i, e := range m.Evidence {
		if e = copyOf(e); e != nil {
			e.Days, m.Evidence[i] = slices.Clone(e.Days), e
		}
	}
	return m
}

// relate takes the objective and the time between probes from the series of the module.
func (m *module) relate(all []*Series) {
	m.allowed, m.promised, m.interval = defaultAllowed, false, defaultInterval
	var perSecond float64
	for _, s := range all {
		if s.module != m || !s.counts {
			continue
		}
		if s.objectives.Share > 0 {
			m.allowed, m.promised = 1-s.objectives.Share, true
		}
		if s.interval > 0 {
			perSecond += 1 / s.interval.Seconds()
		}
	}
	if perSecond > 0 {
		m.interval = time.Duration(float64(time.Second) / perSecond)
	}
}

// late takes an answer, and returns the objectives by which the late ones are a verdict.
func (m *module) late(o *series.Observation) (missed series.Set) {
	for i := series.TTFT; i < series.NumObjectives; i++ {
		if o.Judgement.Eligible.Has(i) && m.observe(i, o.Start, o.Judgement.Bad.Has(i)) {
			missed |= 1 << i
		}
	}
	return missed
}

// end ends the clusters of failures that are a verdict, or those of late answers. Failures that came in a row by chance may be
// the first of more.
func (m *module) end(late bool) {
	for i, e := range m.Evidence {
		if c := m.chance(series.Objective(i)); e != nil && c.late == late && (late || e.Raised) {
			e.end(c)
		}
	}
}

func (m *module) gap() time.Duration { return m.chance(series.Availability).gap() }

func (m *module) chance(i series.Objective) chance {
	return chance{m.allowed, m.interval, i != series.Availability}
}

// observe takes an eligible probe, and reports whether the bad ones are a verdict.
func (m *module) observe(i series.Objective, start time.Time, bad bool) bool {
	if !bad && m.Good[i] < math.MaxUint8 {
		m.Good[i]++
	}
	if m.Evidence[i] == nil {
		if !bad {
			return false
		}
		m.Evidence[i] = &evidence{}
	}
	e := m.Evidence[i]
	if e.observe(m.chance(i), m.Begin, start, bad) {
		return true
	}
	e.Raised = e.Size >= smallestFirst && e.Size >= firstTimes*int(m.Good[i])
	return e.Raised
}
