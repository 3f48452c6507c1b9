package simulator

import (
	"encoding/json"
	"fmt"
)

// cohereChat is POST /v2/chat.
func cohereChat() protocol {
	return protocol{
		path:    "/v2/chat",
		parse:   parseCohere,
		reply:   func(h replyHeader) reply { return &cohereReply{h: h} },
		failure: func(r refusal) []byte { return []byte(`{"message":` + quote(r.message) + `}`) },
	}
}

func parseCohere(body []byte) (request, error) {
	var q messagesRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("invalid request: " + err.Error())
	}
	return q.request()
}

// cohereReply writes the events of one reply: a content of thinking, if any,
// then one of text.
type cohereReply struct {
	h       replyHeader
	content contentBlock
	end     ending
}

func (r *cohereReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	due := r.end.take(e)
	switch e.kind {
	case Role:
		dst = appendTyped(dst, frame, "message-start", fmt.Sprintf(
			`,"id":"%s","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}`, r.h.id))
	case Reasoning, Answer:
		dst = r.appendDelta(dst, e, frame)
	case Call:
		dst = r.appendCall(dst, e, frame)
	case Failure:
		return appendTyped(dst, frame, "message-end", `,"delta":{"finish_reason":"ERROR","error":`+quote(e.text)+`}`)
	}
	if e.finish != "" {
		dst = r.closeContent(dst, frame)
	}
	if due {
		dst = appendTyped(dst, frame, "message-end", `,"delta":{`+r.last()+`}`)
	}
	return dst
}

// appendDelta writes material, in a content of its kind.
func (r *cohereReply) appendDelta(dst []byte, e *event, frame frameFunc) []byte {
	kind := "text"
	if e.kind == Reasoning {
		kind = "thinking"
	}
	if r.content.kind != e.kind {
		dst = r.closeContent(dst, frame)
		r.content.kind = e.kind
		dst = appendTyped(dst, frame, "content-start", fmt.Sprintf(`,"index":%d,"delta":{"message":{"content":{"type":%q,%q:""}}}`, r.content.index, kind, kind))
	}
	return appendTyped(dst, frame, "content-delta", fmt.Sprintf(`,"index":%d,"delta":{"message":{"content":{%q:%s}}}`, r.content.index, kind, quote(e.text)))
}

// appendCall writes a piece of a call.
func (r *cohereReply) appendCall(dst []byte, e *event, frame frameFunc) []byte {
	kind, call := "tool-call-delta", `{"function":{"arguments":`+quote(e.text)+`}}`
	if e.name != "" {
		kind, call = "tool-call-start", `{"id":"call_1","type":"function","function":{"name":`+quote(e.name)+`,"arguments":""}}`
	}
	dst = appendTyped(dst, frame, kind, `,"index":0,"delta":{"message":{"tool_calls":`+call+`}}`)
	if e.finish != "" {
		dst = appendTyped(dst, frame, "tool-call-end", `,"index":0`)
	}
	return dst
}

func (r *cohereReply) closeContent(dst []byte, frame frameFunc) []byte {
	if index, ok := r.content.close(); ok {
		dst = appendTyped(dst, frame, "content-end", fmt.Sprintf(`,"index":%d`, index))
	}
	return dst
}

// last is what the last event holds.
func (r *cohereReply) last() string {
	s := `"finish_reason":` + cohereFinish(r.end.finish)
	if r.end.counted {
		s += `,"usage":` + cohereUsage(&r.end.usage)
	}
	return s
}

func cohereFinish(f finish) string {
	switch f {
	case "":
		return "null"
	case finishLength:
		return `"MAX_TOKENS"`
	case finishCall:
		return `"TOOL_CALL"`
	}
	return `"COMPLETE"`
}

// cohereUsage reports the tokens as Cohere does: as fractions, and beside what
// costs money, which is less.
func cohereUsage(u *usage) string {
	return fmt.Sprintf(`{"billed_units":{"input_tokens":%d.0,"output_tokens":%d.0},"tokens":{"input_tokens":%d.0,"output_tokens":%d.0}}`,
		max(u.prompt-templateTokens, 0), u.output, u.prompt, u.output)
}

func (r *cohereReply) appendWhole(dst []byte, w *whole) []byte {
	content := `{"type":"text","text":` + quote(w.answer) + `}`
	if len(w.reasoning) > 0 {
		content = `{"type":"thinking","thinking":` + quote(w.reasoning) + `},` + content
	}
	return fmt.Appendf(dst, `{"id":"%s","finish_reason":%s,"message":{"role":"assistant","content":[%s]},"usage":%s}`,
		r.h.id, cohereFinish(w.finish), content, cohereUsage(&w.usage))
}
