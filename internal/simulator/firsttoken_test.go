package simulator

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// firstLogprobs asks a server for the likeliest first tokens of an answer to x.
func firstLogprobs(t *testing.T, s *Server, path, body string) (text string, top map[string]float64) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
	top = map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		var chunk struct {
			Choices []struct {
				Text     string
				Delta    struct{ Content string }
				Logprobs struct {
					Content []struct {
						Top []struct {
							Token   string
							Logprob float64
						} `json:"top_logprobs"`
					}
					Top []map[string]float64 `json:"top_logprobs"`
				}
			}
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || json.Unmarshal([]byte(data), &chunk) != nil {
			continue
		}
		for _, c := range chunk.Choices {
			text += c.Text + c.Delta.Content
			for _, l := range c.Logprobs.Content {
				for _, x := range l.Top {
					top[x.Token] = x.Logprob
				}
			}
			for _, all := range c.Logprobs.Top {
				top = all
			}
		}
	}
	return text, top
}

// The first tokens are the same in both protocols, the likeliest is what is said, and
// quantized weights move each by 0.1.
func TestFirstTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = 10 * time.Minute
		s := New(Options{WeightsVersion: "v1", QuantizeAfter: after})
		chat := `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"temperature":0,"stream":true,"logprobs":true,"top_logprobs":5}`
		text, before := firstLogprobs(t, s, "/v1/chat/completions", chat)
		if len(before) != 5 {
			t.Fatalf("log-probabilities %v, want 5", before)
		}
		for token, p := range before {
			if p > before[text] {
				t.Errorf("%q is said, and %q likelier: %v", text, token, before)
			}
		}
		if _, same := firstLogprobs(t, s, "/v1/completions", `{"prompt":"x","max_tokens":1,"temperature":0,"stream":true,"logprobs":5}`); len(same) != 5 || same[text] != before[text] {
			t.Errorf("completions %v, chat %v", same, before)
		}
		if _, none := firstLogprobs(t, s, "/v1/completions", `{"prompt":"x","max_tokens":1,"temperature":0,"stream":true}`); len(none) != 0 {
			t.Errorf("log-probabilities %v unasked", none)
		}
		time.Sleep(after)
		_, quantized := firstLogprobs(t, s, "/v1/chat/completions", chat)
		for token, p := range quantized {
			if moved := math.Abs(p - before[token]); math.Abs(moved-0.1) > 1e-9 {
				t.Errorf("%q moved by %v, want 0.1", token, moved)
			}
		}
	})
}
