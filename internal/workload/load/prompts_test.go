package load

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

func TestDrawByWeight(t *testing.T) {
	f := func(lengths []workload.Length, want map[int]float64) {
		t.Helper()
		const draws = 20000
		rng, seen := newRand(11), map[int]int{}
		for range draws {
			seen[workload.Draw(lengths, rng)]++
		}
		for tokens, share := range want {
			// Five standard deviations of a binomial.
			within := 5 * math.Sqrt(share*(1-share)*draws)
			if off := float64(seen[tokens]) - share*draws; math.Abs(off) > within {
				t.Errorf("%v: %d drawn %d times of %d, want a share of %v", lengths, tokens, seen[tokens], draws, share)
			}
			delete(seen, tokens)
		}
		if len(seen) > 0 {
			t.Errorf("%v: others were drawn: %v", lengths, seen)
		}
	}
	f([]workload.Length{{Tokens: 256, Weight: 3}, {Tokens: 2048, Weight: 1}}, map[int]float64{256: 0.75, 2048: 0.25})
	f([]workload.Length{{Tokens: 10, Weight: 0.5}, {Tokens: 20, Weight: 0.5}, {Tokens: 30, Weight: 1.5}}, map[int]float64{10: 0.2, 20: 0.2, 30: 0.6})
	f([]workload.Length{{Tokens: 10, Weight: 1e-9}, {Tokens: 20, Weight: 1}}, map[int]float64{20: 1})
	f([]workload.Length{{Tokens: 7, Weight: 0}}, map[int]float64{7: 1})
}

// One length alone needs neither a weight nor a generator.
func TestOneLengthIsNoDraw(t *testing.T) {
	m := NewPrompts([]workload.Length{{Tokens: 500}}, config.PrefixWarm, nil)
	a, b := m.Next(), m.Next()
	if a.Target != 500 || a != b {
		t.Errorf("targets %d and %d, same text %t", a.Target, b.Target, a.Text == b.Text)
	}
}

// The second length starts from what the first has taught: by proportion after
// one count, on the line after two.
func TestSecondLengthStartsFromTheFirst(t *testing.T) {
	s := tokenizer{overhead: 200, ratio: 2}
	m := NewPrompts([]workload.Length{{Tokens: 1000, Weight: 1}, {Tokens: 4000, Weight: 1}}, config.PrefixWarm, newRand(1))
	first, second := Prompt{Target: 1000}, Prompt{Target: 4000}
	learn := func(words, tokens int) {
		t.Helper()
		p := m.Like(first)
		if p.Words != words || s.count(words) != tokens {
			t.Fatalf("%d words are %d tokens, want %d words of %d", p.Words, s.count(p.Words), words, tokens)
		}
		m.Learn(p, tokens, lab.Noon())
	}
	if got, want := m.Like(second).Words, 3333; got != want { // 4000 / 1.2
		t.Errorf("%d words, want %d", got, want)
	}
	learn(833, 1866)                                          // 1000 / 1.2; 200 + 2 × 833
	if got, want := m.Like(second).Words, 1786; got != want { // 833 × 4000 / 1866
		t.Errorf("%d words after one count, want %d", got, want)
	}
	learn(446, 1092)                                          // 833 × 1000 / 1866; 200 + 2 × 446
	if got, want := m.Like(second).Words, 1900; got != want { // (4000 - 200) / 2
		t.Errorf("%d words after two counts, want %d", got, want)
	}
}

// A length is found after one count of its own where others have been counted,
// whatever the tokenizer and the template.
func TestLengthsLearnFromEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tokenizer{
			overhead: rapid.IntRange(0, 400).Draw(t, "overhead"),
			ratio:    rapid.Float64Range(0.7, 4).Draw(t, "ratio"),
		}
		lengths := rapid.Permutation([]workload.Length{{Tokens: 1000, Weight: 1}, {Tokens: 4000, Weight: 1}, {Tokens: 16000, Weight: 1}, {Tokens: 3000, Weight: 1}}).Draw(t, "order")
		m := NewPrompts(lengths, rapid.SampledFrom([]config.Prefix{config.PrefixCold, config.PrefixWarm, config.PrefixPaired}).Draw(t, "prefix"), newRand(1))
		for i, l := range lengths {
			p := m.Like(Prompt{Target: l.Tokens})
			m.Learn(p, s.count(p.Words), lab.Noon())
			if off := math.Abs(float64(s.count(m.Like(p).Words)-l.Tokens)) / float64(l.Tokens); i > 0 && off > 0.05 {
				t.Errorf("%d tokens: %.1f %% off after one count", l.Tokens, off*100)
			}
		}
	})
}

// With noise in the counts, and in any order, each length is found within three
// counts of its own, as if it were alone.
func TestMixReachesEachLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tokenizer{
			overhead: rapid.IntRange(0, 400).Draw(t, "overhead"),
			ratio:    rapid.Float64Range(0.7, 4).Draw(t, "ratio"),
			noise:    newRand(rapid.Uint64().Draw(t, "seed")),
		}
		least := max(100, int(math.Ceil(float64(s.overhead)+s.ratio*float64(shortest(config.PrefixCold))))+2)
		var lengths []workload.Length
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(least, 5000), 1, 5, rapid.ID[int]).Draw(t, "lengths") {
			lengths = append(lengths, workload.Length{Tokens: n, Weight: 1})
		}
		m, counts := NewPrompts(lengths, config.PrefixCold, newRand(rapid.Uint64().Draw(t, "draws"))), map[int]int{}
		for range 40 {
			p := m.Next()
			if counts[p.Target] >= 3 {
				truth := float64(s.overhead) + s.ratio*float64(p.Words)
				within := max(0.05, (2+s.ratio/2+0.5)/float64(p.Target))
				if off := math.Abs(truth-float64(p.Target)) / float64(p.Target); off > within {
					t.Fatalf("%d tokens: %.1f %% off after %d counts", p.Target, off*100, counts[p.Target])
				}
			}
			m.Learn(p, s.count(p.Words), lab.Noon())
			counts[p.Target]++
		}
	})
}

func TestLearnIgnoresStrangers(t *testing.T) {
	m := NewPrompts([]workload.Length{{Tokens: 300, Weight: 1}, {Tokens: 600, Weight: 1}}, config.PrefixWarm, newRand(1))
	before := [2]int{m.Like(Prompt{Target: 300}).Words, m.Like(Prompt{Target: 600}).Words}
	m.Learn(Prompt{Words: 200, Target: 400}, 300, lab.Noon()) // no length of this mix
	m.Learn(Prompt{Words: 200, Target: 300}, 0, lab.Noon())   // no count
	m.Learn(Prompt{}, 300, lab.Noon())                        // no prompt
	if after := [2]int{m.Like(Prompt{Target: 300}).Words, m.Like(Prompt{Target: 600}).Words}; after != before {
		t.Errorf("%v words became %v", before, after)
	}
}

func TestLikeHasTheSameLength(t *testing.T) {
	m := NewPrompts([]workload.Length{{Tokens: 300, Weight: 1}, {Tokens: 600, Weight: 1}}, config.PrefixCold, newRand(1))
	for range 50 {
		p := m.Next()
		if q := m.Like(p); q.Target != p.Target || q.Words != p.Words || q.Text == p.Text {
			t.Fatalf("a prompt of %d words for %d tokens, then one of %d for %d, same text %t", p.Words, p.Target, q.Words, q.Target, p.Text == q.Text)
		}
	}
}

// A length that the server truncates twice rests alone, and only for a while.
func TestRestingIsOfOneLength(t *testing.T) {
	m := NewPrompts([]workload.Length{{Tokens: 500, Weight: 1}, {Tokens: 8000, Weight: 1}}, config.PrefixCold, newRand(1))
	short, long := Prompt{Target: 500}, Prompt{Target: 8000}
	for i := range 2 {
		if _, resting := m.Resting(long, lab.Noon()); resting {
			t.Fatalf("resting after %d truncated prompts", i)
		}
		if v := m.Learn(m.Like(long), 2050, lab.Noon()); v != Truncated {
			t.Errorf("verdict %d, want truncated", v)
		}
	}
	for after, want := range map[time.Duration]bool{0: true, 15*time.Minute - 1: true, 15 * time.Minute: false} {
		if c, resting := m.Resting(long, lab.Noon().Add(after)); resting != want || c.Tokens != 2050 {
			t.Errorf("after %s: resting %t for %+v, want %t", after, resting, c, want)
		}
	}
	if _, resting := m.Resting(short, lab.Noon()); resting {
		t.Error("the other length rests too")
	}
}

// A mix of other lengths keeps what was learnt of a length, and new lengths begin with it.
func TestMixUsesOtherLengths(t *testing.T) {
	m := NewPrompts([]workload.Length{{Tokens: 400, Weight: 1}}, config.PrefixCold, newRand(1))
	for range 5 { // a tokenizer of 2 tokens for each word
		p := m.Next()
		m.Learn(p, 2*p.Words, time.Now())
	}
	m.Use([]workload.Length{{Tokens: 400, Weight: 1}, {Tokens: 1000, Weight: 3}})
	for share, want := range map[float64]int{0.1: 400, 0.24: 400, 0.26: 1000, 0.99: 1000} {
		p := m.At(share)
		if off := math.Abs(2*float64(p.Words)/float64(want) - 1); p.Target != want || off > 0.02 {
			t.Errorf("at %v: %d words for %d tokens, want half of %d", share, p.Words, p.Target, want)
		}
	}
}
