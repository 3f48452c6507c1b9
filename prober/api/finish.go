package api

import (
	"strings"

	"github.com/valyala/fastjson"
)

// FinishReasons lists the closed set of Delta.Finish: the finish reasons of the
// OpenAI protocols, abort (SGLang, vLLM), error (OpenRouter) and other.
func FinishReasons() []string {
	return []string{"stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error", "other"}
}

// finishWord maps a server's finish reason, in whatever case it is spelled, into
// the closed set. "" is none, and so are the words for it that servers put into
// every frame but the last.
func finishWord(reason []byte) string {
	switch string(reason) {
	case "", "None", "none", "null", "FINISH_REASON_UNSPECIFIED":
		return ""
	}
	switch s := strings.ToLower(string(reason)); s {
	case "stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error":
		return s
	case "stop_sequence", "eos", "eos_token", "word", "end_turn", "complete":
		return "stop"
	case "limit", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded":
		return "length"
	case "tool_use", "tool_call":
		return "tool_calls"
	case "refusal", "guardrail_intervened", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii":
		return "content_filter"
	case "insufficient_system_resource": // DeepSeek: the server gave up
		return "error"
	}
	return "other"
}

// finishReason maps a finish reason in JSON: absent, null, false and what is
// empty are none.
func finishReason(v *fastjson.Value) string {
	if !told(v) {
		return ""
	}
	if v.Type() != fastjson.TypeString {
		return "other"
	}
	return finishWord(v.GetStringBytes())
}
