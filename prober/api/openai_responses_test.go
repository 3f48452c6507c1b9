package api

import "testing"

func TestOddResponses(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "openai-responses", name, events, change)
	}
	const (
		hi  = `{"type":"response.output_text.delta","delta":"hi"}`
		end = `{"type":"response.completed","response":{"status":"completed","error":null,"usage":null}}`
	)
	failed := func(e ServerError) func(*reply) {
		return func(r *reply) { r.Text, r.Tokens, r.Visible, r.Err = "hi", 1, 1, e }
	}
	f("plain", hi+"\n"+end, hiReply)
	f("an end marker of another protocol", hi+"\n"+end+"\n[DONE]", hiReply)
	f("the type is in the name alone", "response.output_text.delta {\"delta\":\"hi\"}\nresponse.completed {\"response\":{}}", hiReply)
	f("the type goes before the name", "message "+hi+"\nmessage "+end, hiReply)
	f("unknown and empty events", `{"type":"response.queued"}`+"\n{}\n"+`{"type":7}`+"\n"+`{"type":"response.output_text.delta","delta":null}`+"\n"+
		`{"type":"response.output_text.delta"}`+"\n"+`{"type":"response.output_text.done","text":"no"}`+"\n"+hi+"\n"+end, hiReply)
	f("reasoning", `{"type":"response.reasoning_text.delta","delta":"hm"}`+"\n"+hi+"\n"+end, func(r *reply) { hiReply(r); r.Reasoning, r.Tokens = "hm", 2 })
	f("refusal", `{"type":"response.refusal.delta","delta":"no"}`+"\n"+end, func(r *reply) { hiReply(r); r.Text, r.Refusal = "", "no" })
	f("function call", `{"type":"response.function_call_arguments.delta","delta":"{}"}`+"\n"+end, func(r *reply) { hiReply(r); r.Text, r.Tool = "", "{}" })
	f("filtered", hi+"\n"+`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`, func(r *reply) { hiReply(r); r.Finish = "content_filter" })
	f("incomplete for no reason", hi+"\n"+`{"type":"response.incomplete","response":{"incomplete_details":null}}`, func(r *reply) { hiReply(r); r.Finish = "other" })
	f("failed", hi+"\n"+`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`, func(r *reply) {
		failed(ServerError{Type: "server_error", Message: "boom"})(r)
		r.Done = true
	})
	f("failed for no reason", hi+"\n"+`{"type":"response.failed"}`, func(r *reply) { failed(ServerError{Message: "response failed"})(r); r.Done = true })
	f("error event", hi+"\n"+`error {"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null,"sequence_number":3}`, failed(ServerError{Type: "rate_limit_exceeded", Message: "slow down"}))
	f("error by type", hi+"\n"+`{"type":"error","error":{"type":"invalid_request_error","message":"no","param":"input","code":null}}`, failed(ServerError{Type: "invalid_request_error", Param: "input", Message: "no"}))
	f("absurd usage", hi+"\n"+`{"type":"response.completed","response":{"usage":{"input_tokens":-1,"output_tokens":1e18,"input_tokens_details":null,"output_tokens_details":[]}},"timings":{"prompt_ms":-1}}`, hiReply)
	f("usage in part", hi+"\n"+`{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":3}}}`, func(r *reply) { hiReply(r); r.Usage = Usage{9, Unknown, 3, Unknown} })
	f("cut", hi, func(r *reply) { r.Text, r.Tokens, r.Visible = "hi", 1, 1 })
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+hi+"\n"+end, func(r *reply) { hiReply(r); r.Broken = true })
}

func FuzzResponses(f *testing.F) {
	fuzzReply(f, "openai-responses", "composed_openai_responses", "llamacpp_v1_responses_stream")
}
