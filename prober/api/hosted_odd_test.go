package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkEvents decodes events of JSON, one a line, each with the name before
// its first blank, if it has one.
func checkEvents(t *testing.T, api, name, events string, change func(*reply)) {
	t.Helper()
	want := noReply()
	change(&want)
	var body strings.Builder
	for line := range strings.SplitSeq(events, "\n") {
		if event, data, ok := strings.Cut(line, " {"); ok && event != "" && !strings.Contains(event, "{") {
			line = "{" + data
			body.WriteString("event: " + event + "\n")
		}
		body.WriteString("data: " + line + "\n\n")
	}
	if d := cmp.Diff(want, decodeReply(t, api, strings.NewReader(body.String()))); d != "" {
		t.Errorf("%s, %s (-want +got):\n%s", api, name, d)
	}
}

// hiReply is a reply of one token that ended well.
func hiReply(r *reply) { r.Text, r.Tokens, r.Visible, r.Finish, r.Done = "hi", 1, 1, "stop", true }

func TestOddResponses(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkEvents(t, "openai-responses", name, events, change)
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

func TestOddAnthropic(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkEvents(t, "anthropic", name, events, change)
	}
	const (
		start = `{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}`
		hi    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
		end   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}` + "\n" + `{"type":"message_stop"}`
	)
	good := func(r *reply) { hiReply(r); r.Usage = Usage{9, Unknown, 3, Unknown} }
	f("plain", start+"\n"+hi+"\n"+end, good)
	f("the type is in the name alone", start+"\n"+`content_block_delta {"delta":{"text":"hi"}}`+"\n"+end, good)
	f("pings and unknown events", start+"\n"+`{"type":"ping"}`+"\n"+`ping {}`+"\n"+`{"type":"future"}`+"\n{}\n"+hi+"\n"+end, good)
	f("nulls and other types", `{"type":"message_start","message":null}`+"\n"+start+"\n"+`{"type":"content_block_start","content_block":null}`+"\n"+`{"type":"content_block_delta","delta":null}`+"\n"+
		`{"type":"content_block_delta","delta":{"text":null,"thinking":7}}`+"\n"+`{"type":"message_delta","delta":null,"usage":null}`+"\n"+hi+"\n"+end, good)
	f("text in the start of a block", start+"\n"+`{"type":"content_block_start","content_block":{"type":"text","text":"hi"}}`+"\n"+end, good)
	f("tool", start+"\n"+`{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`+"\n"+
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}`+"\n"+`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}`+"\n"+
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}`+"\n"+`{"type":"message_stop"}`,
		func(r *reply) { good(r); r.Text, r.Tool, r.Tokens, r.Visible, r.Finish = "", "f{}", 2, 2, "tool_calls" })
	f("the end counts the prompt anew, cached ones included", `{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_read_input_tokens":0}}}`+"\n"+hi+"\n"+
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":2,"cache_read_input_tokens":30,"cache_creation_input_tokens":4,"output_tokens":3}}`+"\n"+`{"type":"message_stop"}`,
		func(r *reply) { hiReply(r); r.Usage = Usage{36, 30, 3, Unknown} })
	f("the end leaves out the cached ones", `{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_read_input_tokens":30}}}`+"\n"+hi+"\n"+
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":1,"output_tokens":3}}`+"\n"+`{"type":"message_stop"}`,
		func(r *reply) { hiReply(r); r.Usage = Usage{31, 30, 3, Unknown} })
	f("no message_start, two counts of which the last one wins", hi+"\n"+`{"type":"message_delta","delta":{},"usage":{"output_tokens":2}}`+"\n"+end, func(r *reply) { hiReply(r); r.Usage.Output = 3 })
	f("absurd usage", `{"type":"message_start","message":{"usage":{"input_tokens":100000000,"cache_read_input_tokens":1}}}`+"\n"+hi+"\n"+
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":-3}}`+"\n"+`{"type":"message_stop"}`, func(r *reply) { hiReply(r); r.Usage.Cached = 1 })
	f("no end marker", start+"\n"+hi+"\n"+strings.TrimSuffix(end, "\n"+`{"type":"message_stop"}`), func(r *reply) { good(r); r.Done = false })
	f("thinking that is not shown", start+"\n"+`{"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":""}}`+"\n"+
		`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"Eq"}}`+"\n"+hi+"\n"+end, good)
	for errorType, status := range map[string]int{
		"invalid_request_error": 400, "authentication_error": 401, "permission_error": 403, "not_found_error": 404, "rate_limit_error": 429,
		"api_error": 500, "overloaded_error": 529, "billing_error": 0, "future_error": 0,
	} {
		e := ServerError{Status: status, Type: errorType, Message: "boom"}
		f(errorType, hi+"\n"+`error {"type":"error","error":{"type":"`+errorType+`","message":"boom"}}`, func(r *reply) { r.Text, r.Tokens, r.Visible, r.Err = "hi", 1, 1, e })
		f(errorType+" without a name", `{"type":"error","error":{"type":"`+errorType+`","message":"boom"}}`, func(r *reply) { r.Err = e })
	}
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+start+"\n"+hi+"\n"+end, func(r *reply) { good(r); r.Broken = true })
}

func TestOddGemini(t *testing.T) {
	f := func(name, chunks string, change func(*reply)) {
		t.Helper()
		checkEvents(t, "gemini", name, chunks, change)
	}
	const (
		hi  = `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`
		end = `{"candidates":[{"finishReason":"STOP"}]}`
	)
	good := func(r *reply) { hiReply(r); r.Done = false }
	f("plain", hi+"\n"+end, good)
	f("text and finish together", `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}`, good)
	f("nulls, other types, no candidates", "{}\n"+`{"candidates":null,"usageMetadata":null,"promptFeedback":null}`+"\n"+`{"candidates":[null]}`+"\n"+`{"candidates":[{"content":{"parts":null},"finishReason":null}]}`+"\n"+
		`{"candidates":[{"content":{"role":"model"}}]}`+"\n"+`{"candidates":[{"content":{"parts":[null,7,{},{"text":7},{"text":"","thought":true}]}}],"promptFeedback":{}}`+"\n"+hi+"\n"+end, good)
	f("a signature is no token", `{"candidates":[{"content":{"parts":[{"thoughtSignature":"Ci"}]}}]}`+"\n"+hi+"\n"+end, good)
	f("keep-alive as data", ": keepalive\n"+hi+"\n"+end, good)
	f("thought beside text", `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"h"},{"text":"i"}]}}]}`+"\n"+end, func(r *reply) { good(r); r.Reasoning = "hm" })
	f("function calls", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1}}},{"functionCall":{"name":"g"}}]}}]}`+"\n"+end, func(r *reply) { good(r); r.Text, r.Tool = "", `f{"a":1}g` })
	for reason, want := range map[string]string{"MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter", "SPII": "content_filter", "MALFORMED_FUNCTION_CALL": "other", "LANGUAGE": "other"} {
		f(reason, hi+"\n"+`{"candidates":[{"finishReason":"`+reason+`"}]}`, func(r *reply) { good(r); r.Finish = want })
	}
	f("a prompt that was refused", `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":9}}`, func(r *reply) { r.Finish, r.Usage.Prompt = "content_filter", 9 })
	f("all thought", `{"candidates":[{"content":{"parts":[]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":64}}`,
		func(r *reply) { r.Finish, r.Usage = "length", Usage{9, Unknown, 64, 64} })
	f("no thoughts", hi+"\n"+`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":12}}`,
		func(r *reply) { good(r); r.Usage = Usage{9, Unknown, 3, Unknown} })
	f("text that is not counted yet", `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":64}}`+"\n"+
		`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":64}}`,
		func(r *reply) { good(r); r.Usage = Usage{9, Unknown, 67, 64} })
	f("absurd usage", hi+"\n"+`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":-1,"candidatesTokenCount":100000000,"thoughtsTokenCount":1,"cachedContentTokenCount":"x"}}`,
		func(r *reply) { good(r); r.Usage.Reasoning = 1 })
	quota := ServerError{Status: 429, Type: "RESOURCE_EXHAUSTED", Message: "slow down"}
	f("error", hi+"\n"+`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`, func(r *reply) { good(r); r.Finish, r.Err = "", quota })
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+hi+"\n"+end, func(r *reply) { good(r); r.Broken = true })

	// Without data: lines, or in a list, where the stream did not begin.
	for _, body := range []string{
		`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`,
		"[{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"slow down\",\n    \"status\": \"RESOURCE_EXHAUSTED\"\n  }\n}\n]",
	} {
		if d := cmp.Diff(&quota, ParseError([]byte(body))); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
}

func TestOddCohere(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkEvents(t, "cohere", name, events, change)
	}
	const (
		hi  = `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"hi"}}}}`
		end = `{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":9.0,"output_tokens":3}}}}`
	)
	good := func(r *reply) { hiReply(r); r.Usage = Usage{9, Unknown, 3, Unknown} }
	f("plain", hi+"\n"+end, good)
	f("the type is in the name alone", `content-delta {"delta":{"message":{"content":{"text":"hi"}}}}`+"\n"+end, good)
	f("nulls, unknown and empty events", "{}\n"+`{"type":"debug","prompt":"x"}`+"\n"+`{"type":"content-delta","delta":null}`+"\n"+`{"type":"content-delta","delta":{"message":{"content":null}}}`+"\n"+
		`{"type":"content-start","delta":{"message":{"content":{"type":"text","text":""}}}}`+"\n"+hi+"\n"+end, good)
	f("tools", `{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will"}}}`+"\n"+
		`{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"f_1","type":"function","function":{"name":"f","arguments":""}}}}}`+"\n"+
		`{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{}"}}}}}`+"\n"+`{"type":"message-end","delta":{"finish_reason":"TOOL_CALL"}}`,
		func(r *reply) {
			hiReply(r)
			r.Text, r.Tool, r.Tokens, r.Visible, r.Finish = "", "I willf{}", 3, 3, "tool_calls"
		})
	f("stop sequence, no usage", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"STOP_SEQUENCE","usage":null}}`, hiReply)
	f("absurd usage", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":-9.0,"output_tokens":2.5}}}}`, hiReply)
	f("error", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"ERROR","error":"boom"}}`, func(r *reply) { hiReply(r); r.Finish, r.Err.Message = "error", "boom" })
	f("error for no reason", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"ERROR"}}`, func(r *reply) { hiReply(r); r.Finish, r.Err.Message = "error", "finish reason ERROR" })
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+hi+"\n"+end, func(r *reply) { good(r); r.Broken = true })
}

func FuzzResponses(f *testing.F) {
	fuzzReply(f, "openai-responses", "composed_openai_responses", "llamacpp_v1_responses_stream")
}

func FuzzAnthropic(f *testing.F) {
	fuzzReply(f, "anthropic", "composed_anthropic", "composed_anthropic_overloaded", "llamacpp_v1_messages_stream")
}
func FuzzGemini(f *testing.F) { fuzzReply(f, "gemini", "composed_gemini") }
func FuzzCohere(f *testing.F) { fuzzReply(f, "cohere", "composed_cohere") }
