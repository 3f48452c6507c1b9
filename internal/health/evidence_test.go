package health

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// noise is how probes are bad: a share of them, each on its own or with a memory, in which the
// correlation of two probes falls to 1/e.
type noise struct {
	share  float64
	memory time.Duration
}

// source draws probes. With a memory a probe is bad while a normally distributed process, whose
// correlation falls exponentially, is above the share's quantile.
type source struct {
	random *rand.Rand
	value  float64
	at     time.Time
}

func (n noise) String() string { return fmt.Sprintf("%.1f %%, memory of %s", 100*n.share, n.memory) }

func (s *source) bad(of noise, at time.Time) bool {
	if of.memory == 0 {
		return s.random.Float64() < of.share
	}
	kept := math.Exp(-at.Sub(s.at).Seconds() / of.memory.Seconds())
	s.value = kept*s.value + math.Sqrt(1-kept*kept)*s.random.NormFloat64()
	s.at = at
	return s.value > math.Sqrt2*math.Erfinv(1-2*of.share)
}

// probed is a module of an objective of 99 % that is probed for a while, and failures twice more
// at once while they last, as the scheduler does.
type probed struct {
	t        *testing.T
	of       series.Objective
	interval time.Duration
	seed     uint64
}

// verdicts returns after how long each verdict came. What was found is over after an hour.
func (p probed) verdicts(for_ time.Duration, of func(time.Duration) noise) (all []time.Duration) {
	m := &module{Begin: begin(), allowed: 0.01, interval: p.interval}
	s := &source{random: rand.New(rand.NewPCG(p.seed, 1))}
	var found time.Duration
	probe := func(after time.Duration) bool {
		at := begin().Add(after)
		bad := s.bad(of(after), at)
		if m.observe(p.of, at, bad) && (len(all) == 0 || after-found > time.Hour) {
			all, found = append(all, after), after
		}
		return bad
	}
	for after := time.Duration(s.random.Int64N(int64(p.interval))); after < for_; after += p.interval {
		confirm := p.of == series.Availability
		for i := time.Duration(0); i < 3 && probe(after+i*min(5*time.Second, p.interval/3)) && confirm; i++ {
		}
	}
	return all
}

// TestFalseVerdicts counts verdicts on objectives that are met, in 90 days and from the first
// hour on: at most one.
func TestFalseVerdicts(t *testing.T) {
	endpoints := 20
	if testing.Short() {
		endpoints = 1
	}
	for _, c := range []struct {
		of series.Objective
		noise
	}{
		{series.Availability, noise{share: 0.001}},
		{series.Availability, noise{share: 0.005}},
		{series.Availability, noise{share: 0.01}},
		{series.TTFT, noise{share: 0.005}},
		{series.TTFT, noise{share: 0.01}},
		{series.TTFT, noise{0.005, 30 * time.Second}},
		{series.TTFT, noise{0.01, 30 * time.Second}},
		{series.TTFT, noise{0.005, time.Minute}},
		{series.TTFT, noise{0.01, time.Minute}},
		{series.TTFT, noise{0.005, 5 * time.Minute}},
		{series.TTFT, noise{0.01, 5 * time.Minute}},
	} {
		for _, interval := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(series.ObjectiveNames()[c.of], " ", c.share, " ", c.memory, " ", interval), func(t *testing.T) {
				t.Parallel()
				var all, early int
				for i := range endpoints {
					for _, after := range (probed{t, c.of, interval, uint64(i)}).verdicts(verdictPeriod, func(time.Duration) noise { return c.noise }) {
						all++
						if after < 3*day {
							early++
						}
					}
				}
				mean := float64(all) / float64(endpoints)
				t.Logf("%s %s %s: %.2f in 90 days, %.2f of them in the first three", series.ObjectiveNames()[c.of], c.noise, interval, mean, float64(early)/float64(endpoints))
				if mean > 1 && endpoints > 1 || mean > 3 {
					t.Errorf("%.2f false verdicts in 90 days, want at most 1", mean)
				}
			})
		}
	}
}

// TestTimeToVerdict is about an objective that is missed after 10 good minutes, at a probe every
// 15 s: the median of the time to the verdict.
func TestTimeToVerdict(t *testing.T) {
	const calm = 10 * time.Minute
	for _, c := range []struct {
		name string
		of   series.Objective
		noise
		want time.Duration
	}{
		{"all fail", series.Availability, noise{share: 1}, time.Minute},
		{"30 % fail", series.Availability, noise{share: 0.3}, 5 * time.Minute},
		{"10 % fail", series.Availability, noise{share: 0.1}, 10 * time.Minute},
		{"all are late", series.TTFT, noise{share: 1}, 4 * time.Minute},
		// TTFT doubles where it is log-normal with sigma 0.25 and its p99 was the threshold.
		{"66 % are late", series.TTFT, noise{share: 0.66}, 6 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []time.Duration
			for i := range 101 {
				found := probed{t, c.of, 15 * time.Second, uint64(i)}.verdicts(4*time.Hour, func(after time.Duration) noise {
					if after < calm {
						return noise{}
					}
					return c.noise
				})
				all = append(all, append(found, 4*time.Hour)[0]-calm)
			}
			slices.Sort(all)
			t.Logf("median %s, p90 %s", all[50].Round(time.Second), all[90].Round(time.Second))
			if all[50] > c.want {
				t.Errorf("median %s, want at most %s", all[50], c.want)
			}
		})
	}
}

// Failures of which each comes within a gap of the one before are a cluster. Of clusters whose
// mean size is m, (1-1/m)^(n-1) have n or more.
func TestExpected(t *testing.T) {
	c := chance{allowed: 0.01, interval: 30 * time.Second}
	e := &evidence{Size: 3}
	// Before any is seen: a share of 0.001, so that in the 10 probes of a gap another one comes with
	// 1 - 0.999^10 = 0.009955...; of all others, which begin a cluster, there are 0.001/30 in a second.
	further := 1 - math.Pow(0.999, 10)
	want := 0.001 / 30 * (1 - further) * 90 * 86400 * further * further
	if got := e.expected(c, 0, begin()); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("%g, want %g", got, want)
	}
	// 40 clusters of 60 failures in 4 days: a mean of (20 usual ones + 60) / 60, and (3 + 40) in 4 days
	// and as long as 3 usual ones take.
	today := begin().Unix() / 86400
	e.Days = []clusters{{Day: today - 9, N: 1000, Bad: 1000}, {Day: today - 2, N: 30, Bad: 45}, {Day: today, N: 10, Bad: 15}}
	mean := (20/(1-further) + 60) / 60
	rate := (3 + 40) / (3/(0.001/30*(1-further)) + 4*86400)
	want = rate * 90 * 86400 * math.Pow(1-1/mean, 2)
	if got := e.expected(c, 4*day, begin()); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("with clusters seen: %g, want %g", got, want)
	}
}
