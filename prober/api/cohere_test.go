package api

import "testing"

func TestOddCohere(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "cohere", name, events, change)
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
	f("cached tokens and reasoning tokens", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":5,"output_tokens":2},"tokens":{"input_tokens":9,"output_tokens":3,"reasoning_tokens":2},"cached_tokens":8}}}`,
		func(r *reply) { good(r); r.Usage = Usage{9, 8, 3, 2} })
	f("none of either", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":9,"output_tokens":3,"reasoning_tokens":0},"cached_tokens":0}}}`,
		func(r *reply) { good(r); r.Usage = Usage{9, 0, 3, 0} })
	f("stop sequence, no usage", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"STOP_SEQUENCE","usage":null}}`, hiReply)
	f("absurd usage", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":-9.0,"output_tokens":2.5}}}}`, hiReply)
	f("error", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"ERROR","error":"boom"}}`, func(r *reply) { hiReply(r); r.Finish, r.Err.Message = "error", "boom" })
	f("error for no reason", hi+"\n"+`{"type":"message-end","delta":{"finish_reason":"ERROR"}}`, func(r *reply) { hiReply(r); r.Finish, r.Err.Message = "error", "finish reason ERROR" })
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+hi+"\n"+end, func(r *reply) { good(r); r.Broken = true })
}

func FuzzCohere(f *testing.F) { fuzzReply(f, "cohere", "composed_cohere") }
