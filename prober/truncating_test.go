package prober

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// counting serves chat completions, counts requests and knows the longest body. It
// reports what told makes of the words of a prompt as its tokens.
type counting struct {
	*httptest.Server
	requests, longest atomic.Int64
	told              atomic.Pointer[func(words int) int]
}

func newCounting(t *testing.T, told func(words int) int) *counting {
	t.Helper()
	c := &counting{}
	c.told.Store(&told)
	c.Server = chat(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) != 1 {
			t.Errorf("body: %v, %d messages", err, len(body.Messages))
			return
		}
		text := body.Messages[0].Content
		c.requests.Add(1)
		c.longest.Store(max(c.longest.Load(), int64(len(text))))
		usage := fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}}`,
			(*c.told.Load())(len(strings.Fields(text))))
		events(w, one, stop, usage, endMarker)
	})
	return c
}

// made returns a module of one length.
func made(tokens int, p config.Prefix) *config.Module {
	m := newModule()
	m.InputTokens, m.Prefix = config.Tokens(tokens), p
	return m
}

// Ollama truncates prompts to num_ctx in silence: its count says so. The answer is
// none to a prompt of the wanted length, and no such prompt is asked for a while.
func TestTruncatedPromptIsNoSuccess(t *testing.T) {
	s := newCounting(t, func(words int) int { return min(30+words*13/10, 4096) })
	for i, prefix := range []config.Prefix{config.PrefixCold, config.PrefixWarm, config.PrefixPaired} {
		p := newProber(t, newEndpoint(t, s.URL), made(8000, prefix))
		for run := range 4 {
			results, why := p.Run(t.Context(), time.Time{})
			if len(results) > 0 || why == nil || why.Reason != result.SkipTruncated || !strings.Contains(why.Text, "4096 tokens") {
				t.Fatalf("%s, run %d: %d results, skip %v", prefix, run, len(results), why)
			}
			if made := run < 2; made != (len(why.Spent) == 1) {
				t.Errorf("%s, run %d: %d requests were paid for", prefix, run, len(why.Spent))
			}
		}
		if got, want := s.requests.Load(), int64(2*(i+1)); got != want {
			t.Errorf("%s: %d requests, want %d", prefix, got, want)
		}
	}
	if n := s.longest.Load(); n > 40_000 { // 6667 words
		t.Errorf("a prompt of %d bytes", n)
	}
}

// A length that is truncated leaves the others of a mix alone.
func TestTruncationIsOfOneLength(t *testing.T) {
	s := newCounting(t, func(words int) int { return min(words*13/10, 2048) })
	m := made(0, config.PrefixCold)
	m.InputTokens = config.Lengths{Mix: []config.WeightedLength{{Tokens: 500, Weight: 1}, {Tokens: 8000, Weight: 1}}}
	p := newProber(t, newEndpoint(t, s.URL), m)
	lengths, skips := map[int]int{}, 0
	for range 60 {
		results, why := p.Run(t.Context(), time.Time{})
		if why != nil {
			skips++
			continue
		}
		lengths[results[0].Length]++
	}
	if lengths[500] < 15 || lengths[8000] > 0 || skips < 15 {
		t.Errorf("successes by length %v, %d skips", lengths, skips)
	}
}

// A failure stays one, whatever the server counts.
func TestFailureOfATruncatedPromptIsAFailure(t *testing.T) {
	s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
		events(w, one, `{"choices":[],"usage":{"prompt_tokens":4096,"completion_tokens":1}}`) // cut here
	})
	if r := newProber(t, newEndpoint(t, s.URL), made(8000, config.PrefixCold)).one(t.Context(), time.Time{}); r.Outcome != result.Truncated {
		t.Errorf("outcome %s, want truncated", r.Outcome)
	}
}

// Whatever a server counts, it moves neither the length of prompts out of what
// tokenizers can make of them, nor budgets by more than what was sent.
func TestAbsurdPromptCounts(t *testing.T) {
	for _, told := range []int{0, 1, 63, 99_999_999, 100_000_000, math.MaxInt32, math.MaxInt, -1, math.MinInt} {
		s := newCounting(t, func(int) int { return told })
		p := newProber(t, newEndpoint(t, s.URL), made(8000, config.PrefixCold))
		for range 5 {
			r := p.one(t.Context(), time.Time{})
			if r.Outcome != result.Success || r.Length != 8000 {
				t.Fatalf("%d told: %s, length %d: %v", told, r.Outcome, r.Length, r.Err)
			}
			// 6667 words, the first guess, of about 5.8 bytes.
			if r.PromptBytes < 36_000 || r.PromptBytes > 40_000 {
				t.Errorf("%d told: prompts of %d bytes", told, r.PromptBytes)
			}
			if n := r.Tokens.Prompt; n != told && n != -1 || n == 0 || n > r.PromptBytes+2*prompt.TemplateTokens {
				t.Errorf("%d told: %d tokens of a prompt of %d bytes", told, n, r.PromptBytes)
			}
		}
	}
}

// The bounds of all counts: a token is at least a byte of what was sent, and a
// template adds to each text.
func TestBound(t *testing.T) {
	const absent = -1
	f := func(name string, sent, texts int, told, want result.Tokens) {
		t.Helper()
		q := request{bytes: sent, question: question{texts: make([]string, texts), output: 64}}
		if q.bound(&told); told != want {
			t.Errorf("%s: %+v, want %+v", name, told, want)
		}
	}
	f("honest", 1500, 1, result.Tokens{Prompt: 260, Cached: 16, Output: 64, Reasoning: 10}, result.Tokens{Prompt: 260, Cached: 16, Output: 64, Reasoning: 10})
	f("not told", 1500, 1, result.Tokens{Prompt: absent, Cached: absent, Output: absent, Reasoning: absent},
		result.Tokens{Prompt: absent, Cached: absent, Output: absent, Reasoning: absent})
	f("a short prompt under a long template", 100, 1, result.Tokens{Prompt: 1100, Cached: 1024}, result.Tokens{Prompt: 1100, Cached: 1024})
	f("bytes as tokens", 1500, 1, result.Tokens{Prompt: 1500}, result.Tokens{Prompt: 1500})
	f("no tokens", 1500, 1, result.Tokens{Prompt: 0, Cached: 0, Output: 5}, result.Tokens{Prompt: absent, Cached: absent, Output: 5})
	f("more than bytes", 1500, 1, result.Tokens{Prompt: 2525, Cached: 7}, result.Tokens{Prompt: absent, Cached: absent})
	f("a batch", 10_000, 8, result.Tokens{Prompt: 10_000 + 8*1024}, result.Tokens{Prompt: 10_000 + 8*1024})
	f("more than a batch", 10_000, 8, result.Tokens{Prompt: 10_001 + 8*1024}, result.Tokens{Prompt: absent, Cached: absent})
	f("cached alone", 1500, 1, result.Tokens{Prompt: absent, Cached: 2525}, result.Tokens{Prompt: absent, Cached: absent})
	f("output", 1500, 1, result.Tokens{Prompt: 9, Output: 193, Reasoning: 3}, result.Tokens{Prompt: 9, Output: absent, Reasoning: absent})
	f("reasoning alone", 1500, 1, result.Tokens{Prompt: 9, Output: absent, Reasoning: 193}, result.Tokens{Prompt: 9, Output: absent, Reasoning: absent})
	f("the largest", 1500, 1, result.Tokens{Prompt: math.MaxInt, Cached: math.MaxInt, Output: math.MaxInt, Reasoning: math.MaxInt},
		result.Tokens{Prompt: absent, Cached: absent, Output: absent, Reasoning: absent})
}

// lying passes requests on to a simulated server, and replaces every count of tokens in
// its replies.
func lying(t *testing.T, to http.Handler, told string) (url string) {
	t.Helper()
	counts := regexp.MustCompile(`("[a-zA-Z_]*(?:[tT]okens?|TokenCount|_count|_n|tokens_[a-z]+|input_length)":)\d+`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := httptest.NewRecorder()
		to.ServeHTTP(reply, r)
		maps.Copy(w.Header(), reply.Header())
		if w.Header().Get("X-Compute-Tokens") != "" {
			w.Header().Set("X-Compute-Tokens", told)
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(reply.Code)
		_, _ = w.Write(counts.ReplaceAll(reply.Body.Bytes(), []byte("${1}"+told)))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// On every protocol a count that cannot be is none, and nothing is worth more than was
// sent and asked for.
func TestAbsurdCountsOfEveryProtocol(t *testing.T) {
	s, _ := startSimulator(t)
	for _, told := range []string{"99999999", "9000000000000000000", "1e300", "-7", "0.5", "null"} {
		url := lying(t, s.Handler(), told)
		for _, name := range api.Names() {
			m := newModule()
			m.OutputTokens, m.BatchSize = config.Tokens(2), 3
			cfg := newEndpoint(t, url)
			if name == "cohere-embed" || name == "rerank" {
				cfg = newEndpoint(t, url+"/v2")
			}
			cfg.API, cfg.Model = name, "simulated-8b"
			n := newProber(t, cfg, m).one(t.Context(), time.Time{}).Tokens
			if n.Prompt != api.Unknown || n.Cached > 0 || n.Output > 68 || n.Reasoning > 0 {
				t.Errorf("%s, %s told: %+v", name, told, n)
			}
		}
	}
}
