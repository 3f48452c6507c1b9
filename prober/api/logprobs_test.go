package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The shapes are those of each server's documentation: OpenAI's reference of chat and
// completions, Ollama 0.12.11, TGI, llama.cpp's server, SGLang and Gemini.
func TestTopLogprobs(t *testing.T) {
	want := []TokenLogprob{{"It", -0.25}, {"I", -1.5}}
	f := func(api, frame string, want []TokenLogprob) {
		t.Helper()
		p, _ := Lookup(api)
		var d Delta
		if err := p.NewDecoder().Decode(nil, []byte(frame), &d); err != nil {
			t.Fatalf("%s: %v", api, err)
		}
		if diff := cmp.Diff(want, d.Top); diff != "" {
			t.Errorf("%s (-want +got):\n%s", api, diff)
		}
	}
	const list = `[{"token":"It","logprob":-0.25,"bytes":[73,116]},{"token":"I","logprob":-1.5,"bytes":[73]}]`
	f("openai-chat", `{"choices":[{"index":0,"delta":{"content":"It"},"logprobs":{"content":[{"token":"It","logprob":-0.25,"top_logprobs":`+list+`}]}}]}`, want)
	f("openai-chat", `{"choices":[{"index":0,"delta":{"content":"It"},"logprobs":null}]}`, nil)
	f("openai-completions", `{"choices":[{"index":0,"text":"It","logprobs":{"tokens":["It"],"token_logprobs":[-0.25],"top_logprobs":[{"I":-1.5,"It":-0.25}]}}]}`, want)
	f("openai-completions", `{"choices":[{"index":0,"text":"It","logprobs":{"tokens":["It"],"top_logprobs":[null]}}]}`, nil)
	f("ollama", `{"model":"m","message":{"role":"assistant","content":"It"},"done":false,"logprobs":[{"token":"It","logprob":-0.25,"top_logprobs":`+list+`}]}`, want)
	f("tgi", `{"index":1,"token":{"id":1,"text":"It","logprob":-0.25,"special":false},"top_tokens":[{"id":1,"text":"It","logprob":-0.25,"special":false},{"id":2,"text":"I","logprob":-1.5,"special":false}],"generated_text":null,"details":null}`, want)
	f("llamacpp", `{"content":"It","stop":false,"completion_probabilities":[{"id":1,"token":"It","logprob":-0.25,"top_logprobs":`+list+`}]}`, want)
	f("sglang", `{"text":"It","meta_info":{"completion_tokens":1,"output_top_logprobs":[[[-0.25,1,"It"],[-1.5,2,"I"]]]}}`, want)
	f("gemini", `{"candidates":[{"content":{"parts":[{"text":"It"}]},"logprobsResult":{"topCandidates":[{"candidates":[{"token":"It","tokenId":1,"logProbability":-0.25},{"token":"I","tokenId":2,"logProbability":-1.5}]}]}}]}`, want)
	// What cannot be is left out, and a list is bounded.
	f("llamacpp", `{"content":"It","completion_probabilities":[{"top_logprobs":[{"token":"a","logprob":0.5},{"token":"b","logprob":null},{"token":"c","logprob":-1e9},{"token":"It","logprob":-0.25}]}]}`, want[:1])
	var many []TokenLogprob
	for range maxTop {
		many = append(many, want[0])
	}
	f("llamacpp", `{"content":"It","completion_probabilities":[{"top_logprobs":[`+strings.Repeat(`{"token":"It","logprob":-0.25},`, 30)+`{}]}]}`, many)
}

// Only who wants log-probabilities asks for them.
func TestTopLogprobsAreAskedFor(t *testing.T) {
	f := func(api, want string) {
		t.Helper()
		p, _ := Lookup(api)
		body := func(top int) map[string]any {
			text, err := p.Body(Params{Model: "m", Prompt: "x", OutputTokens: 1, TopLogprobs: top}, new(Adjustment))
			var o map[string]any
			if err != nil || json.Unmarshal(text, &o) != nil {
				t.Fatalf("%s: %s, %v", api, text, err)
			}
			return o
		}
		without := body(0)
		var added any
		if err := json.Unmarshal([]byte(want), &added); err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		for key, v := range body(5) {
			if cmp.Diff(without[key], v) != "" {
				got[key] = v
			}
		}
		if diff := cmp.Diff(added, any(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", api, diff)
		}
	}
	f("openai-chat", `{"logprobs":true,"top_logprobs":5}`)
	f("openai-completions", `{"logprobs":5}`)
	f("ollama", `{"logprobs":true,"top_logprobs":5}`)
	f("ollama-generate", `{"logprobs":true,"top_logprobs":5}`)
	f("llamacpp", `{"n_probs":5}`)
	f("tgi", `{"parameters":{"max_new_tokens":1,"do_sample":false,"details":true,"top_n_tokens":5}}`)
	f("sglang", `{"return_logprob":true,"top_logprobs_num":5,"return_text_in_logprobs":true}`)
	f("gemini", `{"generationConfig":{"maxOutputTokens":1,"temperature":0,"responseLogprobs":true,"logprobs":5}}`)
	f("anthropic", `{}`)
}
