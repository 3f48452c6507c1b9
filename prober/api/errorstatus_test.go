package api

import (
	"strings"
	"testing"
)

// TestErrorStatus reads the status that an error inside a stream names, in the
// shapes of the documentation of servers and of recorded streams.
func TestErrorStatus(t *testing.T) {
	f := func(want int, api string, bodies ...string) {
		t.Helper()
		for _, body := range bodies {
			got := decodeReply(t, api, strings.NewReader(body+"\n\n")).Err
			if got.Status != want || got.Message == "" {
				t.Errorf("%s: %+v, want status %d", body, got, want)
			}
		}
	}
	const chat = "openai-chat"
	f(429, chat,
		`data: {"error":{"message":"m","code":429}}`,
		`data: {"error":{"message":"m","code":"429"}}`,
		`data: {"error":{"message":"m","status":429}}`,
		`data: {"error":{"message":"m","status_code":429}}`,
		`data: {"error":{"message":"m"},"status":429}`,
		`data: {"error":{"message":"m"},"status_code":"429"}`,
		`data: {"error":{"message":"m"},"code":429}`,
		`data: {"error":"m","code":429}`,
		`data: {"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}`,
		`data: {"error":{"message":"m","type":"rate_limit_error"}}`,
		`data: {"error":{"message":"m","type":"RateLimitError"}}`,
		`data: {"error":{"message":"m","type":"tokens","code":"rate-limit-exceeded"}}`,
		`data: {"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`,
		`data: {"error":{"message":"m","type":"Too Many Requests"}}`,
		`data: {"error":{"grpc_code":8,"http_code":429,"message":"m","http_status":"Too Many Requests"}}`,
		`data: {"object":"error","message":"m","type":"RateLimitError","code":429}`,
		`data: {"code":429,"message":"m"}`,
		`data: {"code":"Throttling.RateQuota","message":"m","request_id":"r"}`,
		"event: error\ndata: {\"message\":\"m\",\"code\":429}")
	f(503, chat,
		`error: {"code":503,"message":"Loading model","type":"unavailable_error"}`,
		`data: {"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`,
		`data: {"error":{"message":"m","type":"unavailable_error"}}`,
		`data: {"error":{"message":"m","type":"ServiceUnavailableError","code":null}}`,
		`data: {"error":{"message":"m","code":"slow_down"}}`)
	f(529, chat, `data: {"error":{"message":"m","type":"overloaded_error"}}`, `data: {"error":"m","error_type":"overloaded"}`)
	f(401, chat, `data: {"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}`)
	f(404, chat, `data: {"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}`)
	f(400, chat,
		`data: {"object":"error","message":"m","type":"BadRequestError","code":400}`,
		`data: {"error":{"message":"m","type":"invalid_request_error","code":null}}`,
		`data: {"error":{"message":"m","type":"exceed_context_size_error"}}`)
	f(504, chat, `data: {"error":{"message":"m","type":"timeout_error"}}`)
	f(0, chat, // nothing that is a status
		`data: {"error":{"message":"m"}}`,
		`data: {"error":{"message":"m","code":8}}`,
		`data: {"error":{"message":"m","code":200}}`,
		`data: {"error":{"message":"m","code":"1302"}}`,
		`data: {"error":{"message":"m","code":429.5}}`,
		`data: {"error":{"message":"m","type":"error","code":{}}}`,
		`data: {"error":"429"}`)
	f(429, "gemini", `data: {"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`, `data: {"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}`)
	f(503, "gemini", `data: [{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`, `data: {"error":{"message":"m","status":"UNAVAILABLE"}}`)
	f(403, "gemini", `data: {"error":{"code":7,"message":"m","status":"PERMISSION_DENIED"}}`)
	f(529, "anthropic", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}")
	f(429, "openai-responses", `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}}`)
	f(503, "ollama", `{"error":"server busy, please try again","status_code":503}`, `{"error":"m","status":503}`)
	f(0, "ollama", `{"error":"model runner has unexpectedly stopped"}`)
	f(529, "tgi", `data: {"error":"Model is overloaded","error_type":"overloaded"}`)
}
