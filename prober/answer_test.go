package prober

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// chunk is an event with a piece of the answer, as a server tells of itself.
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
	f := func(expect config.Expect, want result.Outcome, verdict check.Verdict, reason string, pieces ...string) {
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
	f(config.Expect{Matches: `\b42\b`}, result.Success, check.Correct, "", "It is ", "4", "2.")
	f(config.Expect{Matches: `\b42\b`}, result.CheckFailed, check.Wrong, "wrong: ", "It is ", "420.")
	f(config.Expect{Equals: "42", FinishReason: []string{"length"}}, result.CheckFailed, check.WrongFormat, "finish reason", "42")
	f(config.Expect{Equals: "hm"}, result.CheckFailed, check.Wrong, "", "no") // what it thought is not the answer
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
	if _, err := e.New(m); err == nil || !strings.Contains(err.Error(), "expect") {
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
		Prompt: check.Hash("What is 17 + 25?"), Hash: check.Hash("forty-two"), Model: "m-v2", Fingerprint: "fp_1",
	}
	for _, r := range []*result.Result{first, second} {
		if diff := cmp.Diff(want, r.Answer); r.Outcome != result.Success || diff != "" {
			t.Errorf("outcome %s (%v), answer (-want +got):\n%s", r.Outcome, r.Err, diff)
		}
	}
	m, cfg = says(t) // no visible answer, only thoughts
	m.Fingerprint = true
	if r := newProber(t, cfg, m).one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Answer.Hash != check.Hash("") {
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
		Verdict: check.Wrong, Prompt: r.Answer.Prompt, Hash: r.Answer.Hash,
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
	for _, q := range check.Questions() {
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
	prompts, verdicts := map[string]bool{}, map[check.Verdict]int{}
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
	if diff := cmp.Diff(map[check.Verdict]int{check.Correct: len(right) - 1, check.Wrong: 1}, verdicts); diff != "" {
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
	user := func(text string) config.Message { return config.Message{Role: "user", Content: text} }
	m.Prompts = []config.Prompt{
		{Weight: 1, Messages: []config.Message{{Role: "system", Content: "Be brief."}, user("Capital of France?")}, Expected: "paris"},
		{Weight: 1, Messages: []config.Message{user("Capital of Norway?")}, Expected: "Oslo"},
		{Weight: 1, Messages: []config.Message{user("Tell me anything.")}},
	}
	p := newProber(t, newEndpoint(t, s.URL), m)
	verdicts := map[string]check.Verdict{}
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
	want := map[string]check.Verdict{
		"system: Be brief.; user: Capital of France?": check.Correct,
		"user: Capital of Norway?":                    check.Wrong,
		"user: Tell me anything.":                     "",
	}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}
