package prober

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// chunk is an event with a piece of the answer and the server's own names.
func chunk(text string) string {
	return fmt.Sprintf(`{"model":"m-v2","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":%q}}]}`, text)
}

// says returns a module that asks a prompt, and a server that gives the answer
// in pieces.
func says(t *testing.T, pieces ...string) (*config.Module, *config.Endpoint) {
	t.Helper()
	s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
		data := []string{thought}
		for _, p := range pieces {
			data = append(data, chunk(p))
		}
		events(w, append(data, stop, usage, endMarker)...)
	})
	m := newModule()
	m.InputTokens, m.Prefix, m.Prompt = config.Lengths{}, config.PrefixWarm, "What is 17 + 25?"
	return m, newEndpoint(t, s.URL)
}

func TestExpectation(t *testing.T) {
	f := func(expect config.Expect, want result.Outcome, verdict result.Verdict, reason string, pieces ...string) {
		t.Helper()
		m, cfg := says(t, pieces...)
		m.Expect = &expect
		r := newProber(t, cfg, m).one(t.Context(), time.Time{})
		if r.Outcome != want || r.Answer.Verdict != verdict || (r.Err == nil) != (want == result.Success) ||
			r.Err != nil && !strings.Contains(r.Err.Error(), reason) {
			t.Errorf("%q: outcome %s (%v), verdict %s; want %s (%s), %s", pieces, r.Outcome, r.Err, r.Answer.Verdict, want, reason, verdict)
		}
		if len(r.Answer.Prompt) != 16 || r.Answer.Hash != "" || r.Answer.Text != "" || r.Answer.Model != "" || r.Length != 0 {
			t.Errorf("answer %+v, length %d", r.Answer, r.Length)
		}
		if r.Tokens.Prompt != 20 || r.Timing.TTFT <= 0 {
			t.Errorf("tokens %+v, timing %+v", r.Tokens, r.Timing)
		}
	}
	f(config.Expect{Matches: `\b42\b`}, result.Success, result.VerdictCorrect, "", "It is ", "4", "2.")
	f(config.Expect{Matches: `\b42\b`}, result.CheckFailed, result.VerdictWrong, "wrong: ", "It is ", "420.")
	f(config.Expect{Equals: "42", FinishReason: []string{"length"}}, result.CheckFailed, result.VerdictWrongFormat, "finish reason", "42")
	f(config.Expect{Equals: "hm"}, result.CheckFailed, result.VerdictWrong, "", "no") // what it thought is not the answer
}

func TestExpectationThatCannotBe(t *testing.T) {
	m, cfg := says(t, "42")
	m.Expect = &config.Expect{Matches: "("}
	dialer := NewDialer()
	defer dialer.Close()
	e, err := NewEndpoint(cfg, Options{Dialer: dialer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.NewProber(m); err == nil || !strings.Contains(err.Error(), "expect") {
		t.Errorf("error %v", err)
	}
}

// An answer is kept for the log only where it is wrong and the module says so.
func TestLogAnswers(t *testing.T) {
	f := func(logs bool, want string, pieces ...string) {
		t.Helper()
		m, cfg := says(t, pieces...)
		m.Expect, m.LogAnswers = &config.Expect{Equals: "42"}, logs
		if got := newProber(t, cfg, m).one(t.Context(), time.Time{}).Answer.Text; got != want {
			t.Errorf("text %q of %q, want %q", got, pieces, want)
		}
	}
	f(true, "forty-two", "forty", "-two")
	f(true, "", "42")
	f(false, "", "forty-two")
	f(true, strings.Repeat("é", 98)+"...", strings.Repeat("é", 101))
	f(true, "a"+strings.Repeat("é", 98)+"...", "a"+strings.Repeat("é", 101)) // no half of one
}

func TestFingerprint(t *testing.T) {
	m, cfg := says(t, "forty", "-two")
	m.Fingerprint = true
	p := newProber(t, cfg, m)
	first, second := p.one(t.Context(), time.Time{}), p.one(t.Context(), time.Time{})
	want := result.Answer{
		Prompt: workload.Hash("What is 17 + 25?"), Hash: workload.Hash("forty-two"), Model: "m-v2", Fingerprint: "fp_1",
	}
	for _, r := range []*result.Result{first, second} {
		if diff := cmp.Diff(want, r.Answer); r.Outcome != result.Success || diff != "" {
			t.Errorf("outcome %s (%v), answer (-want +got):\n%s", r.Outcome, r.Err, diff)
		}
	}
	m, cfg = says(t) // no visible answer, only thoughts
	m.Fingerprint = true
	if r := newProber(t, cfg, m).one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Answer.Hash != workload.Hash("") {
		t.Errorf("outcome %s, answer %+v", r.Outcome, r.Answer)
	}
}

// Nobody looks at the answers of an ordinary probe.
func TestOrdinaryAnswersAreNotLookedAt(t *testing.T) {
	_, cfg := says(t, "42")
	if r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Answer != (result.Answer{}) {
		t.Errorf("outcome %s, answer %+v", r.Outcome, r.Answer)
	}
}

func TestContentIsBounded(t *testing.T) {
	var c content
	d := api.Delta{Text: []byte(strings.Repeat("x", 1000)), Refusal: []byte("no")}
	for range 100 {
		c.add(&d)
	}
	if len(c.text) != maxAnswer || !strings.HasPrefix(string(c.text), strings.Repeat("x", 1000)+"nox") {
		t.Errorf("%d bytes are kept, %.1010q; want %d", len(c.text), c.text, maxAnswer)
	}
}

// What a reply says of itself is shown without the key that it quotes, and
// without what would do something to a terminal.
func TestNamesInAnswersAreSafe(t *testing.T) {
	const key = "sk-0123456789abcdef"
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		events(w, `{"model":"m `+key+`","system_fingerprint":"a\u001b[31m\u202eb\u009b",`+
			`"choices":[{"delta":{"content":"no: `+key+` \u0000!"}}]}`, stop, usage, endMarker)
	})
	cfg := newEndpoint(t, s.URL)
	cfg.Model = "m " + key
	cfg.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: key}
	m := newModule()
	m.InputTokens, m.Prefix, m.Prompt = config.Lengths{}, config.PrefixWarm, "Say yes."
	m.Expect, m.Fingerprint, m.LogAnswers = &config.Expect{Equals: "yes"}, true, true
	r := newProber(t, cfg, m).one(t.Context(), time.Time{})
	want := result.Answer{
		Verdict: result.VerdictWrong, Prompt: r.Answer.Prompt, Hash: r.Answer.Hash,
		Model: "m <secret>", Fingerprint: "a [31m b", Text: "no: <secret> !",
	}
	if r.Model != "m <secret>" || r.Answer != want {
		t.Errorf("model %q, answer %+v, want %+v", r.Model, r.Answer, want)
	}
}

// Questions are asked in turn, none twice before all were; a wrong answer is no
// failure.
func TestQuestions(t *testing.T) {
	right := map[string]string{}
	for _, q := range answers.Questions() {
		right[q.Text] = q.Right()
	}
	n := 0
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages  []struct{ Role, Content string }
			IgnoreEOS bool `json:"ignore_eos"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) != 1 || body.IgnoreEOS {
			t.Errorf("asked %+v: %v", body, err)
		}
		answer := right[body.Messages[0].Content]
		if n++; n == 3 {
			answer = "zyzzyva"
		}
		events(w, chunk(answer), stop, usage, endMarker)
	})
	m := newModule()
	m.InputTokens, m.Prefix, m.Questions = config.Lengths{}, config.PrefixWarm, true
	cfg := newEndpoint(t, s.URL)
	cfg.Model = "" // so that the engine is known from the start, and would make answers of exact length
	p := newProber(t, cfg, m)
	prompts, verdicts := map[string]bool{}, map[result.Verdict]int{}
	for range right {
		r := p.one(t.Context(), time.Time{})
		if r.Outcome != result.Success {
			t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
		}
		prompts[r.Answer.Prompt] = true
		verdicts[r.Answer.Verdict]++
	}
	if len(prompts) != len(right) {
		t.Errorf("%d prompts among %d", len(prompts), len(right))
	}
	if diff := cmp.Diff(map[result.Verdict]int{result.VerdictCorrect: len(right) - 1, result.VerdictWrong: 1}, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

func TestPromptsFile(t *testing.T) {
	var a asked
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		a.take(r)
		events(w, chunk("It is Paris."), stop, usage, endMarker)
	})
	m := newModule()
	m.InputTokens, m.Prefix, m.PromptsFile = config.Lengths{}, config.PrefixWarm, "prompts.jsonl"
	user := func(text string) api.Message { return api.Message{Role: "user", Content: text} }
	m.Prompts = []config.Prompt{
		{Weight: 1, Messages: []api.Message{{Role: "system", Content: "Be brief."}, user("Capital of France?")}, Expected: "paris"},
		{Weight: 1, Messages: []api.Message{user("Capital of Norway?")}, Expected: "Oslo"},
		{Weight: 1, Messages: []api.Message{user("Tell me anything.")}},
	}
	p := newProber(t, newEndpoint(t, s.URL), m)
	verdicts := map[string]result.Verdict{}
	for i := range m.Prompts {
		r := p.one(t.Context(), time.Time{})
		if r.Outcome != result.Success || len(r.Answer.Prompt) != 16 {
			t.Fatalf("outcome %s (%v), answer %+v", r.Outcome, r.Err, r.Answer)
		}
		var body struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal([]byte(a.body(i)), &body); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, m := range body.Messages {
			texts = append(texts, m.Role+": "+m.Content)
		}
		verdicts[strings.Join(texts, "; ")] = r.Answer.Verdict
	}
	want := map[string]result.Verdict{
		"system: Be brief.; user: Capital of France?": result.VerdictCorrect,
		"user: Capital of Norway?":                    result.VerdictWrong,
		"user: Tell me anything.":                     "",
	}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// counting serves chat completions, counts requests and knows the longest body. It
// reports what count returns for the words of a prompt as its tokens.
type counting struct {
	*httptest.Server
	requests, longest atomic.Int64
	count             atomic.Pointer[func(words int) int]
}

func newCounting(t *testing.T, count func(words int) int) *counting {
	t.Helper()
	c := &counting{}
	c.count.Store(&count)
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
			(*c.count.Load())(len(strings.Fields(text))))
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
	for _, reported := range []int{0, 1, 63, 99_999_999, 100_000_000, math.MaxInt32, math.MaxInt, -1, math.MinInt} {
		s := newCounting(t, func(int) int { return reported })
		p := newProber(t, newEndpoint(t, s.URL), made(8000, config.PrefixCold))
		for range 5 {
			r := p.one(t.Context(), time.Time{})
			if r.Outcome != result.Success || r.Length != 8000 {
				t.Fatalf("%d reported: %s, length %d: %v", reported, r.Outcome, r.Length, r.Err)
			}
			// 6667 words, the first guess, of about 5.8 bytes.
			if r.PromptBytes < 36_000 || r.PromptBytes > 40_000 {
				t.Errorf("%d reported: prompts of %d bytes", reported, r.PromptBytes)
			}
			if n := r.Tokens.Prompt; n != reported && n != -1 || n == 0 || n > r.PromptBytes+2*load.TemplateTokens {
				t.Errorf("%d reported: %d tokens of a prompt of %d bytes", reported, n, r.PromptBytes)
			}
		}
	}
}

// The bounds of all counts: a token is at least a byte of what was sent, and a
// service or a template adds to it.
func TestBound(t *testing.T) {
	const absent = -1
	f := func(name string, sent, texts, events int, reported, want result.Tokens) {
		t.Helper()
		q := request{bytes: sent, question: workload.Question{Texts: make([]string, texts), Output: 64}}
		if q.bound(&reported, events); reported != want {
			t.Errorf("%s: %+v, want %+v", name, reported, want)
		}
	}
	same := func(name string, sent, texts, events int, reported result.Tokens) {
		t.Helper()
		f(name, sent, texts, events, reported, reported)
	}
	same("honest", 1500, 1, 64, result.Tokens{Prompt: 260, Cached: 16, Output: 64, Reasoning: 10})
	same("not reported", 1500, 1, 64, result.Tokens{Prompt: absent, Cached: absent, Output: absent, Reasoning: absent})
	same("a short prompt behind the preamble of a service", 100, 1, 64, result.Tokens{Prompt: 4800, Cached: 4736})
	same("bytes as tokens", 1500, 1, 64, result.Tokens{Prompt: 1500})
	f("no tokens", 1500, 1, 5, result.Tokens{Prompt: 0, Cached: 0, Output: 5}, result.Tokens{Prompt: absent, Cached: absent, Output: 5})
	f("more than bytes", 1500, 1, 64, result.Tokens{Prompt: 9693, Cached: 7}, result.Tokens{Prompt: absent, Cached: absent})
	same("a batch", 10_000, 16, 0, result.Tokens{Prompt: 10_000 + 16*1024})
	f("more than a batch", 10_000, 16, 0, result.Tokens{Prompt: 10_001 + 16*1024}, result.Tokens{Prompt: absent, Cached: absent})
	f("cached alone", 1500, 1, 64, result.Tokens{Prompt: absent, Cached: 9693}, result.Tokens{Prompt: absent, Cached: absent})
	f("output", 1500, 1, 64, result.Tokens{Prompt: 9, Output: 193, Reasoning: 3}, result.Tokens{Prompt: 9, Output: absent, Reasoning: absent})
	same("output of as many events", 1500, 1, 300, result.Tokens{Prompt: 9, Output: 193, Reasoning: 3})
	same("output that ignores the cap, two tokens an event", 1500, 1, 300, result.Tokens{Prompt: 9, Output: 600, Reasoning: 300})
	f("more output than events show", 1500, 1, 300, result.Tokens{Prompt: 9, Output: 665}, result.Tokens{Prompt: 9, Output: absent, Reasoning: absent})
	f("reasoning alone", 1500, 1, 64, result.Tokens{Prompt: 9, Output: absent, Reasoning: 193}, result.Tokens{Prompt: 9, Output: absent, Reasoning: absent})
	f("the largest", 1500, 1, 64, result.Tokens{Prompt: math.MaxInt, Cached: math.MaxInt, Output: math.MaxInt, Reasoning: math.MaxInt},
		result.Tokens{Prompt: absent, Cached: absent, Output: absent, Reasoning: absent})
}

// A server that ignores max_tokens is believed what its events agree with, and found out,
// but where it was not told.
func TestMaxTokensIgnored(t *testing.T) {
	f := func(name string, pieces, reported int, change func(*config.Endpoint), want result.Tokens, ignored bool) {
		t.Helper()
		said := append([]string{role}, slices.Repeat([]string{one}, pieces)...)
		if reported > 0 {
			said = append(said, fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d}}`, reported))
		}
		s := chat(t, func(w http.ResponseWriter, _ *http.Request) { events(w, append(said, stop, endMarker)...) })
		cfg, m := newEndpoint(t, s.URL), newModule()
		cfg.API, cfg.Model, m.OutputTokens = "openai-chat", "m", config.Tokens(16)
		change(cfg)
		r := newProber(t, cfg, m).one(t.Context(), time.Time{})
		got := result.Tokens{Output: r.Tokens.Output, Source: r.Tokens.Source}
		if r.Outcome != result.Success || got != want || r.MaxTokensIgnored != ignored {
			t.Errorf("%s: outcome %s (%v), %+v, ignored %t; want %+v, %t", name, r.Outcome, r.Err, got, r.MaxTokensIgnored, want, ignored)
		}
	}
	asIs := func(*config.Endpoint) {}
	usage := func(n int) result.Tokens { return result.Tokens{Output: n, Source: result.TokensFromUsage} }
	f("obeyed", 16, 16, asIs, usage(16), false)
	f("counted otherwise", 16, 24, asIs, usage(24), false)
	f("200 tokens in 300 events", 300, 200, asIs, usage(200), true)
	f("no count", 300, 0, asIs, result.Tokens{Output: 300, Source: result.TokensFromEvents}, true)
	f("no cap", 300, 200, func(e *config.Endpoint) { e.Request.Omit = []string{"max_tokens"} }, usage(200), false)
	f("another cap", 300, 200, func(e *config.Endpoint) { e.Request.Extra = map[string]any{"max_tokens": 200} }, usage(200), false)
}

// lying passes requests on to a simulated server, and replaces every count of tokens in
// its replies.
func lying(t *testing.T, to http.Handler, reported string) (url string) {
	t.Helper()
	counts := regexp.MustCompile(`("[a-zA-Z_]*(?:[tT]okens?|TokenCount|_count|_n|tokens_[a-z]+|input_length)":)\d+`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := httptest.NewRecorder()
		to.ServeHTTP(reply, r)
		maps.Copy(w.Header(), reply.Header())
		if w.Header().Get("X-Compute-Tokens") != "" {
			w.Header().Set("X-Compute-Tokens", reported)
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(reply.Code)
		_, _ = w.Write(counts.ReplaceAll(reply.Body.Bytes(), []byte("${1}"+reported)))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// On every protocol a count that cannot be is none, and nothing is worth more than was
// sent and asked for.
func TestAbsurdCountsOfEveryProtocol(t *testing.T) {
	s, _ := startSimulator(t)
	for _, reported := range []string{"99999999", "9000000000000000000", "1e300", "-7", "0.5", "null"} {
		url := lying(t, s.Handler(), reported)
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
				t.Errorf("%s, %s reported: %+v", name, reported, n)
			}
		}
	}
}
