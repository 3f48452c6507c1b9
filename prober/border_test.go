package prober

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// tracking returns a module with track_model.
func tracking() *config.Module {
	m := newModule()
	m.InputTokens, m.OutputTokens, m.Prefix, m.TrackModel = config.Lengths{}, config.Tokens(1), config.PrefixWarm, true
	return m
}

// Words are all different, which their hashes must be.
func TestTrackWords(t *testing.T) {
	words := slices.Sorted(slices.Values(trackWords[:]))
	if n := len(slices.Compact(slices.Clone(words))); n != len(trackWords) || words[0] == "" {
		t.Errorf("%d different words of %d", n, len(trackWords))
	}
}

// A module asks a third of the words that a day has answers, three times a day, and
// there are as many words as the shortest interval searches.
func TestTrackedPrompts(t *testing.T) {
	for interval, want := range map[time.Duration]int{15 * time.Minute: 32, 3 * time.Minute: 160, time.Second: 160} {
		m := tracking()
		m.Interval = model.Duration(interval)
		if b := newBorderSource(m); b.prompts != want || b.words() > len(trackWords) {
			t.Errorf("interval %v: %d prompts, want %d; %d of %d words", interval, b.prompts, want, b.words(), len(trackWords))
		}
	}
}

// ask lets a source ask n questions of a model that answers word i with first(i, round).
func ask(b *borderSource, n int, first func(i, round int) *result.FirstToken) (words []int) {
	rounds := map[int]int{}
	for range n {
		q := b.next(1, 0)
		i := slices.Index(trackWords[:], q.texts[0])
		words = append(words, i)
		q.first(first(i, rounds[i]))
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
	b := &borderSource{prompts: 32}
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
	words := ask(&borderSource{prompts: 32}, 40, func(i, round int) *result.FirstToken {
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

func TestTrackModel(t *testing.T) {
	const top = `{"model":"m-v2","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":"It"},"logprobs":{"content":[{"top_logprobs":[{"token":"It","logprob":-0.25},{"token":"I","logprob":-1.5}]}]}}]}`
	var mu sync.Mutex // guards what the server shares with the test
	var bodies []string
	var refuses func(w http.ResponseWriter)
	asked := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
	refuse := func(how func(w http.ResponseWriter)) {
		mu.Lock()
		defer mu.Unlock()
		refuses, bodies = how, nil
	}
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
		switch {
		case !strings.Contains(string(body), "top_logprobs"):
			events(w, chunk("It"), stop, usage, endMarker)
		case refuses != nil:
			refuses(w)
		default:
			events(w, top, stop, usage, endMarker)
		}
	})
	cfg := newEndpoint(t, s.URL)
	answer := result.Answer{Prompt: check.Hash(trackWords[0]), Model: "m-v2", Fingerprint: "fp_1"}
	one := func(p *Prober) *result.Result { return p.one(t.Context(), time.Time{}) }

	r := one(newProber(t, cfg, tracking()))
	want := &result.FirstToken{Text: "It", Top: []api.TokenLogprob{{Token: "It", Logprob: -0.25}, {Token: "I", Logprob: -1.5}}}
	if diff := cmp.Diff(want, r.First) + cmp.Diff(answer, r.Answer); diff != "" || r.Outcome != result.Success {
		t.Errorf("outcome %s (%v), first token (-want +got):\n%s", r.Outcome, r.Err, diff)
	}
	if body := asked()[0]; !strings.Contains(body, `"max_tokens":1`) || !strings.Contains(body, `"temperature":0`) {
		t.Errorf("body %s", body)
	}

	// A server that refuses is asked once more without, and from then on without.
	for what, how := range map[string]func(w http.ResponseWriter){
		"an error": func(w http.ResponseWriter) {
			http.Error(w, `{"error":{"message":"This model does not support 'logprobs'."}}`, http.StatusBadRequest)
		},
		"an empty stream, as llama-cpp-python without --logits_all": func(w http.ResponseWriter) { events(w) },
	} {
		refuse(how)
		p := newProber(t, cfg, tracking())
		for range 2 {
			r = one(p)
			if diff := cmp.Diff(&result.FirstToken{Text: "It"}, r.First); diff != "" || r.Outcome != result.Success {
				t.Errorf("%s: outcome %s (%v), first token (-want +got):\n%s", what, r.Outcome, r.Err, diff)
			}
		}
		if n := len(asked()); n != 3 {
			t.Errorf("%s: %d requests, want 3", what, n)
		}
	}

	// A failure of a server that has answered is one.
	refuse(nil)
	p := newProber(t, cfg, tracking())
	one(p)
	refuse(func(w http.ResponseWriter) { http.Error(w, "{}", http.StatusInternalServerError) })
	if r := one(p); r.Outcome != result.HTTPError || len(asked()) != 1 {
		t.Errorf("outcome %s after %d more requests, want %s after 1", r.Outcome, len(asked()), result.HTTPError)
	}
}
