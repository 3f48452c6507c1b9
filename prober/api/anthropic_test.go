package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestOddAnthropic(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "anthropic", name, events, change)
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
	f("the end counts the prompt again, cached ones included", `{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_read_input_tokens":0}}}`+"\n"+hi+"\n"+
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
		"api_error": 500, "overloaded_error": 529, "billing_error": 402, "future_error": 0,
	} {
		e := ServerError{Status: status, Type: errorType, Message: "boom"}
		f(errorType, hi+"\n"+`error {"type":"error","error":{"type":"`+errorType+`","message":"boom"}}`, func(r *reply) { r.Text, r.Tokens, r.Visible, r.Err = "hi", 1, 1, e })
		f(errorType+" without a name", `{"type":"error","error":{"type":"`+errorType+`","message":"boom"}}`, func(r *reply) { r.Err = e })
	}
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+start+"\n"+hi+"\n"+end, func(r *reply) { good(r); r.Broken = true })
}

func TestAnthropicHeader(t *testing.T) {
	p, _ := Lookup("anthropic")
	if got := p.Header().Get("anthropic-version"); got != "2023-06-01" {
		t.Errorf("anthropic-version %q", got)
	}
}

func TestAnthropicRateLimit(t *testing.T) {
	f := func(want RateLimit, header ...string) {
		t.Helper()
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		if got := RateLimitFrom(h); got != want {
			t.Errorf("%v: %+v, want %+v", header, got, want)
		}
	}
	const requests, tokens, input, output = "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-output-tokens-remaining"
	f(RateLimit{Unknown, Unknown})
	f(RateLimit{49, Unknown}, requests, "49")
	f(RateLimit{49, 8000}, requests, "49", input, "50000", output, "8000")
	f(RateLimit{Unknown, 0}, input, "0", output, "x")
	f(RateLimit{Unknown, 7000}, tokens, "7000", input, "50000", output, "8000")
	f(RateLimit{5, 6}, "x-ratelimit-remaining-requests", "5", "x-ratelimit-remaining-tokens", "6") // a gateway
}

func FuzzAnthropic(f *testing.F) {
	fuzzReply(f, "anthropic", "composed_anthropic", "composed_anthropic_overloaded", "llamacpp_v1_messages_stream")
}
