package simulator

import (
	"context"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

const greedyRequest = `{"messages":[{"content":"one two three"}],"max_tokens":12,"temperature":0}`

// contentOf returns the answer of a chat reply that is not streamed.
func contentOf(a answer) string { return memberOf(a, "content") }

func memberOf(a answer, name string) string {
	m := regexp.MustCompile(`"` + name + `":"([^"]*)"`).FindStringSubmatch(a.body)
	if m == nil {
		return ""
	}
	return m[1]
}

// change posts to /simulator/weights and returns the status.
func (v *serving) change(query string) int {
	v.t.Helper()
	return v.post(context.Background(), "/simulator/weights?"+query, "", 1<<20).status
}

func TestWeightsDecideGreedyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		ask := func(request string) (content, fingerprint string) {
			t.Helper()
			a := v.post(context.Background(), "/v1/chat/completions", request, 1<<20)
			if a.status != http.StatusOK {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			return contentOf(a), memberOf(a, "system_fingerprint")
		}
		content, fingerprint := ask(greedyRequest)
		if fingerprint != "" || !strings.HasPrefix(content, "zero one two") {
			t.Errorf("without a version: %q, fingerprint %q", content, fingerprint)
		}
		contents, fingerprints := map[string]bool{content: true}, map[string]bool{"": true}
		for _, version := range []string{"a", "b", "c"} {
			if status := v.change("version=" + version); status != http.StatusNoContent {
				t.Fatalf("status %d", status)
			}
			content, fingerprint := ask(greedyRequest)
			if contents[content] || fingerprints[fingerprint] || !strings.HasPrefix(fingerprint, "fp_") {
				t.Errorf("version %s: %q, fingerprint %q", version, content, fingerprint)
			}
			contents[content], fingerprints[fingerprint] = true, true
			for range 5 {
				if c, f := ask(greedyRequest); c != content || f != fingerprint {
					t.Errorf("version %s: %q, fingerprint %q, then %q, %q", version, content, fingerprint, c, f)
				}
			}
			if other, _ := ask(strings.Replace(greedyRequest, "three", "four", 1)); other == content {
				t.Errorf("version %s answers another prompt by %q too", version, other)
			}
		}
		// And back, over the API of Go.
		v.SetWeights("", 0, 1)
		if c, f := ask(greedyRequest); c != content || f != "" {
			t.Errorf("back: %q, fingerprint %q", c, f)
		}
	})
}

// Every chunk of both protocols of OpenAI has the fingerprint.
func TestFingerprintInStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{WeightsVersion: "a"}, false)
		defer v.stop()
		for path, request := range map[string]string{
			"/v1/chat/completions": strings.Replace(greedyRequest, "}]", `}],"stream":true`, 1),
			"/v1/completions":      `{"prompt":"x","stream":true}`,
		} {
			a := v.post(context.Background(), path, request, 1<<20)
			chunks, with := strings.Count(a.body, "data: {"), strings.Count(a.body, `"model":"simulated-8b","system_fingerprint":"fp_`)
			if chunks < 12 || with != chunks {
				t.Errorf("%s: %d of %d chunks have a fingerprint", path, with, chunks)
			}
		}
	})
}

func TestWeightsOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{WeightsVersion: "a", Quality: 0.5, LogprobShift: -0.1}, false)
		defer v.stop()
		f := func(query string, status int, want weights) {
			t.Helper()
			if got := v.change(query); got != status || *v.weights.Load() != want {
				t.Errorf("%s: status %d, %+v; want %d, %+v", query, got, *v.weights.Load(), status, want)
			}
		}
		f("", 204, weights{"a", -0.1, 0.5})
		f("shift=0.02", 204, weights{"a", 0.02, 0.5})
		f("quality=0", 204, weights{"a", 0.02, 0})
		f("version=b&shift=-0.3&quality=1", 204, weights{"b", -0.3, 1})
		for _, bad := range []string{"shift=x", "shift=NaN", "shift=Inf", "quality=", "quality=1.1", "quality=-0.1", "version=c&quality=x"} {
			f(bad, 400, weights{"b", -0.3, 1})
		}
		f("version=", 204, weights{"", -0.3, 1})
	})
}

// A flip is another text, and it comes as often as it should: the bound is four
// deviations of the binomial distribution.
func TestGreedyFlips(t *testing.T) {
	for _, version := range []string{"", "a"} {
		synctest.Test(t, func(t *testing.T) {
			const n, share = 1000, 0.1
			v := serve(t, Options{WeightsVersion: version, GreedyFlips: share, DecodeStep: ms, Seed: 11}, false)
			defer v.stop()
			texts, flips := map[string]int{}, 0
			for range n {
				content := contentOf(v.post(context.Background(), "/v1/chat/completions", greedyRequest, 1<<20))
				if r, _ := v.Request(trace); r.Flipped {
					flips++
				} else {
					texts["usual "+content]++
					continue
				}
				texts[content]++
			}
			if d := math.Abs(float64(flips) - share*n); d > 4*math.Sqrt(n*share*(1-share)) {
				t.Errorf("%d of %d differ, want %v", flips, n, share*n)
			}
			// One usual text, and one for each of the 12 tokens from which on it
			// may differ.
			if len(texts) != 13 {
				t.Errorf("%d texts: %v", len(texts), texts)
			}
			for text := range texts {
				if usual, ok := strings.CutPrefix(text, "usual "); ok && texts[usual] > 0 {
					t.Errorf("%q is a flip too", usual)
				}
			}
			synctest.Wait()
			if got := v.Counts().Flipped; got != uint64(flips) {
				t.Errorf("%d flips counted, %d recorded", got, flips)
			}
		})
	}
}

// Answers to questions do not flip, so that their verdict holds.
func TestQuestionsDoNotFlip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{GreedyFlips: 1}, false)
		defer v.stop()
		for range 5 {
			if got, r := askQuestion(t, v, "openai-chat", questionText(t, "sum"), 8); got.Text != "42" || r.Flipped {
				t.Errorf("%+v, %+v", got, r)
			}
		}
	})
}

// TestWeightsChangeWhileServing is for the race detector.
func TestWeightsChangeWhileServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Replicas: 2, DecodeStep: ms}, false)
		defer v.stop()
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 20 {
					if a := v.post(context.Background(), "/v1/chat/completions", greedyRequest, 1<<20); a.status != http.StatusOK {
						t.Errorf("status %d", a.status)
					}
				}
			})
		}
		for i := range 50 {
			v.SetWeights(string(rune('a'+i%26)), float64(i)/1000, 0.5)
			v.change("quality=0.7")
			v.Counts()
		}
		clients.Wait()
	})
}
