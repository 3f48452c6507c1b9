package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// anthropicMessages is POST /v1/messages.
func anthropicMessages() protocol {
	return protocol{
		path:    "/v1/messages",
		parse:   parseMessages,
		reply:   func(h replyHeader) reply { return &messagesReply{h: h} },
		failure: func(r refusal) []byte { return []byte(anthropicError(anthropicType(r.status), r.message)) },
	}
}

func parseMessages(body []byte) (request, error) {
	var q messagesRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("body is not a valid request: " + err.Error())
	}
	if q.MaxTokens == nil {
		return request{}, badRequest("max_tokens: Field required")
	}
	return q.request()
}

// anthropicType is the error type of a status.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable, 529:
		return "overloaded_error"
	}
	if status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

func anthropicError(kind, message string) string {
	return `{"type":"error","error":{"type":` + quote(kind) + `,"message":` + quote(message) + `}}`
}

// messagesReply writes the events of one message: a block of thinking, if any,
// then a block of text.
type messagesReply struct {
	h      replyHeader
	block  contentBlock
	end    ending
	failed bool
}

func (r *messagesReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	due := r.end.take(e)
	switch {
	case e.kind == Role:
		var u usage
		if e.usage != nil {
			u = *e.usage
		}
		// The count of the output is a placeholder, as Anthropic sends it.
		dst = appendTyped(dst, frame, "message_start", fmt.Sprintf(
			`,"message":{"id":"msg_%s","type":"message","role":"assistant","content":[],"model":%s,"stop_reason":null,"stop_sequence":null,"usage":{%s,"output_tokens":1}}`,
			r.h.id, quote(r.h.model), anthropicPrompt(&u)))
	case e.kind == Call:
		dst = r.appendCall(dst, e, frame)
	case e.kind == Reasoning || e.kind == Answer:
		dst = r.appendDelta(dst, e, frame)
	case e.kind == Failure:
		r.failed = true
		return frame(dst, "error", []byte(anthropicError("api_error", string(e.text))))
	}
	if e.finish != "" {
		dst = r.closeBlock(dst, frame)
	}
	if due {
		dst = appendTyped(dst, frame, "message_delta", r.delta())
	}
	if e.kind == Done && !r.failed {
		dst = appendTyped(dst, frame, "message_stop", "")
	}
	return dst
}

// appendDelta writes material, in a block of its kind.
func (r *messagesReply) appendDelta(dst []byte, e *event, frame frameFunc) []byte {
	kind, field := "text", "text"
	if e.kind == Reasoning {
		kind, field = "thinking", "thinking"
	}
	if r.block.kind != e.kind {
		dst = r.closeBlock(dst, frame)
		r.block.kind = e.kind
		dst = appendTyped(dst, frame, "content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":%q,%q:""}`, r.block.index, kind, field))
	}
	return appendTyped(dst, frame, "content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"%s_delta",%q:%s}`, r.block.index, kind, field, quote(e.text)))
}

// appendCall writes a piece of a call.
func (r *messagesReply) appendCall(dst []byte, e *event, frame frameFunc) []byte {
	if e.name != "" {
		dst = r.closeBlock(dst, frame)
		r.block.kind = Call
		return appendTyped(dst, frame, "content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":"tool_use","id":"toolu_1","name":%s,"input":{}}`, r.block.index, quote(e.name)))
	}
	return appendTyped(dst, frame, "content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, r.block.index, quote(e.text)))
}

func (r *messagesReply) closeBlock(dst []byte, frame frameFunc) []byte {
	if index, ok := r.block.close(); ok {
		dst = appendTyped(dst, frame, "content_block_stop", fmt.Sprintf(`,"index":%d`, index))
	}
	return dst
}

// delta is what the last event but one says.
func (r *messagesReply) delta() string {
	d := `,"delta":{"stop_reason":` + anthropicStop(r.end.finish) + `,"stop_sequence":null}`
	if r.end.counted {
		d += `,"usage":{` + anthropicUsage(&r.end.usage) + `}`
	}
	return d
}

func anthropicStop(f finish) string {
	switch f {
	case "":
		return "null"
	case finishLength:
		return `"max_tokens"`
	case finishCall:
		return `"tool_use"`
	}
	return `"end_turn"`
}

// anthropicPrompt counts the prompt apart from what came from the cache.
func anthropicPrompt(u *usage) string {
	return fmt.Sprintf(`"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d`, u.prompt-max(u.cached, 0), max(u.cached, 0))
}

func anthropicUsage(u *usage) string {
	s := fmt.Sprintf(`%s,"output_tokens":%d`, anthropicPrompt(u), u.output)
	if u.reasoning >= 0 {
		s += fmt.Sprintf(`,"output_tokens_details":{"thinking_tokens":%d}`, u.reasoning)
	}
	return s
}

func (r *messagesReply) appendWhole(dst []byte, w *whole) []byte {
	var thinking string
	if len(w.reasoning) > 0 {
		thinking = `{"type":"thinking","thinking":` + quote(w.reasoning) + `,"signature":""},`
	}
	return fmt.Appendf(dst, `{"id":"msg_%s","type":"message","role":"assistant","model":%s,"content":[%s{"type":"text","text":%s}],"stop_reason":%s,"stop_sequence":null,"usage":{%s}}`,
		r.h.id, quote(r.h.model), thinking, quote(w.answer), anthropicStop(w.finish), anthropicUsage(&w.usage))
}
