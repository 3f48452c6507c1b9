package estimate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// answer returns a probe that was answered with a hash.
func answer(prompt, hash string) *result.Result {
	return with(probe(256, ms), func(r *result.Result) {
		r.Length, r.Answer = 0, result.Answer{Prompt: prompt, Hash: hash}
	})
}

func TestAnswerChanges(t *testing.T) {
	// Each letter is an answer; steps are separated by a space, and after each the
	// count must be the number of it.
	f := func(name, steps string, want ...uint64) {
		t.Helper()
		l := newLab(0)
		for i, step := range strings.Fields(steps) {
			for _, c := range step {
				l.run(answer("p", string(c)))
			}
			if l.last == nil || l.last.Changes[indexAnswer] != want[i] {
				t.Errorf("%s: after step %d %+v, want %d changes", name, i+1, l.last, want[i])
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
	l := newLab(0)
	ask := func(rounds int, hash string, prompts int) {
		for range rounds {
			for i := range prompts {
				l.run(answer(fmt.Sprint(i), hash))
			}
		}
	}
	ask(10, "a", 30)
	ask(4, "b", 30)
	if n := l.last.Changes[indexAnswer]; n != 0 {
		t.Fatalf("%d changes after 4 new answers each", n)
	}
	before := l.now
	ask(16, "b", 30)
	if f := l.last; f.Changes[indexAnswer] != 1 || !f.LastChange[indexAnswer].Equal(before.Add(time.Second)) {
		t.Errorf("%d changes, the last at %v, want 1 at the fifth answer to the first prompt", f.Changes[indexAnswer], f.LastChange[indexAnswer])
	}
	if f := l.last; f.Watched != [4]bool{indexAnswer: true} {
		t.Errorf("watched: %v", f.Watched)
	}
}

func TestPromptsAreBounded(t *testing.T) {
	l := newLab(0)
	for _, hash := range []string{"a", "b"} {
		for range 10 {
			for i := range maxPrompts + 1 {
				// Only the last one changes.
				h := "a"
				if i == maxPrompts {
					h = hash
				}
				l.run(answer(fmt.Sprint(i), h))
			}
		}
	}
	if n, changes := len(l.tracker.state.named[indexAnswer].prompts), l.last.Changes[indexAnswer]; n != maxPrompts || changes != 0 {
		t.Errorf("%d prompts, %d changes", n, changes)
	}
}

// Names are watched over all prompts, with less patience.
func TestNameChanges(t *testing.T) {
	for index, set := range map[int]func(a *result.Answer, name string){
		indexFingerprint: func(a *result.Answer, name string) { a.Fingerprint = name },
		indexModel:       func(a *result.Answer, name string) { a.Model = name },
	} {
		l, n := newLab(0), 0
		say := func(names string, want uint64) {
			t.Helper()
			for _, c := range names {
				n++
				l.run(with(probe(256, ms), func(r *result.Result) {
					r.Answer.Prompt = fmt.Sprint(n)
					set(&r.Answer, string(c))
				}))
			}
			if got := l.last.Changes[index]; got != want {
				t.Errorf("%s: %d changes after %d, want %d", Sources()[index], got, n, want)
			}
		}
		l.run(probe(256, ms))
		if l.last != nil {
			t.Errorf("a reply without names tells %+v", l.last)
		}
		say("abcdefghabcdefghabcdefgh", 0) // eight servers
		say("hhhhhhhhaaaaaaa", 0)
		say("xyaxxaxy", 0)
		say("zw", 0)
		say("z", 1)
		var want [4]bool
		want[index] = true
		if l.last.Watched != want {
			t.Errorf("watched: %v", l.last.Watched)
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
