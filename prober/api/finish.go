package api

import "github.com/valyala/fastjson"

// FinishReasons lists the closed set that FinishReason maps to: those of the
// OpenAI protocols, abort (SGLang, vLLM), error (OpenRouter) and other.
func FinishReasons() []string {
	return []string{"stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error", "other"}
}

// FinishReason maps a server's finish reason into the closed set; "" stays "".
func FinishReason(s string) string {
	switch s {
	case "", "stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error":
		return s
	case "stop_sequence", "eos_token": // text-generation-inference
		return "stop"
	case "eos", "word": // llama.cpp
		return "stop"
	case "limit":
		return "length"
	case "end_turn", "STOP", "COMPLETE", "STOP_SEQUENCE":
		return "stop"
	case "max_tokens", "model_context_window_exceeded", "max_output_tokens", "MAX_TOKENS":
		return "length"
	case "tool_use", "TOOL_CALL":
		return "tool_calls"
	case "refusal", "guardrail_intervened", "content_filtered", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return "content_filter"
	case "ERROR":
		return "error"
	}
	return "other"
}

// finishReason maps a finish reason in JSON: absent and null are none.
func finishReason(v *fastjson.Value) string {
	if v == nil || v.Type() == fastjson.TypeNull {
		return ""
	}
	if v.Type() != fastjson.TypeString {
		return "other"
	}
	return FinishReason(string(v.GetStringBytes()))
}
