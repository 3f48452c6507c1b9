package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func checkBody(t *testing.T, p Protocol, params Params, want string) {
	t.Helper()
	got, err := p.Body(params)
	if d := cmp.Diff(want, string(got)); d != "" || err != nil {
		t.Errorf("%s, %+v: %v (-want +got):\n%s", p.Name, params, err, d)
	}
}

func TestBody(t *testing.T) {
	f := func(api string, params Params, want string) {
		t.Helper()
		p, _ := Lookup(api)
		checkBody(t, p, params, want)
		params.OutputTokens = 0
		if got, err := p.Body(params); err == nil {
			t.Errorf("%s: no cap on the answer: %s, want an error", api, got)
		}
	}
	plain := Params{Model: "m", Prompt: "a <b>", OutputTokens: 64}
	exact := plain
	exact.ExactLength = true
	// One unknown key fails the whole request at some servers.
	f("openai-chat", plain, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"max_tokens":64,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-chat", exact, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"max_tokens":64,"min_tokens":64,"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-completions", exact, `{"model":"m","prompt":"a <b>","max_tokens":64,"min_tokens":64,"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-responses", exact, `{"model":"m","input":"a <b>","max_output_tokens":64,"temperature":0,"stream":true,"store":false}`)
	f("anthropic", exact, `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"a <b>"}],"stream":true}`)
	f("gemini", exact, `{"contents":[{"role":"user","parts":[{"text":"a <b>"}]}],"generationConfig":{"maxOutputTokens":64,"temperature":0}}`)
	f("cohere", exact, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"max_tokens":64,"temperature":0,"stream":true}`)
	f("ollama", plain, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"stream":true,"options":{"num_predict":64,"temperature":0}}`)
	f("ollama-generate", exact, `{"model":"m","prompt":"a <b>","stream":true,"options":{"num_predict":64,"temperature":0}}`)
	f("tgi", exact, `{"inputs":"a <b>","parameters":{"max_new_tokens":64,"do_sample":false,"details":true}}`)
	f("sglang", plain, `{"text":"a <b>","sampling_params":{"max_new_tokens":64,"temperature":0},"stream":true}`)
	f("sglang", exact, `{"text":"a <b>","sampling_params":{"max_new_tokens":64,"min_new_tokens":64,"ignore_eos":true,"temperature":0},"stream":true}`)
	f("llamacpp", plain, `{"prompt":"a <b>","n_predict":64,"temperature":0,"stream":true}`)
	f("llamacpp", exact, `{"prompt":"a <b>","n_predict":64,"ignore_eos":true,"temperature":0,"stream":true}`)
	const asked = `"temperature":0,"exclude_input_in_output":true,"return_finish_reason":true,"return_num_input_tokens":true,"return_num_output_tokens":true}}`
	f("triton", plain, `{"text_input":"a <b>","parameters":{"stream":true,"max_tokens":64,`+asked)
	f("triton", exact, `{"text_input":"a <b>","parameters":{"stream":true,"max_tokens":64,"min_tokens":64,`+asked)

	f("openai-chat", Params{Model: "m", Prompt: "a <b>\n\u00e9", OutputTokens: 64},
		`{"model":"m","messages":[{"role":"user","content":"a <b>\n`+"\u00e9"+`"}],"max_tokens":64,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-completions", Params{Model: "m", Prompt: "a", OutputTokens: 1, ContinuousUsage: true},
		`{"model":"m","prompt":"a","max_tokens":1,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)

	protocol, _ := Lookup("openai-chat")
	body, err := protocol.Body(Params{Model: "m", Prompt: "broken \xff", OutputTokens: 1})
	if err != nil || !json.Valid(body) {
		t.Errorf("prompt that is not UTF-8: %s, %v", body, err)
	}
}
