package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const ms = time.Millisecond

type labOf = lab.Lab[*Estimate, *Finding]

func newLab() *labOf {
	return lab.New[*Estimate, *Finding](func() *Estimate { return &Estimate{window: 96} })
}

// answer returns a probe that was answered with a hash.
func answer(prompt, hash string) *result.Result {
	return lab.With(lab.Probe(256, ms), func(r *result.Result) {
		r.Length, r.Answer = 0, result.Answer{Prompt: prompt, Hash: hash}
	})
}

func TestAnswerChanges(t *testing.T) {
	// Each letter is an answer; steps are separated by a space, and after each the
	// count must be the number of it.
	f := func(name, steps string, want ...uint64) {
		t.Helper()
		l := newLab()
		for i, step := range strings.Fields(steps) {
			for _, c := range step {
				l.Run(answer("p", string(c)))
			}
			if l.Last == nil || l.Last.Changes[SourceAnswer] != want[i] {
				t.Errorf("%s: after step %d %+v, want %d changes", name, i+1, l.Last, want[i])
			}
		}
	}
	f("always the same", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0)
	f("another one for good", "aaaaaaaaaa bbbb b bbbbbbbbbbbbbbb", 0, 0, 1, 1)
	f("one of several after another", "aaaaaaaaaa bcde f", 0, 0, 1)
	f("before it was learnt", "aaaaaaaaa bbbbbbbbbbbb", 0, 0)
	f("between known ones", "aaaaabbbbb aaaaaaaa bbbbbbbb aaaaaaaa", 0, 0, 0, 0)
	f("seldom another one", "aaaaaaaaaa bacadaeafagahaiajakalaman", 0, 0)
	f("what came beside a known one is known", "aaaaaaaaaa bbbba bbbbbbbb", 0, 0, 0)
	f("there and back", "aaaaaaaaaa bbbbb bbbbbbbbbb aaaa a", 0, 1, 1, 1, 2)
	f("known no more", "aaaaaaaaaa babababababcadaeafagahaia bbbb b", 0, 0, 0, 1)
	f("never the same", "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ", 0, 0)
	f("5 of 10 are learnt", "abcdeabcde fffff", 0, 1)
	f("6 of 10 are not", "abcdefabcd ggggg", 0, 0)
	f("not any more the same", "aaaaaaaaaa abcdefghijklmnopqrstuvwxyz", 0, 1)
}

func TestChangesOfSeveralPrompts(t *testing.T) {
	l := newLab()
	ask := func(rounds int, hash string, prompts int) {
		for range rounds {
			for i := range prompts {
				l.Run(answer(fmt.Sprint(i), hash))
			}
		}
	}
	ask(10, "a", 30)
	ask(4, "b", 30)
	if n := l.Last.Changes[SourceAnswer]; n != 0 {
		t.Fatalf("%d changes after 4 new answers each", n)
	}
	before := l.Now
	ask(16, "b", 30)
	if f := l.Last; f.Changes[SourceAnswer] != 1 || !f.LastChange[indexAnswer].Equal(before.Add(time.Second)) {
		t.Errorf("%d changes, the last at %v, want 1 at the fifth answer to the first prompt", f.Changes[SourceAnswer], f.LastChange[indexAnswer])
	}
	if f := l.Last; f.Watched != [8]bool{indexAnswer: true} {
		t.Errorf("watched: %v", f.Watched)
	}
}

func TestPromptsAreBounded(t *testing.T) {
	l := newLab()
	for _, hash := range []string{"a", "b"} {
		for range 10 {
			for i := range maxPrompts + 1 {
				// Only the last one changes.
				h := "a"
				if i == maxPrompts {
					h = hash
				}
				l.Run(answer(fmt.Sprint(i), h))
			}
		}
	}
	if n, changes := len(l.Estimate.named[indexAnswer].prompts), l.Last.Changes[SourceAnswer]; n != maxPrompts || changes != 0 {
		t.Errorf("%d prompts, %d changes", n, changes)
	}
}

// Names are watched over all prompts, with less patience.
func TestNameChanges(t *testing.T) {
	for index, set := range map[int]func(a *result.Answer, name string){
		indexFingerprint: func(a *result.Answer, name string) { a.Fingerprint = name },
		indexModel:       func(a *result.Answer, name string) { a.Model = name },
	} {
		l, n := newLab(), 0
		say := func(names string, want uint64) {
			t.Helper()
			for _, c := range names {
				n++
				l.Run(lab.With(lab.Probe(256, ms), func(r *result.Result) {
					r.Answer.Prompt = fmt.Sprint(n)
					set(&r.Answer, string(c))
				}))
			}
			if got := l.Last.Changes[Sources()[index]]; got != want {
				t.Errorf("%s: %d changes after %d, want %d", Sources()[index], got, n, want)
			}
		}
		l.Run(lab.Probe(256, ms))
		if l.Last != nil {
			t.Errorf("a reply without names gives %+v", l.Last)
		}
		say("abcdefghabcdefghabcdefgh", 0) // eight servers
		say("hhhhhhhhaaaaaaa", 0)
		say("xyaxxaxy", 0)
		say("zw", 0)
		say("z", 1)
		var want [8]bool
		want[index] = true
		if l.Last.Watched != want {
			t.Errorf("watched: %v", l.Last.Watched)
		}
	}
}

// A month of an answer every minute, of which one in twenty is like no other.
func TestAnswersThatFlipAreNoChange(t *testing.T) {
	const months = 5
	events := uint64(0)
	for seed := range uint64(months) {
		events += flips(seed, 0.05)
	}
	if events > 0 { // expected: 0.05^5 × 0.95 × 43200 = 0.013 a month
		t.Errorf("%d changes in %d months", events, months)
	}
}

// flips returns the changes in a month of answers of which a share is like no
// other.
func flips(seed uint64, share float64) uint64 {
	random, c := rand.New(rand.NewPCG(seed, 3)), changes{}
	for i := range 43_200 {
		v := "usual"
		if random.Float64() < share {
			v = fmt.Sprint(i)
		}
		c.observe("p", v, answerRule(), time.Time{})
	}
	return c.count
}

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
			s.observe(r, lab.Noon())
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
		s.Up, s.Down = 0, 0 // a false one before is another test's
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
		l := newLab()
		for range minBaseline {
			l.Run(scored(-2))
		}
		for n := range 1000 {
			if l.Run(scored(-2 + by)); l.Last.Changes[SourceLogprob] > 0 {
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
	l := newLab()
	for i := range 2000 {
		mean := -2.0
		if i%6 == 5 {
			mean = -9
		}
		l.Run(scored(mean))
	}
	if n := l.Last.Changes[SourceLogprob]; n != 0 {
		t.Errorf("%d shifts", n)
	}
}

// After a shift the new level is learnt, and the next shift is found again.
func TestShiftAfterShift(t *testing.T) {
	l := newLab()
	for i, level := range []float64{-2, -2.1, -2, -2.02} {
		at := l.Now
		for range 2 * minBaseline {
			l.Run(scored(level))
		}
		f := l.Last
		if f.Changes[SourceLogprob] != uint64(i) || *f.Logprob != level {
			t.Fatalf("at level %v: %d shifts, score %v", level, f.Changes[SourceLogprob], *f.Logprob)
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
		if l := newLab(); l.Run(lab.With(scored(-2), change)) != nil {
			t.Errorf("%s: %+v", name, l.Last)
		}
	}
	l := newLab()
	if f := l.Run(scored(-2.5)); f == nil || *f.Logprob != -2.5 || f.Watched != [8]bool{indexLogprob: true} || len(f.Changes) > 0 {
		t.Errorf("one score: %+v", f)
	}
	lost := lab.With(scored(-2.5), func(r *result.Result) {
		r.Kind, r.Outcome, r.Logprob = api.Scoring, result.Overloaded, result.Logprob{}
	})
	if f := l.Run(lost); f != nil && f.Logprob != nil {
		t.Errorf("after a failure the score of before is still there: %v", *f.Logprob)
	}
}

// The baseline of scores goes on: a shift is found where the next process would still
// have learned. Of another model it begins again.
func TestScoresGoOnAfterARestart(t *testing.T) {
	learnt := newLab()
	for i := range 80 {
		learnt.Run(scored(-2 + 0.002*float64(i%5)))
	}
	shift := func(model string) uint64 {
		next := learnt.NextProcess(t)
		for range 40 {
			next.Run(lab.With(scored(-2.1), func(r *result.Result) { r.Model = model }))
		}
		return next.Last.Changes[SourceLogprob]
	}
	if n := shift("m"); n != 1 {
		t.Errorf("%d shifts after a restart, want 1", n)
	}
	if n := shift("other"); n != 0 {
		t.Errorf("%d shifts of another model", n)
	}
}

func TestCanceledSaysNothing(t *testing.T) {
	canceled := lab.With(answer("p", "h"), func(r *result.Result) {
		r.Answer.Model, r.Answer.Fingerprint, r.Outcome = "m", "f", result.Canceled
		r.Logprob = result.Logprob{Tokens: 10, Mean: -2}
	})
	if f := newLab().Run(canceled); f != nil {
		t.Errorf("findings %+v, want none", f)
	}
}

// BenchmarkShift reports false shifts in a month of a score every minute, over
// 200 months, and how many scores it takes to find a shift of 0.02.
func BenchmarkShift(b *testing.B) {
	for name, kind := range map[string]noise{"independent": independent, "correlated": correlated, "heavy-tailed": heavyTailed} {
		for _, deviation := range []float64{0.002, 0.005, 0.0075, 0.01} {
			b.Run(fmt.Sprintf("%s/noise=%v", name, deviation), func(b *testing.B) {
				var events int
				var early, late []float64
				for b.Loop() {
					events = falseShifts(200, deviation, kind)
					early = delays(1000, minBaseline, 0.02, deviation, kind)
					late = delays(1000, maxBaseline, 0.02, deviation, kind)
				}
				b.ReportMetric(float64(events)/200, "false/month")
				b.ReportMetric(quantile(early, 0.95), "early-p95")
				b.ReportMetric(quantile(late, 0.5), "late-p50")
				b.ReportMetric(quantile(late, 0.95), "late-p95")
				b.ReportMetric(quantile(late, 0.99), "late-p99")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkFlips reports the changes in a month of an answer every minute of
// which a share is like no other, over 200 months.
func BenchmarkFlips(b *testing.B) {
	for _, share := range []float64{0.05, 0.1, 0.2} {
		b.Run(fmt.Sprint(share), func(b *testing.B) {
			var events uint64
			for b.Loop() {
				events = 0
				for seed := range uint64(200) {
					events += flips(seed, share)
				}
			}
			b.ReportMetric(float64(events)/200, "changes/month")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }

// Other scores than usual are reported from the shift on until the usual ones are back, over restarts, and for a week.
func TestScoresAreOthersUntilTheUsualAreBack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := newLab()
	run := func(n int, level float64) *Change {
		for range n {
			l.Run(scored(level + 0.004*random.NormFloat64()))
			l.Now = l.Now.Add(time.Minute)
		}
		return l.Last.Scores
	}
	if c := run(300, -2); c != nil {
		t.Fatalf("from the beginning: %+v", c)
	}
	began := l.Now
	c := run(20, -2.02)
	if c == nil || c.Source != SourceLogprob || c.Since.Before(began) || c.Since.After(l.Now) {
		t.Fatalf("after 20 others: %+v", c)
	}
	since := c.Since
	for range 3 { // once while it learns, once when it has
		l = l.NextProcess(t)
		if c := run(500, -2.02); c == nil || !c.Since.Equal(since) {
			t.Fatalf("after a restart: %+v, want since %v", c, since)
		}
	}
	if c := run(100, -2.1); c == nil || !c.Since.Equal(since) {
		t.Errorf("a third level: %+v", c)
	}
	if c := run(60, -2); c != nil {
		t.Errorf("an hour after the usual one is back: %+v", c)
	}
	if c := run(500, -2); c != nil {
		t.Errorf("later: %+v", c)
	}
	run(30, -2.05)
	if l.Now = l.Now.Add(7 * 24 * time.Hour); run(1, -2.05) != nil {
		t.Error("a week later the others are not usual")
	}
}

// The usual scores are back by the median of the latest, whichever of them are in the middle by time.
func TestUsualScoresAreBackByTheirMedian(t *testing.T) {
	for name, of := range map[string]struct {
		middle, others float64 // the 10th and the 11th score, and the 18 others
		back           bool
	}{
		"two of 20": {-2, -2.1, false},
		"18 of 20":  {-2.1, -2, true},
	} {
		s := score{savedScore: savedScore{Usual: &shift{mean: -2, noise: 0.005}}}
		back := false
		for i := range backScores {
			v := of.others
			if i == 9 || i == 10 {
				v = of.middle
			}
			back = s.isBack(v, time.Time{})
		}
		if back != of.back {
			t.Errorf("%s at the usual score: back is %t, want %t", name, back, of.back)
		}
	}
}
