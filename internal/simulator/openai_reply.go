package simulator

import (
	"encoding/json"
	"slices"
	"strconv"
)

// openaiReply writes the chunks of both OpenAI protocols. What is the same in
// every chunk of a reply is made once.
type openaiReply struct {
	chat  bool
	chunk []byte // a chunk up to its choices
	whole []byte // a whole reply up to its choices
	buf   []byte // reused
}

func newOpenAIReply(h replyHeader, chat bool) *openaiReply {
	id, chunkObject, wholeObject := "cmpl-", "text_completion", "text_completion"
	if chat {
		id, chunkObject, wholeObject = "chatcmpl-", "chat.completion.chunk", "chat.completion"
	}
	model, err := json.Marshal(h.model)
	if err != nil {
		panic(err) // cannot happen: a string
	}
	head := func(object string) []byte {
		b := append([]byte(`{"id":"`), id+h.id+`","object":"`+object+`","created":`...)
		b = strconv.AppendInt(b, h.created, 10)
		b = append(b, `,"model":`...)
		b = append(b, model...)
		if h.fingerprint != "" {
			b = append(b, `,"system_fingerprint":"`+h.fingerprint+`"`...)
		}
		return append(b, `,"choices":[`...)
	}
	return &openaiReply{chat: chat, chunk: head(chunkObject), whole: head(wholeObject)}
}

func (r *openaiReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	if r.buf = r.appendPayload(r.buf[:0], e); len(r.buf) == 0 {
		return dst
	}
	return frame(dst, "", r.buf)
}

func (r *openaiReply) appendPayload(dst []byte, e *event) []byte {
	switch e.kind {
	case Done:
		return append(dst, "[DONE]"...)
	case Role:
		if !r.chat {
			return dst // there are no roles
		}
	case Failure:
		return append(dst, openaiFailure(refusal{500, "InternalServerError", string(e.text)})...)
	case Usage:
		dst = append(append(dst, r.chunk...), ']')
		return append(r.appendUsage(dst, e.usage), '}')
	}
	dst = append(append(dst, r.chunk...), `{"index":0,`...)
	switch {
	case !r.chat:
		dst = append(appendText(append(dst, `"text":"`...), e.text), '"')
	case e.kind == Role:
		return append(dst, `"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`...)
	case e.kind == Finish:
		dst = append(dst, `"delta":{}`...)
	case e.kind == Reasoning:
		dst = append(appendText(append(dst, `"delta":{"reasoning":"`...), e.text), `"}`...)
	default:
		dst = append(appendText(append(dst, `"delta":{"content":"`...), e.text), `"}`...)
	}
	dst = append(dst, `,"logprobs":null`...)
	dst = append(appendFinish(dst, e.finish), `}]`...)
	return append(r.appendUsage(dst, e.usage), '}')
}

func (r *openaiReply) appendWhole(dst []byte, w *whole) []byte {
	dst = append(append(dst, r.whole...), `{"index":0,`...)
	if r.chat {
		dst = append(appendText(append(dst, `"message":{"role":"assistant","content":"`...), w.answer), '"')
		if len(w.reasoning) > 0 {
			dst = append(appendText(append(dst, `,"reasoning":"`...), w.reasoning), '"')
		}
		dst = append(dst, '}')
	} else {
		dst = append(dst, `"text":"`...)
		if w.scores != nil {
			dst = appendText(dst, w.scores.text)
		}
		dst = append(appendText(dst, w.answer), '"')
	}
	dst = append(append(dst, `,"logprobs":`...), openaiLogprobs(w.scores)...)
	dst = append(appendFinish(dst, w.finish), `}]`...)
	return append(r.appendUsage(dst, &w.usage), '}')
}

// openaiLogprobs is the member logprobs of a completion.
func openaiLogprobs(s *scores) []byte {
	if s == nil {
		return []byte("null")
	}
	var l struct {
		TextOffset    []int                `json:"text_offset"`
		TokenLogprobs []*float64           `json:"token_logprobs"`
		Tokens        []string             `json:"tokens"`
		TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	}
	for _, t := range slices.Concat(s.prompt, s.output) {
		l.TextOffset = append(l.TextOffset, t.offset)
		l.TokenLogprobs = append(l.TokenLogprobs, t.logprob)
		l.Tokens = append(l.Tokens, t.text)
		var top map[string]float64
		if t.logprob != nil {
			top = map[string]float64{t.text: *t.logprob}
		}
		l.TopLogprobs = append(l.TopLogprobs, top)
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // cannot happen: numbers and texts
	}
	return b
}

func appendFinish(dst []byte, f finish) []byte {
	if f == "" {
		return append(dst, `,"finish_reason":null`...)
	}
	dst = append(append(dst, `,"finish_reason":"`...), f...)
	return append(dst, `","stop_reason":null`...)
}

// appendUsage appends a usage member; u may be nil.
func (r *openaiReply) appendUsage(dst []byte, u *usage) []byte {
	if u == nil {
		return dst
	}
	dst = strconv.AppendInt(append(dst, `,"usage":{"prompt_tokens":`...), int64(u.prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(u.prompt)+int64(u.output), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(u.output), 10)
	if u.cached >= 0 {
		dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), int64(u.cached), 10)
		dst = append(dst, '}')
	}
	if u.reasoning >= 0 {
		dst = strconv.AppendInt(append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...), int64(u.reasoning), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
