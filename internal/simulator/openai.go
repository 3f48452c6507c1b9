package simulator

import (
	"bytes"
	"fmt"
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

// openaiReply writes tokens by code, as that takes a tenth of the time, and all else by templates.
type openaiReply struct {
	templatedReply
	chat  bool
	chunk []byte // a chunk up to its choice, the same in each
	text  []byte // reused
}

func newOpenAIReply(p *protocol, h replyHeader, chat bool) *openaiReply {
	r := &openaiReply{templatedReply: templatedReply{p: p, data: part{replyHeader: h}}, chat: chat}
	var b bytes.Buffer
	execute(p.templates, "chunk", &b, &r.data)
	r.chunk = append(b.Bytes(), `{"index":0,`...)
	return r
}

func (r *openaiReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	open, end := `"text":"`, `","logprobs":null,"finish_reason":`
	switch {
	case len(e.top) > 0 || e.kind != Answer && e.kind != Reasoning:
		return r.templatedReply.appendEvent(dst, e, frame)
	case r.chat && e.kind == Reasoning:
		open, end = `"delta":{"reasoning":"`, `"},"logprobs":null,"finish_reason":`
	case r.chat:
		open, end = `"delta":{"content":"`, `"},"logprobs":null,"finish_reason":`
	}
	b := append(append(r.text[:0], r.chunk...), open...)
	b = append(appendText(b, e.text), end...)
	if e.finish == "" {
		b = append(b, `null}]`...)
	} else {
		b = append(append(append(b, '"'), e.finish...), `","stop_reason":null}]`...)
	}
	if u := e.usage; u != nil {
		b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":`...), int64(u.Prompt), 10)
		b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(u.Total()), 10)
		b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(u.Output), 10)
		if u.Cached >= 0 {
			b = fmt.Appendf(b, `,"prompt_tokens_details":{"cached_tokens":%d}`, u.Cached)
		}
		b = append(b, '}')
	}
	r.text = append(b, '}')
	return frame(dst, "", r.text)
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
