package series

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// climate is how the latencies of a simulated series vary: log-normal, with a daily
// cycle and a heavy tail.
type climate struct {
	interval time.Duration
	sigma    float64 // standard deviation of the logarithm
	cycle    float64 // share by which the level rises and falls in a day
	tail     float64 // share of the probes that take 5 to 20 times as long
	memory   float64 // correlation of neighbours
	failing  float64 // share of the probes that fail
}

// harsh is the climate of the bounds that the steps are held to.
func harsh(sigma float64) climate {
	return climate{interval: 30 * time.Second, sigma: sigma, cycle: 0.3, tail: 0.01}
}

// series is a simulated series.
type series struct {
	climate
	rand  *rand.Rand
	log   *Log
	steps Steps
	now   time.Time
	last  float64
	probe result.Result
}

func newSeries(c climate, seed uint64) *series {
	s := &series{climate: c, rand: rand.New(rand.NewPCG(seed, 1)), log: new(Log)}
	s.now = epoch().Add(time.Duration(s.rand.Int64N(int64(24 * time.Hour))))
	return s
}

// ask observes n probes whose latencies are those of the climate times a factor.
func (s *series) ask(n int, factor float64) (found []Step) {
	const day = 24 * 60 * 60
	for range n {
		s.last = s.memory*s.last + math.Sqrt(1-s.memory*s.memory)*s.rand.NormFloat64()
		seconds := 0.2 * factor * math.Exp(s.sigma*s.last)
		seconds *= 1 + s.cycle*math.Sin(2*math.Pi*float64(s.now.Unix()%day)/day)
		if s.rand.Float64() < s.tail {
			seconds *= 5 + 15*s.rand.Float64()
		}
		s.probe = result.Result{Outcome: result.Success, Start: s.now}
		s.probe.Timing.TTFT, s.probe.Timing.TPOT = time.Duration(seconds*1e9), result.Absent
		if s.rand.Float64() < s.failing {
			s.probe.Outcome = result.HTTPError
		}
		s.log.adds(1, &s.probe)
		found = append(found, s.steps.Observe(s.log)...)
		s.now = s.now.Add(s.interval)
	}
	return found
}

// days observes so many days.
func (s *series) days(n float64, factor float64) []Step {
	return s.ask(int(n*24*float64(time.Hour)/float64(s.interval)), factor)
}

// datings is what a simulation of steps comes to.
type datings struct {
	steps   int
	delays  []float64 // probes until a step was found, in order
	off     []float64 // probes from the true place, in order
	covered int       // steps whose bounds enclose the true ratio
}

// within returns the share of the steps that were dated within so many probes.
func (d *datings) within(probes float64) float64 {
	n := 0
	for _, off := range d.off {
		if off <= probes+0.01 {
			n++
		}
	}
	return float64(n) / float64(d.steps)
}

// date simulates steps by a factor in worlds that are three days old, a number in each,
// and dates the first that is found within a day.
func date(t testing.TB, c climate, factor float64, worlds, steps int) *datings {
	t.Helper()
	d := &datings{steps: worlds * steps}
	for seed := range uint64(worlds) {
		world := newSeries(c, seed)
		world.days(3, 1)
		for run := range uint64(steps) {
			s := *world
			s.log, s.steps = s.log.clone(), *s.steps.Clone()
			s.rand = rand.New(rand.NewPCG(seed, 2+run))
			s.ask(int(run), 1)
			d.add(&s, factor)
		}
	}
	slices.Sort(d.off)
	slices.Sort(d.delays)
	return d
}

// add makes one step.
func (d *datings) add(s *series, factor float64) {
	began := s.now
	for delay := range int(24 * time.Hour / s.interval) {
		found := s.ask(1, factor)
		if len(found) == 0 {
			continue
		}
		step := found[0]
		d.delays = append(d.delays, float64(delay+1))
		d.off = append(d.off, math.Abs(float64(step.At.Sub(began))/float64(s.interval)))
		if step.Lower <= factor && factor <= step.Upper {
			d.covered++
		}
		return
	}
}

// A step of 20 % is dated within 10 probes in 95 % of the runs at a sigma of 0.18, with
// daily cycle and heavy tail. At 0.25 nothing can: who knows both levels and the noise
// exactly dates 89 %. There it is dated within 10 probes in 80 %, and found in 95 %.
func TestStepsAreDated(t *testing.T) {
	t.Parallel()
	worlds := 4
	cases := []struct{ sigma, factor, found, within10, covered float64 }{
		{0.25, 1.2, 0.95, 0.8, 0.8},
		{0.18, 1.2, 0.99, 0.95, 0.85},
		{0.18, 1 / 1.2, 0.99, 0.95, 0.85},
	}
	if testing.Short() {
		cases, worlds = cases[:1], 1
	}
	for _, tc := range cases {
		d := date(t, harsh(tc.sigma), tc.factor, worlds, 75)
		found := float64(len(d.off)) / float64(d.steps)
		covered := float64(d.covered) / float64(d.steps)
		t.Logf("sigma %v, factor %.2f: %.3f found, %.3f within 10 probes, %.3f in the bounds, after %v probes",
			tc.sigma, tc.factor, found, d.within(10), covered, quantile(d.delays, 0.5))
		if found < tc.found || d.within(10) < tc.within10 || covered < tc.covered {
			t.Errorf("sigma %v, factor %.2f: worse than %+v", tc.sigma, tc.factor, tc)
		}
	}
}

// In 90 days without a step at most one is found. BenchmarkSteps does it ten times, with
// twice as many probes.
func TestNoFalseSteps(t *testing.T) {
	t.Parallel()
	c := harsh(0.25)
	c.interval = time.Minute
	days := 90.0
	if testing.Short() {
		days = 4
	}
	if found := newSeries(c, 1).days(days, 1); len(found) > 1 {
		t.Errorf("%d steps in %v days without one: %+v", len(found), days, found)
	}
}

// A large step shows after ten probes, in both directions and on the first day, with its
// levels; so does one of failures after twenty.
func TestLargeSteps(t *testing.T) {
	s := newSeries(climate{interval: 15 * time.Second, sigma: 0.2}, 1)
	expect := func(what string, at time.Time, found []Step, m Metric, before, after float64) {
		t.Helper()
		if len(found) != 1 || found[0].Metric != m || found[0].At.Sub(at).Abs() > 2*s.interval {
			t.Fatalf("%s: %+v, want one of %s at %s", what, found, m, at)
		}
		if f := found[0]; math.Abs(f.Before-before) > 0.15*before || math.Abs(f.After-after) > 0.15*after {
			t.Errorf("%s: from %v to %v, want %v to %v", what, f.Before, f.After, before, after)
		}
	}
	if found := s.ask(200, 1); found != nil {
		t.Fatalf("steps before there was one: %+v", found)
	}
	at := s.now
	expect("three times as slow", at, s.ask(15, 3), MetricTTFT, 0.2, 0.6)
	s.ask(60, 3)
	at = s.now
	expect("as before", at, s.ask(15, 1), MetricTTFT, 0.6, 0.2)
	s.ask(100, 1)
	at, s.failing = s.now, 1
	expect("outage", at, s.ask(25, 1), MetricFailures, 0, 1)
	s.ask(60, 1)
	at, s.failing = s.now, 0
	expect("end of the outage", at, s.ask(25, 1), MetricFailures, 1, 0)
}

// What comes every day at the same time is a step in the first days only.
func TestDailyJobIsLearnt(t *testing.T) {
	s := newSeries(climate{interval: time.Minute, sigma: 0.1}, 1)
	s.now = epoch()
	counts := make([]int, 10)
	for day := range counts {
		found := s.ask(14*60, 1)                 // until two in the morning
		found = append(found, s.ask(60, 1.5)...) // the job
		counts[day] = len(append(found, s.ask(9*60, 1)...))
	}
	if counts[0] != 2 {
		t.Errorf("%d steps on the first day, want one up and one down", counts[0])
	}
	if slices.Max(counts[1:]) > 2 || slices.Max(counts[6:]) > 0 {
		t.Errorf("steps by day: %v", counts)
	}
}

// clone returns a log with the same records.
func (l *Log) clone() *Log {
	c := &Log{n: l.n, last: l.last, chunks: l.chunks}
	for at := &c.chunks; *at != nil; at = &(*at).before {
		*at = new(**at)
	}
	return c
}

// Latencies that do not count, and probes that were canceled, make no step.
func TestStepsOfUncounted(t *testing.T) {
	var s Steps
	var l Log
	now := epoch()
	for i := range 300 {
		r := result.Result{Outcome: result.Success, Start: now}
		r.Timing.TTFT, r.Timing.TPOT = 100*ms+time.Duration(i%7)*ms, result.Absent
		if r.Imprecise = i >= 200 && i%2 != 0; r.Imprecise {
			r.Timing.TTFT *= 20
		}
		if i%3 == 0 {
			aside := r
			aside.Timing.TTFT *= 20
			o := Observe(&aside, nil, i%2 == 0, i%2 != 0)
			l.Add(&o)
			aside.Outcome = result.Canceled
			l.adds(1, &aside)
		}
		l.adds(1, &r)
		if found := s.Observe(&l); found != nil {
			t.Fatalf("%+v at %d", found, i)
		}
		now = now.Add(30 * time.Second)
	}
}

// A long pause makes the search begin again.
func TestStepsAfterAPause(t *testing.T) {
	s := newSeries(climate{interval: 30 * time.Second, sigma: 0.1}, 1)
	s.ask(300, 1)
	s.now = s.now.Add(24 * time.Hour)
	if found := s.ask(300, 3); found != nil {
		t.Errorf("%+v across a pause of a day", found)
	}
}

// The cost of a result is bounded, and nothing is allocated for it.
func TestStepsAllocateNothing(t *testing.T) {
	s := newSeries(harsh(0.25), 1)
	s.days(1.1, 1)
	if n := testing.AllocsPerRun(500, func() { s.steps.Observe(s.log) }); n > 0 {
		t.Errorf("%v allocations for a result", n)
	}
}
