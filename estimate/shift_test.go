package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// noise returns values of mean 0 and standard deviation 1.
type noise func(*rand.Rand) func() float64

func independent(r *rand.Rand) func() float64 { return r.NormFloat64 }

// correlated is noise that remembers half of its last value.
func correlated(r *rand.Rand) func() float64 {
	v := r.NormFloat64()
	return func() float64 {
		v = 0.5*v + math.Sqrt(0.75)*r.NormFloat64()
		return v
	}
}

// heavyTailed is Student's t with 3 degrees of freedom, whose variance is 3.
func heavyTailed(r *rand.Rand) func() float64 {
	return func() float64 {
		a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		return r.NormFloat64() / math.Sqrt(a*a+b*b+c*c)
	}
}

// falseShifts counts the shifts in months of a score every minute without any.
func falseShifts(months int, deviation float64, kind noise) (events int) {
	for seed := range months {
		next, s := kind(rand.New(rand.NewPCG(uint64(seed), 4))), score{}
		r := scored(0)
		for range 43_200 {
			r.Logprob.Mean = -2 + deviation*next()
			s.observe(r, noon())
		}
		events += int(s.count)
	}
	return events
}

// delays returns after how many scores a shift was found, sorted; never is a
// thousand.
func delays(runs, before int, by, deviation float64, kind noise) []float64 {
	all := make([]float64, runs)
	for seed := range runs {
		next, s := kind(rand.New(rand.NewPCG(uint64(seed), 5))), shift{}
		for range before {
			s.observe(-2 + deviation*next())
		}
		s.up, s.down = 0, 0 // a false one before is another test's
		n := 1
		for n < 1000 && !s.observe(-2+by+deviation*next()) {
			n++
		}
		all[seed] = float64(n)
	}
	slices.Sort(all)
	return all
}

// scored returns the result of scoring the reference passage.
func scored(mean float64) *result.Result {
	return &result.Result{Outcome: result.Success, Kind: api.Scoring, Model: "m", Logprob: result.Logprob{Tokens: 300, Mean: mean}}
}

func TestNoFalseShifts(t *testing.T) {
	const months = 4
	for name, kind := range map[string]noise{"independent": independent, "correlated": correlated, "heavy tails": heavyTailed} {
		for _, deviation := range []float64{0.002, 0.05} {
			if n := falseShifts(months, deviation, kind); n > 0 {
				t.Errorf("%s, %v: %d shifts in %d months", name, deviation, n, months)
			}
		}
	}
}

// A shift of 0.02 is found within 20 scores at noise of up to 0.005.
func TestShiftsAreFoundSoon(t *testing.T) {
	f := func(name string, deviation, by float64, kind noise) {
		t.Helper()
		for _, before := range []int{minBaseline, maxBaseline} {
			if d := quantile(delays(50, before, by, deviation, kind), 0.95); d > 20 {
				t.Errorf("%s, noise %v after %d scores: a shift of %v takes %v", name, deviation, before, by, d)
			}
		}
	}
	f("independent", 0.002, 0.02, independent)
	f("independent", 0.005, 0.02, independent)
	f("independent", 0.005, -0.02, independent)
	f("correlated", 0.005, 0.02, correlated)
	f("correlated", 0.005, -0.02, correlated)
	f("heavy tails", 0.005, 0.02, heavyTailed)
}

// Without noise the sums are known: a deviation of 8 counts as 4, less 1, so that
// the eighth is the first above 22. A deviation of 1 never is one.
func TestShiftOfExactScores(t *testing.T) {
	f := func(by float64, want int) {
		t.Helper()
		l := newLab(0)
		for range minBaseline {
			l.run(scored(-2))
		}
		for n := range 1000 {
			if l.run(scored(-2 + by)); l.last.Changes[indexLogprob] > 0 {
				if n+1 != want {
					t.Errorf("%v: a shift after %d scores, want %d", by, n+1, want)
				}
				return
			}
		}
		if want != 0 {
			t.Errorf("%v: no shift", by)
		}
	}
	f(0.02, 8)
	f(-0.02, 8)
	f(1e6, 8)
	f(0.007, 13) // 2.8 deviations, 1.8 each
	f(0.0024, 0)
}

func TestOutliersAreNoShift(t *testing.T) {
	l := newLab(0)
	for i := range 2000 {
		mean := -2.0
		if i%6 == 5 {
			mean = -9
		}
		l.run(scored(mean))
	}
	if n := l.last.Changes[indexLogprob]; n != 0 {
		t.Errorf("%d shifts", n)
	}
}

// After a shift the new level is learnt, and the next shift is found again.
func TestShiftAfterShift(t *testing.T) {
	l := newLab(0)
	for i, level := range []float64{-2, -2.1, -2, -2.02} {
		at := l.now
		for range 2 * minBaseline {
			l.run(scored(level))
		}
		f := l.last
		if f.Changes[indexLogprob] != uint64(i) || *f.Logprob != level {
			t.Fatalf("at level %v: %d shifts, score %v", level, f.Changes[indexLogprob], *f.Logprob)
		}
		if took := f.LastChange[indexLogprob].Sub(at).Seconds(); i > 0 && took != 8 {
			t.Errorf("the shift to %v was found after %v s, want 8", level, took)
		}
	}
}

func TestWhatIsNoScore(t *testing.T) {
	for name, change := range map[string]func(*result.Result){
		"failed":       func(r *result.Result) { r.Outcome = result.ProtocolError },
		"no tokens":    func(r *result.Result) { r.Logprob.Tokens = 0 },
		"not a number": func(r *result.Result) { r.Logprob.Mean = math.NaN() },
		"infinite":     func(r *result.Result) { r.Logprob.Mean = math.Inf(-1) },
	} {
		if l := newLab(0); l.run(with(scored(-2), change)) != nil {
			t.Errorf("%s: %+v", name, l.last)
		}
	}
	l := newLab(0)
	if f := l.run(scored(-2.5)); f == nil || *f.Logprob != -2.5 || f.Watched != [4]bool{indexLogprob: true} || f.Changes != [4]uint64{} {
		t.Errorf("one score: %+v", f)
	}
	lost := with(scored(-2.5), func(r *result.Result) {
		r.Kind, r.Outcome, r.Logprob = api.Scoring, result.Overloaded, result.Logprob{}
	})
	if f := l.run(lost); f != nil && f.Logprob != nil {
		t.Errorf("after a failure the score of before is still there: %v", *f.Logprob)
	}
}
