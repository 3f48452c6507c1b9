package simulator

import (
	"fmt"
	"slices"
	"strconv"
)

// The protocols of OpenAI as vLLM speaks them: of chat a role chunk with the first output, and the finish reason on the
// chunk of the last token. Completions have no template, no role chunk and no reasoning.
const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
)

func openaiFailure(r refusal) []byte {
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":%q,"param":null,"code":%d}}`, jsonOf(r.message), r.kind, r.status)
}

// openaiReply writes the chunks of both OpenAI protocols. What is the same in every chunk of a reply is made once.
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
	fingerprint := ""
	if h.Fingerprint != "" {
		fingerprint = `,"system_fingerprint":"` + h.Fingerprint + `"`
	}
	head := func(object string) []byte {
		return fmt.Appendf(nil, `{"id":"%s","object":"%s","created":%d,"model":%s%s,"choices":[`, id+h.ID, object, h.Created, h.Model, fingerprint)
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
	case e.kind == Call && e.name != "":
		dst = append(dst, `"delta":{"tool_calls":[{"id":"call_1","type":"function","index":0,"function":{"name":`+jsonOf(e.name)+`,"arguments":""}}]}`...)
	case e.kind == Call:
		dst = append(appendText(append(dst, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`...), e.text), `"}}]}`...)
	case e.kind == Reasoning:
		dst = append(appendText(append(dst, `"delta":{"reasoning":"`...), e.text), `"}`...)
	default:
		dst = append(appendText(append(dst, `"delta":{"content":"`...), e.text), `"}`...)
	}
	dst = append(append(dst, `,"logprobs":`...), r.topOf(e)...)
	dst = append(appendFinish(dst, e.finish), `}]`...)
	return append(r.appendUsage(dst, e.usage), '}')
}

// topOf is the member logprobs of a chunk: of chat a list, of completions an object by token.
func (r *openaiReply) topOf(e *event) string {
	if len(e.top) == 0 {
		return "null"
	}
	byToken := jsonMap{}
	var list []jsonMap
	for _, t := range e.top {
		byToken[t.Text] = *t.Logprob
		list = append(list, jsonMap{"token": t.Text, "logprob": *t.Logprob, "bytes": nil})
	}
	first := e.top[0]
	if r.chat {
		return jsonOf(jsonMap{"content": []jsonMap{{"token": first.Text, "logprob": *first.Logprob, "bytes": nil, "top_logprobs": list}}})
	}
	return jsonOf(jsonMap{"text_offset": []int{0}, "token_logprobs": []float64{*first.Logprob}, "tokens": []string{first.Text}, "top_logprobs": []jsonMap{byToken}})
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
func openaiLogprobs(s *scores) string {
	if s == nil {
		return "null"
	}
	var l struct {
		TextOffset    []int                `json:"text_offset"`
		TokenLogprobs []*float64           `json:"token_logprobs"`
		Tokens        []string             `json:"tokens"`
		TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	}
	for _, t := range slices.Concat(s.Prompt, s.Output) {
		l.TextOffset = append(l.TextOffset, t.offset)
		l.TokenLogprobs = append(l.TokenLogprobs, t.Logprob)
		l.Tokens = append(l.Tokens, t.Text)
		var top map[string]float64
		if t.Logprob != nil {
			top = map[string]float64{t.Text: *t.Logprob}
		}
		l.TopLogprobs = append(l.TopLogprobs, top)
	}
	return jsonOf(l)
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
	dst = strconv.AppendInt(append(dst, `,"usage":{"prompt_tokens":`...), int64(u.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(u.Total()), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(u.Output), 10)
	if u.Cached >= 0 {
		dst = fmt.Appendf(dst, `,"prompt_tokens_details":{"cached_tokens":%d}`, u.Cached)
	}
	if u.Reasoning >= 0 {
		dst = fmt.Appendf(dst, `,"completion_tokens_details":{"reasoning_tokens":%d}`, u.Reasoning)
	}
	return append(dst, '}')
}

// appendText appends a text inside of a string in JSON. What is no control character stays as it is, valid or not.
func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
