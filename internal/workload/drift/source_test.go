package drift

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Words are all different, which their hashes must be.
func TestTrackWords(t *testing.T) {
	words := slices.Sorted(slices.Values(trackWords()))
	if n := len(slices.Compact(slices.Clone(words))); n != len(trackWords()) || words[0] == "" {
		t.Errorf("%d different words of %d", n, len(trackWords()))
	}
}

// A module asks a third of the words that a day has answers, three times a day, and
// there are as many words as the shortest interval searches.
func TestTrackedPrompts(t *testing.T) {
	for interval, want := range map[time.Duration]int{15 * time.Minute: 32, 3 * time.Minute: 160, time.Second: 160} {
		m := &config.Module{TrackModel: true, Interval: model.Duration(interval)}
		if b := newTrackSource(m.TrackedAnswers() / asksPerDay); b.prompts != want || b.words() > len(trackWords()) {
			t.Errorf("interval %v: %d prompts, want %d; %d of %d words", interval, b.prompts, want, b.words(), len(trackWords()))
		}
	}
}

// ask lets a source ask n questions of a model that answers word i with first(i, round).
func ask(b *trackSource, n int, first func(i, round int) *result.FirstToken) (words []int) {
	rounds := map[int]int{}
	for range n {
		q := b.Next(1, 0)
		i := slices.Index(trackWords(), q.Texts[0])
		words = append(words, i)
		q.First(first(i, rounds[i]))
		rounds[i]++
	}
	return words
}

// Words whose first token differs come first, and others fill up.
func TestBorderPrompts(t *testing.T) {
	border := []int{3, 17, 50}
	flipping := func(i, round int) *result.FirstToken {
		if slices.Contains(border, i) && round == 2 {
			return &result.FirstToken{Text: "other"}
		}
		return &result.FirstToken{Text: "usual"}
	}
	b := newTrackSource(32)
	searched := ask(b, 3*64, flipping)
	for i, word := range searched {
		if word != i%64 {
			t.Fatalf("question %d is word %d, want %d", i, word, i%64)
		}
	}
	asked := ask(b, 2*32, flipping)
	want := []int{3, 17, 50}
	for i := 0; len(want) < 32; i++ {
		if !slices.Contains(border, i) {
			want = append(want, i)
		}
	}
	if diff := cmp.Diff(sortedInts(want), sortedInts(asked[:32])); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(asked[:32], asked[32:]); diff != "" {
		t.Errorf("second round (-first +second):\n%s", diff)
	}
}

func sortedInts(all []int) []int { return slices.Sorted(slices.Values(all)) }

// Where replies have log-probabilities there is no search, also if one lacks them.
func TestScoredPrompts(t *testing.T) {
	words := ask(newTrackSource(32), 40, func(i, round int) *result.FirstToken {
		f := &result.FirstToken{Text: "a", Top: []api.TokenLogprob{{Token: "a", Logprob: -1}}}
		if round == 2 && i == 4 {
			f.Top = nil
		}
		return f
	})
	for i, word := range words {
		if word != i%scoredPrompts {
			t.Fatalf("question %d is word %d, want %d", i, word, i%scoredPrompts)
		}
	}
}

// The passage must stay as it is, to the byte: its score is compared over
// months and between versions.
func TestReferencePassageNeverChanges(t *testing.T) {
	const want = "911a27abda830b991aed35aae46704dc064c7e3916311c0026420ac6a90f7f00"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(Reference().Passage))); got != want {
		t.Errorf("SHA-256 %s, want %s", got, want)
	}
	if n := len(strings.Fields(Reference().Passage)); n < 200 || n > 300 {
		t.Errorf("%d words", n)
	}
	if Reference().Passage != strings.TrimSpace(Reference().Passage) {
		t.Error("white space at an end, which servers cut off")
	}
}

// So must the reference texts: their embeddings are compared over months.
func TestReferenceTextsNeverChange(t *testing.T) {
	texts := Reference().Texts
	const want = "b31af06e4ebab198fa85635acd98ea95dae8dd4439aad806928ffbf86334943e"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(Reference().Query+"\n"+strings.Join(texts, "\n---\n")))); got != want {
		t.Errorf("SHA-256 %s, want %s", got, want)
	}
	for _, text := range append(texts, Reference().Query) {
		if len(text) < 20 || len(text) > 240 || text != strings.TrimSpace(text) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}
