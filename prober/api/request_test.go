package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func checkBody(t *testing.T, p Protocol, params Params, want string) {
	t.Helper()
	got, err := p.Body(params, new(Adjustment))
	if d := cmp.Diff(want, string(got)); d != "" || err != nil {
		t.Errorf("%s, %+v: %v (-want +got):\n%s", p.Name, params, err, d)
	}
}

func TestBody(t *testing.T) {
	f := func(api string, params Params, want string) {
		t.Helper()
		p, _ := Lookup(api)
		checkBody(t, *p, params, want)
		params.OutputTokens = 0
		if got, err := p.Body(params, new(Adjustment)); err == nil {
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
	body, err := protocol.Body(Params{Model: "m", Prompt: "broken \xff", OutputTokens: 1}, new(Adjustment))
	if err != nil || !json.Valid(body) {
		t.Errorf("prompt that is not UTF-8: %s, %v", body, err)
	}
}

// TestConversation wants each protocol's own spelling of conversations, as its
// documentation has it.
func TestConversation(t *testing.T) {
	f := func(api string, messages []Message, want string) {
		t.Helper()
		p, _ := Lookup(api)
		checkBody(t, *p, Params{Model: "m", Prompt: "ignored", Messages: messages, OutputTokens: 64}, want)
	}
	talk := []Message{{"system", "Be brief."}, {"user", "a <b>"}, {"assistant", "c"}, {"user", "d"}}
	const (
		all     = `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"a <b>"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`
		turns   = `[{"role":"user","content":"a <b>"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`
		text    = `"Be brief.\n\na <b>\n\nc\n\nd"`
		openAI  = `"max_tokens":64,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`
		answers = `"max_output_tokens":64,"temperature":0,"stream":true,"store":false}`
	)
	f("openai-chat", talk, `{"model":"m",`+all+`,`+openAI)
	f("openai-completions", talk, `{"model":"m","prompt":`+text+`,`+openAI)
	f("openai-responses", talk, `{"model":"m","instructions":"Be brief.","input":`+turns+`,`+answers)
	f("anthropic", talk, `{"model":"m","max_tokens":64,"system":"Be brief.","messages":`+turns+`,"stream":true}`)
	f("gemini", talk, `{"contents":[{"role":"user","parts":[{"text":"a <b>"}]},{"role":"model","parts":[{"text":"c"}]},{"role":"user","parts":[{"text":"d"}]}],`+
		`"systemInstruction":{"parts":[{"text":"Be brief."}]},"generationConfig":{"maxOutputTokens":64,"temperature":0}}`)
	f("cohere", talk, `{"model":"m",`+all+`,"max_tokens":64,"temperature":0,"stream":true}`)
	f("bedrock", talk, `{"system":[{"text":"Be brief."}],"messages":[{"role":"user","content":[{"text":"a <b>"}]},{"role":"assistant","content":[{"text":"c"}]},{"role":"user","content":[{"text":"d"}]}],`+
		`"inferenceConfig":{"maxTokens":64}}`)
	f("ollama", talk, `{"model":"m",`+all+`,"stream":true,"options":{"num_predict":64,"temperature":0}}`)
	f("ollama-generate", talk, `{"model":"m","system":"Be brief.","prompt":"a <b>\n\nc\n\nd","stream":true,"options":{"num_predict":64,"temperature":0}}`)
	f("tgi", talk, `{"inputs":`+text+`,"parameters":{"max_new_tokens":64,"do_sample":false,"details":true}}`)
	f("sglang", talk, `{"text":`+text+`,"sampling_params":{"max_new_tokens":64,"temperature":0},"stream":true}`)
	f("llamacpp", talk, `{"prompt":`+text+`,"n_predict":64,"temperature":0,"stream":true}`)
	f("triton", talk, `{"text_input":`+text+`,"parameters":{"stream":true,"max_tokens":64,`+
		`"temperature":0,"exclude_input_in_output":true,"return_finish_reason":true,"return_num_input_tokens":true,"return_num_output_tokens":true}}`)

	// Where roles must alternate, neighbours become one; elsewhere all stay.
	rows := []Message{{"user", "a"}, {"system", "s"}, {"user", "b"}, {"system", "t"}}
	const merged = `[{"role":"user","content":"a\n\nb"}]`
	f("anthropic", rows, `{"model":"m","max_tokens":64,"system":"s\n\nt","messages":`+merged+`,"stream":true}`)
	f("openai-responses", rows, `{"model":"m","instructions":"s\n\nt","input":`+merged+`,`+answers)
	f("openai-chat", rows, `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"},{"role":"system","content":"t"}],`+openAI)
}

// A conversation of one message of the user is the same request as its text as
// the prompt. Responses alone has two spellings of it.
func TestOneMessageIsAPrompt(t *testing.T) {
	for _, p := range protocols() {
		if p.Kind != Generation || p.Name == "openai-responses" {
			continue
		}
		want, err := p.Body(Params{Model: "m", Prompt: "a\n<b>", OutputTokens: 64, ExactLength: true}, new(Adjustment))
		if err != nil {
			t.Fatal(err)
		}
		checkBody(t, p, Params{Model: "m", Messages: []Message{{"user", "a\n<b>"}}, OutputTokens: 64, ExactLength: true}, string(want))
	}
}

// The messages are shared by all probes.
func TestConversationIsNotChanged(t *testing.T) {
	messages := []Message{{"user", "a"}, {"user", "b"}, {"assistant", "c"}, {"user", "d"}}
	want := []Message{{"user", "a"}, {"user", "b"}, {"assistant", "c"}, {"user", "d"}}
	for _, p := range protocols() {
		if p.Kind != Generation {
			continue
		}
		if _, err := p.Body(Params{Model: "m", Messages: messages, OutputTokens: 1}, new(Adjustment)); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if d := cmp.Diff(want, messages); d != "" {
			t.Fatalf("%s (-want +got):\n%s", p.Name, d)
		}
	}
}
