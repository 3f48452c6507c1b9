package simulator

import (
	"encoding/json"
	"fmt"
)

// tgiStream is POST /generate_stream of text-generation-inference: one event a
// token, the whole text and the counts on the last.
func tgiStream() protocol {
	return protocol{
		path:    "/generate_stream",
		parse:   parseTGI,
		reply:   func(replyHeader) reply { return new(tgiReply) },
		failure: func(r refusal) []byte { return tgiFailure(r.message, "validation") },
		frame:   sseFrame("data:", "\n"),
	}
}

func parseTGI(body []byte) (ask, error) {
	var q struct {
		Inputs     string `json:"inputs"`
		Parameters struct {
			MaxNewTokens *int     `json:"max_new_tokens"`
			DoSample     bool     `json:"do_sample"`
			Temperature  *float64 `json:"temperature"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return ask{}, badRequest("failed to parse the request: " + err.Error())
	}
	if t := q.Parameters.Temperature; t != nil && *t <= 0 {
		return ask{}, badRequest("`temperature` must be strictly positive")
	}
	return native{
		prompt: q.Inputs, limit: q.Parameters.MaxNewTokens, fallback: 100,
		temperature: q.Parameters.Temperature, sampledUnasked: q.Parameters.DoSample, stream: true,
	}.ask()
}

// tgiReply writes the events of one reply.
type tgiReply struct {
	said material
	buf  []byte // reused
}

func (r *tgiReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	r.said.take(e)
	switch e.kind {
	case Failure:
		return frame(dst, "", tgiFailure(string(e.text), "generation"))
	case Answer:
		r.buf = fmt.Appendf(r.buf[:0], `{"index":%d,"token":{"id":%d,"text":"%s","logprob":-0.25,"special":false}`, r.said.tokens, r.said.tokens, e.text)
	case Finish:
		r.buf = fmt.Appendf(r.buf[:0], `{"index":%d,"token":null`, r.said.tokens)
	default:
		return dst
	}
	if e.finish == "" {
		return frame(dst, "", append(r.buf, `,"generated_text":null,"details":null}`...))
	}
	reason := e.finish
	if reason == finishStop {
		reason = "eos_token"
	}
	r.buf = fmt.Appendf(r.buf, `,"generated_text":"%s","details":{"finish_reason":"%s","generated_tokens":%d,"seed":null,"input_length":%d}}`,
		r.said.text, reason, r.said.usage.output, r.said.usage.prompt)
	return frame(dst, "", r.buf)
}

func (r *tgiReply) appendWhole(dst []byte, w *whole) []byte {
	return fmt.Appendf(dst, `{"generated_text":"%s"}`, w.answer)
}

func tgiFailure(message, kind string) []byte {
	return fmt.Appendf(nil, `{"error":%s,"error_type":"%s"}`, quote(message), kind)
}
