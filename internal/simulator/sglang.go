package simulator

import (
	"encoding/json"
	"fmt"
)

// sglangGenerate is SGLang's POST /generate: each event holds the whole text so
// far and the counts.
func sglangGenerate() protocol {
	return protocol{
		path:    "/generate",
		parse:   parseSGLang,
		reply:   func(h replyHeader) reply { return &sglangReply{id: h.id} },
		failure: func(r refusal) []byte { return sglangFailure(r.message) },
	}
}

func parseSGLang(body []byte) (ask, error) {
	var q struct {
		Text           string `json:"text"`
		SamplingParams struct {
			MaxNewTokens *int     `json:"max_new_tokens"`
			MinNewTokens int      `json:"min_new_tokens"`
			IgnoreEOS    bool     `json:"ignore_eos"`
			Temperature  *float64 `json:"temperature"`
		} `json:"sampling_params"`
		Stream bool `json:"stream"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return ask{}, badRequest("invalid request: " + err.Error())
	}
	p := q.SamplingParams
	return native{
		prompt: q.Text, limit: p.MaxNewTokens, fallback: 128, minimum: p.MinNewTokens, ignoreEOS: p.IgnoreEOS,
		temperature: p.Temperature, sampledUnasked: true, stream: q.Stream,
	}.ask()
}

// sglangReply writes the events of one reply.
type sglangReply struct {
	id   string
	said material
	buf  []byte // reused
}

func (r *sglangReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	r.said.take(e)
	switch e.kind {
	case Done:
		return frame(dst, "", []byte("[DONE]"))
	case Failure:
		return frame(dst, "", sglangFailure(string(e.text)))
	case Answer, Finish:
		r.buf = r.appendObject(r.buf[:0], r.said.text, e.finish, &r.said.usage)
		return frame(dst, "", r.buf)
	}
	return dst
}

func (r *sglangReply) appendWhole(dst []byte, w *whole) []byte {
	return r.appendObject(dst, w.answer, w.finish, &w.usage)
}

func (r *sglangReply) appendObject(dst, text []byte, f finish, u *usage) []byte {
	reason := "null"
	switch f {
	case finishLength:
		reason = fmt.Sprintf(`{"type":"length","length":%d}`, u.output)
	case finishStop:
		reason = `{"type":"stop","matched":2}`
	}
	return fmt.Appendf(dst, `{"text":"%s","meta_info":{"id":"%s","finish_reason":%s,"prompt_tokens":%d,"completion_tokens":%d,"cached_tokens":%d}}`,
		text, r.id, reason, u.prompt, u.output, u.cached)
}

func sglangFailure(message string) []byte {
	return fmt.Appendf(nil, `{"error":{"message":%s}}`, quote(message))
}
