package simulator

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// stable replaces what differs from run to run: ids and times.
func stable(body string) string {
	body = regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(body, "ID")
	body = regexp.MustCompile(`"(created|created_at)":\d+`).ReplaceAllString(body, `"$1":0`)
	return regexp.MustCompile(`"created_at":"[^"]*"`).ReplaceAllString(body, `"created_at":"T"`)
}

// checkReply compares the lines of a reply, the blank ones at the end aside.
func checkReply(t *testing.T, o Options, path, request string, want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, o, false)
		defer v.stop()
		a := v.post(context.Background(), path, request, 1<<20)
		if a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s: status %d, error %v", path, a.status, a.err)
		}
		if d := cmp.Diff(strings.Join(want, "\n"), strings.TrimSuffix(stable(a.body), "\n\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	})
}

// checkRefusal wants a status and a body.
func checkRefusal(t *testing.T, path, request string, status int, want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		a := v.post(context.Background(), path, request, 1<<20)
		if a.status != status || a.body != want {
			t.Errorf("%s %s: status %d, body %s; want %d, %s", path, request, a.status, a.body, status, want)
		}
	})
}

func TestResponsesFace(t *testing.T) {
	const (
		path     = "/v1/responses"
		response = `"response":{"id":"resp_ID","object":"response","created_at":0,"status":`
		place    = `"item_id":"msg_1","output_index":1,"content_index":0`
	)
	checkReply(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","input":"one two","max_output_tokens":2,"temperature":0,"stream":true,"store":false}`,
		`event: response.created`,
		`data: {"type":"response.created",`+response+`"in_progress","error":null,"incomplete_details":null,"model":"simulated-8b","output":[],"store":false,"usage":null},"sequence_number":0}`, "",
		`event: response.in_progress`,
		`data: {"type":"response.in_progress",`+response+`"in_progress","error":null,"incomplete_details":null,"model":"simulated-8b","output":[],"store":false,"usage":null},"sequence_number":1}`, "",
		`event: response.reasoning_text.delta`,
		`data: {"type":"response.reasoning_text.delta","item_id":"msg_0","output_index":0,"content_index":0,"delta":"zero","sequence_number":2}`, "",
		`event: response.output_item.added`,
		`data: {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]},"sequence_number":3}`, "",
		`event: response.content_part.added`,
		`data: {"type":"response.content_part.added",`+place+`,"part":{"type":"output_text","text":"","annotations":[]},"sequence_number":4}`, "",
		`event: response.output_text.delta`,
		`data: {"type":"response.output_text.delta",`+place+`,"delta":"zero","sequence_number":5}`, "",
		`event: response.incomplete`,
		`data: {"type":"response.incomplete",`+response+`"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"model":"simulated-8b","output":[],"store":false,`+
			`"usage":{"input_tokens":14,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":16}},"sequence_number":6}`)
	checkReply(t, Options{StopProbability: 1}, path, `{"input":[{"role":"user","content":"one"}],"temperature":0}`,
		`{"id":"resp_ID","object":"response","created_at":0,"status":"completed","error":null,"incomplete_details":null,"model":"simulated-8b",`+
			`"output":[{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"text":"zero"}]}],"store":false,`+
			`"usage":{"input_tokens":13,"input_tokens_details":{"cached_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":14}}`)
}

func TestAnthropicFace(t *testing.T) {
	const path = "/v1/messages"
	checkReply(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","max_tokens":3,"messages":[{"role":"user","content":"one two"}],"temperature":0,"stream":true}`,
		`event: message_start`,
		`data: {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant","content":[],"model":"simulated-8b","stop_reason":null,"stop_sequence":null,`+
			`"usage":{"input_tokens":14,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}`, "",
		`event: content_block_start`,
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, "",
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"zero"}}`, "",
		`event: content_block_stop`,
		`data: {"type":"content_block_stop","index":0}`, "",
		`event: content_block_start`,
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`, "",
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"zero"}}`, "",
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" one"}}`, "",
		`event: content_block_stop`,
		`data: {"type":"content_block_stop","index":1}`, "",
		`event: message_delta`,
		`data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":14,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,`+
			`"output_tokens":3,"output_tokens_details":{"thinking_tokens":1}}}`, "",
		`event: message_stop`,
		`data: {"type":"message_stop"}`)
	checkReply(t, Options{ReasoningTokens: 1, StopProbability: 1}, path, `{"max_tokens":3,"messages":[{"content":[{"type":"text","text":"one"}]}],"temperature":0,"thinking":{"type":"disabled"}}`,
		`{"id":"msg_ID","type":"message","role":"assistant","model":"simulated-8b","content":[{"type":"text","text":"zero"}],"stop_reason":"end_turn","stop_sequence":null,`+
			`"usage":{"input_tokens":13,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}`)
}

func TestGeminiFace(t *testing.T) {
	const (
		path = "/v1beta/models/simulated-8b:"
		rest = `,"modelVersion":"simulated-8b","responseId":"ID"}`
	)
	checkReply(t, Options{ReasoningTokens: 1}, path+"streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"one two"}]}],"generationConfig":{"maxOutputTokens":2,"temperature":0}}`,
		`data: {"candidates":[{"content":{"parts":[{"text":"zero","thought":true}],"role":"model"},"index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":0,"thoughtsTokenCount":1,"totalTokenCount":15}`+rest+"\r", "\r",
		`data: {"candidates":[{"content":{"parts":[{"text":"zero"}],"role":"model"},"index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":1,"thoughtsTokenCount":1,"totalTokenCount":16}`+rest+"\r", "\r",
		`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"MAX_TOKENS","index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":1,"thoughtsTokenCount":1,"totalTokenCount":16}`+rest+"\r", "\r", "")
	checkReply(t, Options{ReasoningTokens: 1, StopProbability: 1}, path+"generateContent",
		`{"contents":[{"parts":[{"text":"one"}]}],"generationConfig":{"temperature":0,"thinkingConfig":{"thinkingBudget":0}}}`,
		`{"candidates":[{"content":{"parts":[{"text":"zero"}],"role":"model"},"finishReason":"STOP","index":0}],`+
			`"usageMetadata":{"promptTokenCount":13,"candidatesTokenCount":1,"totalTokenCount":14}`+rest)
}

func TestCohereFace(t *testing.T) {
	const path = "/v2/chat"
	checkReply(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","messages":[{"role":"user","content":"one two"}],"max_tokens":2,"temperature":0,"stream":true}`,
		`event: message-start`,
		`data: {"type":"message-start","id":"ID","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}`, "",
		`event: content-start`,
		`data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"thinking","thinking":""}}}}`, "",
		`event: content-delta`,
		`data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":"zero"}}}}`, "",
		`event: content-end`,
		`data: {"type":"content-end","index":0}`, "",
		`event: content-start`,
		`data: {"type":"content-start","index":1,"delta":{"message":{"content":{"type":"text","text":""}}}}`, "",
		`event: content-delta`,
		`data: {"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"zero"}}}}`, "",
		`event: content-end`,
		`data: {"type":"content-end","index":1}`, "",
		`event: message-end`,
		`data: {"type":"message-end","delta":{"finish_reason":"MAX_TOKENS","usage":{"billed_units":{"input_tokens":2.0,"output_tokens":2.0},"tokens":{"input_tokens":14.0,"output_tokens":2.0}}}}`)
	checkReply(t, Options{StopProbability: 1}, path, `{"messages":[{"content":"one"}],"temperature":0}`,
		`{"id":"ID","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"zero"}]},`+
			`"usage":{"billed_units":{"input_tokens":1.0,"output_tokens":1.0},"tokens":{"input_tokens":13.0,"output_tokens":1.0}}}`)
}

func TestFaceRefusals(t *testing.T) {
	f := func(path, request string, status int, body string) {
		t.Helper()
		checkRefusal(t, path, request, status, body)
	}
	const noModel = "The model `other` does not exist."
	f("/v1/responses", `{"model":"other","input":"x"}`, 404, `{"error":{"message":"`+noModel+`","type":"NotFoundError","param":null,"code":404}}`)
	f("/v1/responses", `{"input":[]}`, 400, `{"error":{"message":"there is no message","type":"BadRequestError","param":null,"code":400}}`)
	f("/v1/messages", `{"model":"other","max_tokens":1,"messages":[{"content":"x"}]}`, 404, `{"type":"error","error":{"type":"not_found_error","message":"`+noModel+`"}}`)
	f("/v1/messages", `{"messages":[{"content":"x"}]}`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: Field required"}}`)
	f("/fault/status_429/v1/messages", `{}`, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"Rate limit reached"}}`)
	f("/v1beta/models/other:streamGenerateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`, 404, `{"error":{"code":404,"message":"`+noModel+`","status":"NOT_FOUND"}}`)
	f("/v1beta/models/simulated-8b:countTokens", `{"contents":[{"parts":[{"text":"x"}]}]}`, 404, `{"error":{"code":404,"message":"there is no method countTokens","status":"NOT_FOUND"}}`)
	f("/fault/status_429/v1beta/models/simulated-8b:generateContent", `{}`, 429, `{"error":{"code":429,"message":"Rate limit reached","status":"RESOURCE_EXHAUSTED"}}`)
	f("/v2/chat", `{"messages":[{"content":"x"}],"max_tokens":0}`, 400, `{"message":"the limit on the output must be at least 1, got 0"}`)
}
