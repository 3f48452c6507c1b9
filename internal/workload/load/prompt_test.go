package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

// tokenizer counts a prompt as tokens = overhead + ratio × words + noise.
type tokenizer struct {
	overhead int
	ratio    float64
	noise    *rand.Rand // ±2 tokens; nil is none
}

func (s tokenizer) count(words int) int {
	n := float64(s.overhead) + s.ratio*float64(words)
	if s.noise != nil {
		n += s.noise.Float64()*4 - 2
	}
	return int(math.Round(n))
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// shortest returns the length of the shortest prompt, in words.
func shortest(p config.Prefix) int { return newBuilder(1, p, newRand(1)).next().Words }

// see has a builder learn the server's count of its next prompt.
func (b *builder) see(s tokenizer) Verdict {
	v, _ := b.learn(Count{b.words, s.count(b.words)}, lab.Noon())
	return v
}

// offTarget returns how far the prompt after so many probes is from the
// target, as a share of it, and what the share may be.
func offTarget(s tokenizer, target int, prefix config.Prefix, probes int) (off, within float64) {
	b := newBuilder(target, prefix, newRand(1))
	for range probes {
		b.see(s)
	}
	truth := float64(s.overhead) + s.ratio*float64(b.words)
	within = 0.05
	if s.noise != nil {
		// A word cannot be cut, no count is better than its noise, and the tokens per
		// word have that of another count.
		within = max(within, (2*(2+0.5)+s.ratio/2)/float64(target))
	}
	return math.Abs(truth-float64(target)) / float64(target), within
}

func TestReachesTargetInThreeProbes(t *testing.T) {
	cases := 0
	for _, ratio := range []float64{0.7, 0.85, 1, 1.15, 1.3, 1.7, 2.5, 4} {
		for _, overhead := range []int{0, 1, 10, 60, 200, 400} {
			for _, target := range []int{100, 128, 256, 512, 700, 1024, 4000, 32000, 128000, 1000000, MaxTarget} {
				for _, prefix := range []config.Prefix{config.PrefixCold, config.PrefixWarm} {
					if float64(target) < float64(overhead)+ratio*float64(shortest(prefix)) {
						continue // TestTargetTooSmall
					}
					for seed := range uint64(5) {
						s := tokenizer{overhead: overhead, ratio: ratio}
						if seed > 0 {
							s.noise = newRand(seed)
						}
						for _, probes := range []int{3, 4, 10} {
							cases++
							if off, within := offTarget(s, target, prefix, probes); off > within {
								t.Errorf("%d + %v × words, target %d, %s, seed %d: %.1f %% off after %d probes",
									overhead, ratio, target, prefix, seed, off*100, probes)
							}
						}
					}
				}
			}
		}
	}
	t.Log(cases, "cases")
}

func TestReachesAnyTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tokenizer{
			overhead: rapid.IntRange(0, 400).Draw(t, "overhead"),
			ratio:    rapid.Float64Range(0.7, 4).Draw(t, "ratio"),
		}
		if seed := rapid.Uint64().Draw(t, "seed"); seed%2 == 1 {
			s.noise = newRand(seed)
		}
		prefix := rapid.SampledFrom([]config.Prefix{config.PrefixCold, config.PrefixWarm}).Draw(t, "prefix")
		least := int(math.Ceil(float64(s.overhead) + s.ratio*float64(shortest(prefix))))
		target := rapid.IntRange(least, 200000).Draw(t, "target")
		if off, within := offTarget(s, target, prefix, rapid.IntRange(3, 20).Draw(t, "probes")); off > within {
			t.Fatalf("%.1f %% off target %d", off*100, target)
		}
	})
}

func TestTargetTooSmall(t *testing.T) {
	f := func(s tokenizer, target int, prefix config.Prefix) {
		t.Helper()
		b := newBuilder(target, prefix, newRand(1))
		for range 3 {
			b.see(s)
		}
		if got, want := b.next().Words, shortest(prefix); got != want {
			t.Errorf("%+v, target %d, %s: %d words, want the shortest, %d", s, target, prefix, got, want)
		}
	}
	for _, prefix := range []config.Prefix{config.PrefixCold, config.PrefixWarm} {
		f(tokenizer{0, 1, nil}, -5, prefix)
		f(tokenizer{0, 1, nil}, 0, prefix)
		f(tokenizer{0, 1, nil}, 20, prefix)
		f(tokenizer{400, 1, nil}, 400, prefix)
		f(tokenizer{100, 4, nil}, 200, prefix)
	}
}

func TestColdStartsAnew(t *testing.T) {
	for _, prefix := range []config.Prefix{config.PrefixCold, config.PrefixPaired} {
		b := newBuilder(200, prefix, newRand(7))
		seen := map[string]bool{}
		for range 2000 {
			start := b.next().Text[:16]
			if seen[start] {
				t.Fatalf("%s: two prompts start with %q", prefix, start)
			}
			seen[start] = true
		}
	}
}

// Two probers of one endpoint must not warm the cache for each other.
func TestColdDiffersBySeed(t *testing.T) {
	a, b := newBuilder(200, config.PrefixCold, newRand(1)).next(), newBuilder(200, config.PrefixCold, newRand(2)).next()
	if a.Text[:16] == b.Text[:16] {
		t.Errorf("both start with %q", a.Text[:16])
	}
	if a.Words != b.Words {
		t.Errorf("%d and %d words", a.Words, b.Words)
	}
}

// Once the length is found, nothing changes any more, whatever the noise.
func TestWarmFreezes(t *testing.T) {
	f := func(s tokenizer, target int) {
		t.Helper()
		b := newBuilder(target, config.PrefixWarm, nil)
		for range 4 {
			b.see(s)
		}
		want := b.next().Text
		for range 50 {
			p := b.next()
			if p.Text != want {
				t.Fatalf("%+v, target %d: the text changed", s, target)
			}
			b.see(s)
		}
	}
	f(tokenizer{20, 1.2, newRand(3)}, 1000)
	f(tokenizer{0, 0.7, newRand(4)}, 1000)
	f(tokenizer{400, 4, newRand(5)}, 1000)
	f(tokenizer{10, 1.1, newRand(6)}, 80) // here the noise is 2.5 %
}

// Another model behind the same name: the search starts again.
func TestAnotherTokenizer(t *testing.T) {
	b := newBuilder(1000, config.PrefixWarm, nil)
	for _, s := range []tokenizer{{10, 1.2, nil}, {80, 2.1, nil}, {0, 0.8, nil}} {
		for range 3 {
			b.see(s)
		}
		if got := s.count(b.next().Words); got < 950 || got > 1050 {
			t.Errorf("%+v: %d tokens", s, got)
		}
	}
}

// A server whose count does not follow the length truncates: more words bring no more
// tokens.
func TestCountThatDoesNotFollow(t *testing.T) {
	for _, second := range []int{450, 440, 458} {
		b := newBuilder(500, config.PrefixWarm, nil)
		b.learn(Count{400, 450}, lab.Noon())
		if v, _ := b.learn(Count{464, second}, lab.Noon()); v != Truncated {
			t.Errorf("%d tokens of 464 words after 450 of 400: verdict %d, want truncated", second, v)
		}
	}
	b := newBuilder(500, config.PrefixWarm, nil)
	b.learn(Count{400, 450}, lab.Noon())
	if v, _ := b.learn(Count{463, 458}, lab.Noon()); v != Short {
		t.Errorf("verdict %d, want short", v)
	}
}

func TestAbsurdCountsAreIgnored(t *testing.T) {
	f := func(words, tokens int) {
		t.Helper()
		b := newBuilder(500, config.PrefixWarm, nil)
		before := b.next().Words
		if v, taken := b.learn(Count{words, tokens}, lab.Noon()); taken || v != Whole {
			t.Errorf("learn(%d, %d) took the count", words, tokens)
		}
		if after := b.next().Words; after != before {
			t.Errorf("learn(%d, %d): %d words became %d", words, tokens, before, after)
		}
	}
	f(417, 0)
	f(417, 1)
	f(417, 63)
	f(417, -1)
	f(417, 417*6+1025)
	f(417, 99_999_999)
	f(417, math.MaxInt)
	f(0, 300)
	f(-1, 300)
	f(math.MinInt, 300)
}

// A server that says the same of every prompt makes them as short as a byte for each
// token allows, once. What it says of that one cannot be, so that it is not believed
// for a while.
func TestConstantHighCount(t *testing.T) {
	b, now, short := newBuilder(8000, config.PrefixCold, newRand(1)), lab.Noon(), 0
	const runs = 200 // 400 minutes
	for range runs {
		if b.words < (8000-1024)/6 {
			t.Fatalf("%d words for 8000 tokens", b.words)
		}
		if b.words != 6667 { // 8000 / 1.2
			short++
		}
		b.learn(Count{b.words, 38_000}, now)
		now = now.Add(2 * time.Minute)
	}
	if most := runs*2/15 + 1; short > most {
		t.Errorf("%d of %d prompts have the length that the server made us believe, want %d at most", short, runs, most)
	}
}

// Whatever a server claims, the prompt stays within what tokenizers can make of its
// target: a token is at least a byte, of the six that a word has, and at most one word
// and a half. A template adds to that.
func TestBoundedForALyingServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]config.Prefix{config.PrefixCold, config.PrefixWarm}).Draw(t, "prefix")
		target := rapid.IntRange(1, MaxTarget).Draw(t, "target")
		b := newBuilder(target, prefix, newRand(1))
		least, most := max(shortest(prefix), (target-1024)/6), max(shortest(prefix), target*3/2)
		for range 20 {
			if b.words < least || b.words > most {
				t.Fatalf("%d words for %d tokens", b.words, target)
			}
			count := rapid.OneOf(rapid.IntRange(-1, 10*b.words), rapid.Int()).Draw(t, "count")
			b.learn(Count{b.words, count}, lab.Noon())
		}
	})
}

// limited is a server that truncates prompts silently to what is kept of its context,
// as Ollama does at num_ctx.
type limited struct {
	tokenizer
	context, kept int
}

func (l limited) count(words int) int {
	if n := l.tokenizer.count(words); n <= l.context {
		return n
	}
	return l.kept
}

// watch has a builder ask a server every two minutes, and returns what it took for
// whole, what it asked and the longest prompt.
func watch(b *builder, s limited, runs int, now time.Time) (whole []int, asked, longest int) {
	for range runs {
		if !now.Before(b.rest) {
			asked++
			longest = max(longest, b.words)
			n := s.count(b.words)
			if v, _ := b.learn(Count{b.words, n}, now); v == Whole {
				whole = append(whole, n)
			}
		}
		now = now.Add(2 * time.Minute)
	}
	return whole, asked, longest
}

// A server that truncates without an error is detected, whatever its context and
// tokenizer. No prompt outgrows what the target could need, few are sent, and none
// but the first counts as one of its length that is not.
func TestTruncatingServer(t *testing.T) {
	const target, runs = 8000, 300 // ten hours
	for _, ratio := range []float64{0.7, 1, 1.15, 1.3, 1.7, 4} {
		for context := 100; context < target*93/100; context += 97 {
			s := limited{tokenizer{overhead: 30, ratio: ratio}, context, context}
			b := newBuilder(target, config.PrefixCold, newRand(1))
			whole, asked, longest := watch(b, s, runs, lab.Noon())
			if len(whole) > 1 || len(whole) == 1 && whole[0] < target*5/6 {
				t.Fatalf("%+v: prompts of %v tokens were taken for %d", s, whole, target)
			}
			if longest > target*3/2 {
				t.Fatalf("%+v: a prompt of %d words", s, longest)
			}
			if most := 3*runs*2/15 + 5; asked > most {
				t.Fatalf("%+v: %d prompts in ten hours, want %d at most", s, asked, most)
			}
		}
	}
}

// After a restart with a larger context the length is found again. What it was taken
// for in the meantime does not matter.
func TestServerNoLongerTruncates(t *testing.T) {
	b := newBuilder(8000, config.PrefixPaired, newRand(1))
	s := limited{tokenizer{overhead: 30, ratio: 1.3}, 4096, 4096}
	if whole, asked, _ := watch(b, s, 7, lab.Noon()); len(whole) > 0 || asked != 2 {
		t.Fatalf("%d prompts in 14 minutes, whole ones %v, want two that are none", asked, whole)
	}
	if b.truncated != (Count{4444, 4096}) { // 8000 / 1.8
		t.Errorf("truncated %+v", b.truncated)
	}
	s.context = 16384
	whole, _, _ := watch(b, s, 5, lab.Noon().Add(20*time.Minute))
	if len(whole) != 4 || whole[0] < 7900 || whole[3] < 7900 || whole[3] > 8100 {
		t.Errorf("prompts of %v tokens, want four of about 8000 after one that shows the words", whole)
	}
	if b.truncated != (Count{}) {
		t.Errorf("still truncated: %+v", b.truncated)
	}
}

// The first guess is longer than the context, and what is wanted fits. Ollama 0.32 keeps
// half of the context, and two tokens, of a prompt that is longer.
func TestContextJustLargeEnough(t *testing.T) {
	b := newBuilder(8000, config.PrefixCold, newRand(1))
	s := limited{tokenizer{overhead: 30, ratio: 1.3}, 8192, 4098}
	whole, asked, _ := watch(b, s, 10, lab.Noon())
	if asked != 10 || len(whole) != 8 || whole[0] < 7800 || whole[7] > 8192 {
		t.Errorf("%d prompts, whole ones of %v tokens, want eight of about 8000", asked, whole)
	}
}

// A server that is restarted with a smaller context: the first prompt shows it.
func TestServerBeginsToTruncate(t *testing.T) {
	b := newBuilder(8000, config.PrefixCold, newRand(1))
	s := limited{tokenizer{overhead: 30, ratio: 1.3}, 16384, 16384}
	watch(b, s, 5, lab.Noon())
	s.context, s.kept = 7000, 7000
	if whole, asked, _ := watch(b, s, 20, lab.Noon()); len(whole) > 0 || asked > 8 {
		t.Errorf("%d prompts, of which those of %v tokens were taken for 8000", asked, whole)
	}
}

func TestText(t *testing.T) {
	for _, prefix := range []config.Prefix{config.PrefixCold, config.PrefixWarm, config.PrefixPaired} {
		least := shortest(prefix)
		for words := least; words < least+300; words++ {
			b := newBuilder(1, prefix, newRand(uint64(words)))
			b.words = words
			p := b.next()
			if got := len(strings.Fields(p.Text)); got != words || p.Words != words {
				t.Fatalf("%s: %d words, reported %d, want %d:\n%s", prefix, got, p.Words, words, p.Text)
			}
			if !strings.Contains(p.Text, head) || !strings.HasSuffix(p.Text, tail) {
				t.Fatalf("%s: no order at both ends:\n%s", prefix, p.Text)
			}
		}
	}
}

// A longer warm prompt extends a shorter one, up to where that one ends.
func TestWarmSharesPrefix(t *testing.T) {
	long := compose(5000, nil)
	for words := fixedWords; words < 1000; words += 7 {
		short := compose(words, nil)
		filler := strings.TrimSuffix(strings.TrimSuffix(short, tail), ".\n\n")
		if !strings.HasPrefix(long, strings.TrimSpace(filler)) {
			t.Fatalf("%d words are no prefix:\n%s", words, short)
		}
	}
}

func TestOpeners(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range words()[openers] {
		if len(w) != 3 || seen[w] {
			t.Errorf("opener %q", w)
		}
		seen[w] = true
	}
	if len(words()[openers]) < 250 {
		t.Errorf("%d openers", len(words()[openers]))
	}
}

func TestOneAllocation(t *testing.T) {
	rng := newRand(1)
	for _, words := range []int{50, 100, 300, 1000, 10000, 300000} {
		if n := testing.AllocsPerRun(10, func() { compose(words, rng) }); n != 1 {
			t.Errorf("%d words: %v allocations", words, n)
		}
		if text := compose(words, rng); len(text) > 6*words+spareBytes {
			t.Errorf("%d words: %d bytes", words, len(text))
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, target := range []int{256, 8000, 128000} {
		b.Run(fmt.Sprint(target), func(b *testing.B) {
			b.ReportAllocs()
			mix := NewPrompts([]workload.Length{{Tokens: target}}, config.PrefixCold, newRand(1))
			for b.Loop() {
				b.SetBytes(int64(len(mix.Next().Text)))
			}
		})
	}
}
