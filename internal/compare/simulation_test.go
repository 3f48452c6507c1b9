package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// world is a pair of simulated servers as a prober sees them: a level that drifts for
// both alike, noise of each probe with a heavy tail, few failures and wrong answers.
type world struct {
	rng   *rand.Rand
	drift float64 // of the logarithm of all latencies
	probe int
}

func newWorld(seed uint64) *world { return &world{rng: rand.New(rand.NewPCG(seed, 19))} }

// step moves the common level: a walk, and a wave of 60 probes and 30 %.
func (w *world) step() float64 {
	w.probe++
	w.drift += 0.01 * w.rng.NormFloat64()
	return w.drift + 0.3*math.Sin(2*math.Pi*float64(w.probe)/60)
}

// noise is log-normal, and one probe in thirty is slow beyond it, by a factor whose tail
// falls as 1/x².
func (w *world) noise(deviation float64) float64 {
	n := deviation * w.rng.NormFloat64()
	if w.rng.Float64() < 1.0/30 {
		n += w.rng.ExpFloat64() / 2
	}
	return n
}

// truth is what a server is like beside the common level: factors of its latencies, and
// shares.
type truth struct{ ttft, tpot, failures, wrong float64 }

func (w *world) run(s truth) Figures {
	level := w.step()
	f := Figures{Requests: 1}
	if w.rng.Float64() < s.failures {
		f.Failed = 1
		return f
	}
	f.TTFT = 0.2 * s.ttft * math.Exp(level+w.noise(0.2))
	f.TPOT = 0.02 * s.tpot * math.Exp(level+w.noise(0.08))
	f.Judged = 1
	if w.rng.Float64() < s.wrong {
		f.Wrong = 1
	}
	return f
}

// play compares two servers over at most a number of pairs, until it is decided.
func play(seed uint64, o Options, baseline, candidate truth, most int) (Verdict, int) {
	w := newWorld(seed)
	c := New(o)
	for c.Pairs() < most && c.Verdict() == Undecided {
		if w.rng.IntN(2) == 0 {
			b := w.run(baseline)
			c.Add(b, w.run(candidate))
		} else {
			x := w.run(candidate)
			c.Add(w.run(baseline), x)
		}
	}
	return c.Verdict(), c.Pairs()
}

// shares plays many seeds, and returns in what share of them the comparison had which verdict.
func shares(baseline, candidate truth, most int) map[Verdict]float64 {
	seeds := 1000
	if testing.Short() {
		seeds = 200
	}
	verdicts := map[Verdict]float64{}
	for seed := range uint64(seeds) {
		v, _ := play(seed, Defaults(), baseline, candidate, most)
		verdicts[v] += 1 / float64(seeds)
	}
	return verdicts
}

// usual is a server with a failure in a hundred and a wrong answer in twenty.
var usual = truth{1, 1, 0.01, 0.05}

// Equal servers are blocked with a probability of at most alpha, and most are passed.
func TestEqualServersPass(t *testing.T) {
	got := shares(usual, usual, 300)
	t.Log(got)
	if got[Regression] > 0.05 || got[Pass] < 0.95 {
		t.Errorf("%v", got)
	}
}

// A candidate that is worse by the very margin in everything is the hardest one not to
// block: four hypotheses are true, each only just.
func TestAtTheMarginFewAreBlocked(t *testing.T) {
	o := Defaults()
	got := shares(usual, truth{1 + o.Latency, 1 + o.TPOT, usual.failures + o.Failures, usual.wrong + o.WrongAnswers}, 300)
	t.Log(got)
	if got[Regression] > 0.05 || got[Pass] > 0.05 {
		t.Errorf("%v", got)
	}
}

func TestRegressionsAreBlocked(t *testing.T) {
	for _, c := range []struct {
		name      string
		candidate truth
		pairs     int
	}{
		{"TPOT 15 % longer", truth{1, 1.15, 0.01, 0.05}, 60},
		{"TTFT 50 % longer", truth{1.5, 1, 0.01, 0.05}, 100},
		{"30 % fail", truth{1, 1, 0.3, 0.05}, 100},
		{"40 % wrong", truth{1, 1, 0.01, 0.4}, 100},
	} {
		got := shares(usual, c.candidate, c.pairs)
		t.Log(c.name, got)
		if got[Regression] < 0.9 {
			t.Errorf("%s: %v within %d pairs", c.name, got, c.pairs)
		}
	}
}
