package api

import (
	"testing"

	"github.com/valyala/fastjson"
)

// TestFinishReason maps what servers send: the values of their documentation,
// and those of recorded streams that are spelled otherwise.
func TestFinishReason(t *testing.T) {
	f := func(want string, reasons ...string) {
		t.Helper()
		for _, reason := range reasons {
			if got := finishReason(fastjson.MustParse(reason)); got != want {
				t.Errorf("%s: %q, want %q", reason, got, want)
			}
		}
	}
	for _, s := range FinishReasons() {
		f(s, `"`+s+`"`)
	}
	f("", `""`, "null", "false", "{}", "[]", `"None"`, `"null"`, `"FINISH_REASON_UNSPECIFIED"`)
	f("stop", `"STOP"`, `"eos"`, `"eos_token"`, `"stop_sequence"`, `"STOP_SEQUENCE"`, `"word"`, `"COMPLETE"`, `"end_turn"`)
	f("length", `"MAX_TOKENS"`, `"max_tokens"`, `"limit"`, `"model_length"`, `"model_context_window_exceeded"`, `"max_output_tokens"`)
	f("tool_calls", `"TOOL_CALL"`, `"tool_use"`, `"TOOL_CALLS"`)
	f("content_filter", `"SAFETY"`, `"guardrail_intervened"`, `"refusal"`)
	f("error", `"ERROR"`, `"insufficient_system_resource"`)
	f("other", `"load"`, `"STOP!"`, `"pause_turn"`, "7", "true", `{"type":"stop"}`)
}
