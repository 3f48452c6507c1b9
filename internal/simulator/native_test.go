package simulator

import (
	"strings"
	"testing"
)

// TestNativeReplies has the replies of the engines' own protocols. Prefill is
// 8000 tokens a second, a decode step 20 ms: the times follow.
func TestNativeReplies(t *testing.T) {
	f := func(o Options, path, request string, want ...string) {
		t.Helper()
		separator := "\n"
		if strings.HasPrefix(want[0], "data:") {
			separator = "\n\n"
		}
		checkReply(t, o, path, request, strings.Join(want, separator))
	}
	const object = `{"model":"simulated-8b","created_at":"T",`

	f(Options{ReasoningTokens: 1}, "/api/chat", `{"model":"simulated-8b","messages":[{"role":"user","content":"one"}],"options":{"num_predict":3,"temperature":0}}`,
		object+`"message":{"role":"assistant","content":"","thinking":"zero"},"done":false}`,
		object+`"message":{"role":"assistant","content":"zero"},"done":false}`,
		object+`"message":{"role":"assistant","content":" one"},"done":false}`,
		object+`"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":61625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":3,"eval_duration":40000000}`, "")
	f(Options{ReasoningTokens: 1}, "/api/generate", `{"prompt":"one","think":false,"options":{"num_predict":1,"temperature":0}}`,
		object+`"response":"zero","done":false}`,
		object+`"response":"","done":true,"done_reason":"length","total_duration":21625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":1}`, "")
	f(Options{}, "/api/generate", `{"prompt":"one","stream":false,"options":{"num_predict":1,"temperature":0}}`,
		object+`"response":"zero","done":true,"done_reason":"length","total_duration":21625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":1}`)
	f(Options{}, "/generate_stream", `{"inputs":"one two","parameters":{"max_new_tokens":2,"do_sample":false,"details":true}}`,
		`data:{"index":1,"token":{"id":1,"text":"zero","logprob":-0.25,"special":false},"generated_text":null,"details":null}`,
		`data:{"index":2,"token":{"id":2,"text":" one","logprob":-0.25,"special":false},"generated_text":"zero one","details":{"finish_reason":"length","generated_tokens":2,"seed":null,"input_length":2}}`)
	f(Options{StopProbability: 1}, "/generate", `{"text":"one two","sampling_params":{"max_new_tokens":2,"min_new_tokens":1,"temperature":0},"stream":true}`,
		`data: {"text":"zero","meta_info":{"id":"ID","finish_reason":{"type":"stop","matched":2},"prompt_tokens":2,"completion_tokens":1,"cached_tokens":0}}`,
		`data: [DONE]`)
	f(Options{StopProbability: 1}, "/generate", `{"text":"one two","sampling_params":{"max_new_tokens":2,"ignore_eos":true,"temperature":0},"stream":true}`,
		`data: {"text":"zero","meta_info":{"id":"ID","finish_reason":null,"prompt_tokens":2,"completion_tokens":1,"cached_tokens":0}}`,
		`data: {"text":"zero one","meta_info":{"id":"ID","finish_reason":{"type":"length","length":2},"prompt_tokens":2,"completion_tokens":2,"cached_tokens":0}}`,
		`data: [DONE]`)
	f(Options{}, "/completion", `{"prompt":"one two","n_predict":2,"temperature":0,"stream":true}`,
		`data: {"index":0,"content":"zero","tokens":[],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":2}`,
		`data: {"index":0,"content":" one","tokens":[],"stop":false,"id_slot":-1,"tokens_predicted":2,"tokens_evaluated":2}`,
		`data: {"index":0,"content":"","tokens":[],"id_slot":0,"stop":true,"model":"simulated-8b","tokens_predicted":2,"tokens_evaluated":2,"truncated":false,"stop_type":"limit","stopping_word":"","tokens_cached":4,`+
			`"timings":{"cache_n":0,"prompt_n":2,"prompt_ms":20.250,"predicted_n":2,"predicted_ms":20.000}}`)
	f(Options{}, "/v2/models/simulated-8b/generate_stream", `{"text_input":"one two","parameters":{"stream":true,"max_tokens":2,"temperature":0}}`,
		`data: {"finish_reason":"None","model_name":"simulated-8b","model_version":"1","num_input_tokens":2,"num_output_tokens":1,"text_output":"zero"}`,
		`data: {"finish_reason":"length","model_name":"simulated-8b","model_version":"1","num_input_tokens":2,"num_output_tokens":1,"text_output":" one"}`)
}

func TestNativeRefusals(t *testing.T) {
	f := func(path, request string, status int, want string) {
		t.Helper()
		checkRefusal(t, path, request, status, want)
	}
	const noPrompt = `"the prompt must not be empty"`
	f("/api/chat", `{"model":"m","messages":[{"content":"x"}]}`, 404, "{\"error\":\"The model `m` does not exist.\"}")
	f("/api/chat", `{"messages":[]}`, 400, `{"error":"there is no message"}`)
	f("/api/generate", `{}`, 400, `{"error":"prompt must not be empty"}`)
	f("/generate_stream", `{"inputs":""}`, 400, `{"error":`+noPrompt+`,"error_type":"validation"}`)
	f("/generate_stream", `{"inputs":"x","parameters":{"temperature":0}}`, 400, "{\"error\":\"`temperature` must be strictly positive\",\"error_type\":\"validation\"}")
	f("/generate", `{"text":" "}`, 400, `{"error":{"message":`+noPrompt+`}}`)
	f("/generate", `{"text":"x","sampling_params":{"max_new_tokens":2,"min_new_tokens":3}}`, 400, `{"error":{"message":"the least output must be from 0 to the limit"}}`)
	f("/completion", `{"prompt":"x","n_predict":0}`, 400, `{"error":{"code":400,"message":"the limit on the output must be at least 1, got 0","type":"invalid_request_error"}}`)
	f("/v2/models/m/generate_stream", `{"text_input":"x"}`, 404, "{\"error\":\"The model `m` does not exist.\"}")
	f("/v2/models/simulated-8b/generate_stream", `{}`, 400, `{"error":`+noPrompt+`}`)
}
