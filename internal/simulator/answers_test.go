package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Each answer that the simulator gives is judged as what it was meant to be.
func TestAnswersAreWorthTheirVerdict(t *testing.T) {
	s := New(Options{})
	for i, q := range answers.Questions() {
		for _, v := range result.AnswerVerdicts() {
			answer := s.answerOf(i, v)
			if got := q.Judge(answer); got != v {
				t.Errorf("%s: %q is judged %s, want %s", q.ID, answer, got, v)
			}
		}
	}
}

// generationAPIs are those that have a face with a stream of text.
func generationAPIs() []string {
	return append(nativeAPIs(), "openai-chat", "openai-completions", "openai-responses", "anthropic", "gemini", "cohere", "bedrock")
}

// askQuestion asks a question through an api, and returns what a client makes
// of the answer, and the record.
func askQuestion(t *testing.T, v *serving, name, text string, limit int) (answered, Record) {
	t.Helper()
	p, ok := api.Lookup(name)
	if !ok {
		t.Fatalf("no api %s", name)
	}
	body, err := p.Body(api.Params{Model: "simulated-8b", Prompt: text, OutputTokens: limit}, new(api.Adjustment))
	if err != nil {
		t.Fatal(err)
	}
	base, err := http.NewRequest(http.MethodPost, v.base+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := v.post(context.Background(), p.URL(base.URL, "simulated-8b").RequestURI(), string(body), 1<<20)
	if a.status != http.StatusOK || a.err != nil {
		t.Fatalf("%s: status %d, error %v, %s", name, a.status, a.err, a.body)
	}
	r, _ := v.Request(trace)
	return decodeFace(p, a.body), r
}

// TestQuestionsAtEveryFace asks for a number and for JSON, whose quotation marks
// a face must escape.
func TestQuestionsAtEveryFace(t *testing.T) {
	for _, name := range generationAPIs() {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{ReasoningTokens: 3}, false)
			defer v.stop()
			for id, want := range map[string]string{"sum": "42", "json-word": `{"word":"cold"}`} {
				got, r := askQuestion(t, v, name, "Hello there.\n\n"+questionText(t, id), 64)
				if strings.ReplaceAll(got.Text, " ", "") != want || got.Finish != "stop" || r.Verdict != result.VerdictCorrect {
					t.Errorf("%s, %s: %+v, verdict %s", name, id, got, r.Verdict)
				}
			}
		})
	}
}

func questionText(t *testing.T, id string) string {
	t.Helper()
	for _, q := range answers.Questions() {
		if q.ID == id {
			return q.Text
		}
	}
	t.Fatalf("no question %s", id)
	return ""
}

// TestQualityIsTheShareOfRightAnswers has each question once, as a round of a
// prober has.
func TestQualityIsTheShareOfRightAnswers(t *testing.T) {
	questions := answers.Questions()
	for _, quality := range []float64{-1, 0.25, 0.5, 0.9, 1} {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Quality: quality, DecodeStep: ms, WeightsVersion: "a"}, false)
			defer v.stop()
			right := 0
			for _, q := range questions {
				got, r := askQuestion(t, v, "openai-chat", q.Text, 64)
				if verdict := q.Judge(got.Text); verdict != r.Verdict {
					t.Errorf("%s: %q is %s, the record says %s", q.ID, got.Text, verdict, r.Verdict)
				}
				if r.Verdict == result.VerdictCorrect {
					right++
				}
				if again, _ := askQuestion(t, v, "openai-chat", q.Text, 64); again.Text != got.Text {
					t.Errorf("%s: %q, then %q", q.ID, got.Text, again.Text)
				}
			}
			if want := math.Round(max(0, quality) * float64(len(questions))); float64(right) != want {
				t.Errorf("quality %v: %d right of %d, want %v", quality, right, len(questions), want)
			}
		})
	}
}

// known are the questions that the model gets right.
func known(s *Server, version string, quality float64) map[string]bool {
	all := map[string]bool{}
	for _, q := range s.questions {
		if _, v, _ := s.answerTo(&request{text: q.Text}, &weights{version: version, quality: quality}); v == result.VerdictCorrect {
			all[q.ID] = true
		}
	}
	return all
}

// A model that gets worse forgets, and another model knows others.
func TestWhatAModelKnows(t *testing.T) {
	s := New(Options{})
	much, little := known(s, "a", 0.8), known(s, "a", 0.5)
	for id := range little {
		if !much[id] {
			t.Errorf("%s is known at 0.5 and not at 0.8", id)
		}
	}
	if cmp.Equal(little, known(s, "b", 0.5)) {
		t.Error("both versions know the same half of the questions")
	}
}

// The bounds are four deviations of the binomial distribution.
func TestSampledAnswersAreDrawn(t *testing.T) {
	s := New(Options{Seed: 5})
	const n = 4000
	w := weights{quality: 0.6}
	got := map[result.Verdict]int{}
	for range n {
		_, v, ok := s.answerTo(&request{text: questionText(t, "capital"), sampled: true}, &w)
		if !ok {
			t.Fatal("no answer")
		}
		got[v]++
	}
	for _, v := range result.AnswerVerdicts() {
		p := 0.1
		if v == result.VerdictCorrect {
			p = 0.6
		}
		if d := math.Abs(float64(got[v]) - p*n); d > 4*math.Sqrt(n*p*(1-p)) {
			t.Errorf("%d of %d are %s, want %v", got[v], n, v, p*n)
		}
	}
}

// TestLengthsOfAnswers has an answer of three words, and requests that leave it
// less room, or want more.
func TestLengthsOfAnswers(t *testing.T) {
	f := func(limits, text, finish string, verdict result.Verdict) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{}, false)
			defer v.stop()
			v.questions = []answers.Question{{ID: "x", Text: "Is it?", Answers: []string{"yes it is"}}}
			a := v.post(context.Background(), "/v1/completions", fmt.Sprintf(`{"prompt":"Is it? ","temperature":0%s}`, limits), 1<<20)
			var reply struct {
				Choices []struct {
					Text         string
					FinishReason string `json:"finish_reason"`
				}
			}
			if err := json.Unmarshal([]byte(a.body), &reply); err != nil {
				t.Fatalf("%s: %v", a.body, err)
			}
			if c := reply.Choices[0]; c.Text != text || c.FinishReason != finish {
				t.Errorf("%s: %q, %s; want %q, %s", limits, c.Text, c.FinishReason, text, finish)
			}
			if r, _ := v.Request(trace); r.Verdict != verdict {
				t.Errorf("%s: verdict %q, want %q", limits, r.Verdict, verdict)
			}
		})
	}
	f(``, "yes it is", "stop", result.VerdictCorrect)
	f(`,"max_tokens":3`, "yes it is", "stop", result.VerdictCorrect)
	f(`,"max_tokens":2`, "yes it", "length", "")
	f(`,"max_tokens":5,"min_tokens":3`, "yes it is", "stop", result.VerdictCorrect)
	f(`,"max_tokens":5,"min_tokens":4`, "yes it is three four", "length", "")
	f(`,"max_tokens":5,"ignore_eos":true`, "yes it is three four", "length", "")
}

// A loop of 48 words is one when it is cut, unless it is cut early.
func TestLengthsOfLoops(t *testing.T) {
	text, version := questionText(t, "capital"), ""
	s := New(Options{})
	for i := 0; version == ""; i++ {
		w := weights{version: fmt.Sprint(i)}
		if _, v, _ := s.answerTo(&request{text: text}, &w); v == result.VerdictRepetition {
			version = w.version
		}
	}
	for limit, want := range map[int]result.Verdict{64: result.VerdictRepetition, 48: result.VerdictRepetition, 24: result.VerdictRepetition, 23: ""} {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Quality: -1, WeightsVersion: version}, false)
			defer v.stop()
			got, r := askQuestion(t, v, "openai-chat", text, limit)
			if r.Verdict != want || r.OutputTokens != min(limit, 48) {
				t.Errorf("limit of %d: %q, %d tokens, want %q", limit, r.Verdict, r.OutputTokens, want)
			}
			if want != "" && (answers.Question{Answers: []string{"x"}}).Judge(got.Text) != want {
				t.Errorf("limit of %d: %q is no loop", limit, got.Text)
			}
		})
	}
}

func TestOtherPromptsAreNoQuestions(t *testing.T) {
	s := New(Options{})
	for _, text := range []string{"", "What is", "What is 17 + 25? Answer with the number only. Please."} {
		if answer, v, ok := s.answerTo(&request{text: text}, &weights{quality: 1}); ok {
			t.Errorf("%q is answered by %q, %s", text, answer, v)
		}
	}
}

func TestVocabulary(t *testing.T) {
	if n := len(vocabulary()); n != 100 {
		t.Fatalf("%d words, want 100", n)
	}
	f := func(p answerText, i int, want string) {
		t.Helper()
		if got := string(p.append(nil, i)); got != want {
			t.Errorf("word %d of %+v: %q, want %q", i, p, got, want)
		}
	}
	f(answerText{}, 0, "zero")
	f(answerText{}, 19, " nineteen")
	f(answerText{}, 20, " twenty")
	f(answerText{}, 99, " ninety-nine")
	f(answerText{}, 100, " zero")
	f(answerText{offset: 42}, 1, " forty-three")
	f(answerText{fixed: []string{"yes"}}, 0, "yes")
	f(answerText{fixed: []string{"yes"}}, 1, " one")
	f(answerText{flipAt: 3}, 1, " one")
	f(answerText{flipAt: 3}, 2, " fifty-two")
	f(answerText{flipAt: 3}, 3, " fifty-three")
}

// Two orders say other things, and each always the same.
func TestVoices(t *testing.T) {
	say := func(p answerText) string {
		var text []byte
		for i := range 16 {
			text = p.append(text, i)
		}
		return string(text)
	}
	seen := map[string]uint64{say(answerText{}): 0}
	for order := range uint64(200) {
		p := answerText{order: order + 1}
		text := say(p)
		if other, ok := seen[text]; ok {
			t.Errorf("orders %d and %d both say %s", other, order+1, text)
		}
		seen[text] = order + 1
		if again := say(p); again != text {
			t.Errorf("order %d says %q, then %q", order+1, text, again)
		}
		if n := len(strings.Fields(text)); n != 16 {
			t.Errorf("%d words: %s", n, text)
		}
	}
}
