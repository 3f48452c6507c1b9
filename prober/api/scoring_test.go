package api

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scores are those of the tokens of "The sky is blue." after a beginning of
// text, as the composed replies have them.
var scores = []float64{-2.5, -7.125, -0.75, -1.0625, -0.5}

// parseScores returns the scores, or the error of the decoder or of the server.
func parseScores(s *textScoring, body []byte) ([]float64, error) {
	var d Delta
	if err := s.Decode(nil, body, &d); err != nil {
		return d.Logprobs, err
	}
	if d.Err != nil {
		return d.Logprobs, d.Err
	}
	return d.Logprobs, nil
}

// TestScores reads replies of running servers, with a model of random weights, to
// "The sky is blue.", and some that were composed from the sources of servers.
func TestScores(t *testing.T) {
	f := func(file string, s *textScoring, want []float64) {
		t.Helper()
		got, err := parseScores(s, readCapture(t, file))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", file, err, d)
		}
	}
	// SGLang 0.5.23 on a CPU: curl /generate and /v1/completions, with the bodies of
	// TestScoringRequests. The first of 9 tokens has no score, the answer has one more.
	sglang := []float64{
		-9.495149612426758, -7.408185958862305, -6.920952796936035, -8.227323532104492,
		-8.791793823242188, -8.970409393310547, -8.4307861328125, -8.520158767700195,
	}
	f("sglang_score", sglangScoring(), sglang)
	f("sglang_score_completions", openAIScoring(), sglang)
	// vLLM 0.32 on a CPU, the same question to the same weights.
	f("vllm_score", openAIScoring(), []float64{
		-9.495150566101074, -7.408185005187988, -6.920952796936035, -8.227324485778809,
		-8.791793823242188, -8.970410346984863, -8.4307861328125, -8.520158767700195,
	})
	f("composed_score_tgi", tgiScoring(), scores)
	// A beginning of text that is counted and not returned, as its server does.
	f("composed_score_llamacpp_python", openAIScoring(), scores[1:])
}

// TestNoScores wants an error that says what is wrong, from replies that have
// no score or none that can be believed.
func TestNoScores(t *testing.T) {
	f := func(s *textScoring, body, want string) {
		t.Helper()
		got, err := parseScores(s, []byte(body))
		if got != nil || !isProtocolError(err) || !strings.HasPrefix(err.Error(), "read score of a text: ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.200s: %v, %v; want %q", body, got, err, want)
		}
	}
	file := func(name string) string { return string(readCapture(t, name)) }
	f(openAIScoring(), file("composed_score_no_echo"), "scores of 0 tokens for a text of 6, so the server does not score the text")
	f(openAIScoring(), file("composed_score_llamacpp"), "scores of 0 tokens for a text of 6, so the server does not score the text")
	f(tgiScoring(), file("composed_score_tgi_off"), "no details.prefill, which TGI has when started with --enable-prefill-logprobs")

	openAI := func(list, usage string) string {
		return `{"choices":[{"index":0,"logprobs":{"token_logprobs":` + list + `}}],"usage":` + usage + `}`
	}
	const three = `{"prompt_tokens":3,"completion_tokens":1}`
	f(openAIScoring(), openAI(`[null,-1,-2,-3]`, `null`), "no count of the text's tokens")
	f(openAIScoring(), openAI(`[null,-1,-2,-3]`, `{"completion_tokens":1}`), "no count of the text's tokens")
	f(openAIScoring(), openAI(`[null,-1,-2,-3]`, `{"prompt_tokens":5,"completion_tokens":1}`), "scores of 3 tokens for a text of 5, so the server does not score the text")
	f(openAIScoring(), openAI(`[null,-1,-2,-3,-4]`, three), "scores of 4 tokens for a text of 3, so the server does not score the text")
	f(openAIScoring(), openAI(`[null,-1]`, `{"prompt_tokens":1,"completion_tokens":1}`), "no log-probabilities")
	f(openAIScoring(), openAI(`[-1]`, `{"prompt_tokens":1,"completion_tokens":1}`), "scores of 0 tokens for a text of 1, so the server does not score the text")
	f(openAIScoring(), openAI(`[null,null,-2,-3]`, three), "no log-probability of token 2")
	f(openAIScoring(), openAI(`[null,"-1",-2,-3]`, three), "no log-probability of token 2")
	f(openAIScoring(), openAI(`["x",-1,-2,-3]`, three), "no log-probability of token 1")
	f(openAIScoring(), openAI(`[null,-1,0.25,-3]`, three), "log-probability 0.25 of token 3")
	f(openAIScoring(), openAI(`[null,-1,-10001,-3]`, three), "log-probability -10001 of token 3")
	f(openAIScoring(), openAI(`[null,-1,-1e999,-3]`, three), "of token 3")
	f(openAIScoring(), openAI(`[null,-1,NaN,-3]`, three), "log-probability NaN of token 3")
	f(openAIScoring(), `{"choices":[],"usage":`+three+`}`, "scores of 0 tokens for a text of 3, so the server does not score the text")
	f(openAIScoring(), "", "no JSON: ")
	f(openAIScoring(), "<html>", "no JSON: <html>")
	f(openAIScoring(), openAI("["+strings.Repeat("-1,", 100_000)+"-1]", three), "JSON of over 100000 values")

	f(sglangScoring(), `{"meta_info":{"prompt_tokens":6,"input_token_logprobs":[[-0.5,13,null]]}}`, "scores of 1 tokens for a text of 6, so the server does not score the text")
	f(sglangScoring(), `{"meta_info":{"input_token_logprobs":[[null,1,null],[-0.5,13,null]]}}`, "no count of the text's tokens")
	f(sglangScoring(), `{"meta_info":{"prompt_tokens":3,"input_token_logprobs":[[null,1,null],[],null]}}`, "no log-probability of token 2")
	f(tgiScoring(), `{"details":{"prefill":[{"id":1,"logprob":null},{"id":2},7]}}`, "no log-probability of token 2")
	f(tgiScoring(), `{"details":null}`, "--enable-prefill-logprobs")
}

// TestOddScores reads what is odd and can be believed.
func TestOddScores(t *testing.T) {
	f := func(name, list, usage string, want []float64) {
		t.Helper()
		got, err := parseScores(openAIScoring(), []byte(`{"choices":[{"index":1},{"index":0,"logprobs":{"token_logprobs":`+list+`}}],"usage":`+usage+`,"error":null}`))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
	f("no answer", `[null,-1,-2]`, `{"prompt_tokens":3,"completion_tokens":0}`, []float64{-1, -2})
	f("no count of the answer", `[null,-1,-2]`, `{"prompt_tokens":3}`, []float64{-1, -2})
	f("the first token scored", `[-4,-1,-2,-3]`, `{"prompt_tokens":3,"completion_tokens":1}`, []float64{-4, -1, -2})
	f("a token that is certain, one that cannot be", `[null,0,-9999.0,-3]`, `{"prompt_tokens":3,"completion_tokens":1}`, []float64{0, -9999})
}

func TestScoringErrors(t *testing.T) {
	f := func(s *textScoring, body string, want ServerError) {
		t.Helper()
		got, err := parseScores(s, []byte(body))
		var e *ServerError
		if got != nil || !errors.As(err, &e) || isProtocolError(err) || *e != want {
			t.Errorf("%s: %v, %v; want %+v", body, got, err, want)
		}
	}
	f(openAIScoring(), `{"error":{"message":"boom","type":"BadRequestError","param":null,"code":400}}`, ServerError{Status: 400, Type: "BadRequestError", Message: "boom"})
	f(openAIScoring(), `{"object":"error","message":"boom","type":"BadRequestError","param":null,"code":400}`, ServerError{Status: 400, Type: "BadRequestError", Message: "boom"})
	f(sglangScoring(), `{"error":{"message":"boom"}}`, ServerError{Message: "boom"})
	f(tgiScoring(), `{"error":"boom","error_type":"validation"}`, ServerError{Status: 400, Type: "validation", Message: "boom"})
}

func TestScoringRequests(t *testing.T) {
	f := func(api, base, wantURL, wantBody string) {
		t.Helper()
		p, _ := Lookup(api)
		p, _ = p.Scored()
		checkURL(t, api, func(u *url.URL) *url.URL { return p.URL(u, "m") }, base, wantURL)
		if got, err := p.Body(Params{Model: "m", Prompt: "a <b>"}, new(Adjustment)); string(got) != wantBody || err != nil {
			t.Errorf("%s: %s, %v; want %s", api, got, err, wantBody)
		}
	}
	const openAI = `{"model":"m","prompt":"a <b>","max_tokens":1,"temperature":0,"echo":true,"logprobs":1,"stream":false}`
	for _, api := range []string{"openai-chat", "openai-completions"} {
		f(api, "http://h:8000", "http://h:8000/v1/completions", openAI)
		f(api, "http://h/openai/v1/chat/completions", "http://h/openai/v1/completions", openAI)
		f(api, "https://h/openai/deployments/d?api-version=1", "https://h/openai/deployments/d/completions?api-version=1", openAI)
	}
	f("sglang", "http://h/v1", "http://h/generate",
		`{"text":"a <b>","sampling_params":{"max_new_tokens":1,"temperature":0},"return_logprob":true,"logprob_start_len":0,"stream":false}`)
	f("tgi", "http://h/generate_stream", "http://h/generate",
		`{"inputs":"a <b>","parameters":{"max_new_tokens":1,"do_sample":false,"details":true,"decoder_input_details":true}}`)

	for _, p := range protocols() {
		has := p.Name == "openai-chat" || p.Name == "openai-completions" || p.Name == "sglang" || p.Name == "tgi"
		if _, ok := p.Scored(); ok != has {
			t.Errorf("%s: scores %t, want %t", p.Name, ok, has)
		}
	}
}

// FuzzScores wants from any reply either scores that can be believed or an
// error of the two kinds.
func FuzzScores(f *testing.F) {
	for _, name := range []string{"sglang_score", "sglang_score_completions", "vllm_score", "composed_score_llamacpp_python", "composed_score_llamacpp", "composed_score_no_echo", "composed_score_tgi", "composed_score_tgi_off"} {
		f.Add(readCapture(f, name))
	}
	for _, body := range []string{
		"", "null", "[]", `{"error":"x"}`, `{"choices":[{"logprobs":{"token_logprobs":[null,-1e400,nan,inf]}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
		`{"choices":[{"logprobs":{"token_logprobs":[-1]}}],"usage":{"prompt_tokens":1,"completion_tokens":100000000}}`,
		`{"meta_info":{"prompt_tokens":2,"input_token_logprobs":[[],{}]}}`, `{"details":{"prefill":[{},{"logprob":-0}]}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		given := bytes.Clone(body)
		for _, s := range []*textScoring{openAIScoring(), sglangScoring(), tgiScoring()} {
			got, err := parseScores(s, body)
			if !bytes.Equal(body, given) {
				t.Fatal("the input was changed")
			}
			if err == nil {
				checkScores(t, got)
				continue
			}
			var e *ServerError
			if errors.As(err, &e) {
				checkServerError(t, e)
			} else if !isProtocolError(err) || len(err.Error()) > 2*maxMessage {
				t.Fatalf("error %v", err)
			}
			if got != nil {
				t.Fatalf("%v with the error %v", got, err)
			}
		}
	})
}

func checkScores(t *testing.T, got []float64) {
	t.Helper()
	if len(got) == 0 || len(got) > maxValues {
		t.Fatalf("%d scores", len(got))
	}
	for _, f := range got {
		if !(f <= 0 && f >= -10_000) {
			t.Fatalf("scores %v", got)
		}
	}
}
