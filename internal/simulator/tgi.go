package simulator

import (
	"encoding/json"
	"fmt"
	"maps"
)

// tgiStream is POST /generate_stream of text-generation-inference: one event a
// token, the whole text and the counts on the last.
func tgiStream() protocol {
	return protocol{
		path:    "/generate_stream",
		parse:   func(body []byte) (request, error) { return parseTGI(body, true) },
		reply:   func(replyHeader) reply { return new(tgiReply) },
		failure: func(r refusal) []byte { return tgiFailure(r.message, "validation") },
		frame:   sseFrame("data:", "\n"),
	}
}

// tgiGenerate is POST /generate of text-generation-inference: one body. Other
// servers have that path too.
func tgiGenerate() protocol {
	p := tgiStream()
	p.path, p.engine = "/generate", "tgi"
	p.parse = func(body []byte) (request, error) { return parseTGI(body, false) }
	return p
}

func parseTGI(body []byte, stream bool) (request, error) {
	var q struct {
		Inputs     string `json:"inputs"`
		Parameters struct {
			MaxNewTokens *int     `json:"max_new_tokens"`
			DoSample     bool     `json:"do_sample"`
			Temperature  *float64 `json:"temperature"`
			Details      bool     `json:"details"`
			InputDetails bool     `json:"decoder_input_details"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("failed to parse the request: " + err.Error())
	}
	if t := q.Parameters.Temperature; t != nil && *t <= 0 {
		return request{}, badRequest("`temperature` must be strictly positive")
	}
	if stream && q.Parameters.InputDetails {
		return request{}, badRequest("`decoder_input_details` == true is not supported when streaming tokens")
	}
	a, err := native{
		prompt: q.Inputs, limit: q.Parameters.MaxNewTokens, fallback: 100,
		temperature: q.Parameters.Temperature, sampledUnasked: q.Parameters.DoSample, stream: stream,
	}.request()
	a.echo = q.Parameters.InputDetails
	a.logprobs = !stream && (q.Parameters.Details || a.echo)
	return a, err
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
		r.buf = fmt.Appendf(r.buf[:0], `{"index":%d,"token":{"id":%d,"text":%s,"logprob":-0.25,"special":false}`, r.said.tokens, r.said.tokens, quote(e.text))
	case Finish:
		r.buf = fmt.Appendf(r.buf[:0], `{"index":%d,"token":null`, r.said.tokens)
	default:
		return dst
	}
	if e.finish == "" {
		return frame(dst, "", append(r.buf, `,"generated_text":null,"details":null}`...))
	}
	r.buf = fmt.Appendf(r.buf, `,"generated_text":%s,"details":{"finish_reason":"%s","generated_tokens":%d,"seed":null,"input_length":%d}}`,
		quote(r.said.text), tgiReason(e.finish), r.said.usage.output, r.said.usage.prompt)
	return frame(dst, "", r.buf)
}

func (r *tgiReply) appendWhole(dst []byte, w *whole) []byte {
	details := ""
	if w.scores != nil {
		details = fmt.Sprintf(`,"details":{"finish_reason":"%s","generated_tokens":%d,"seed":null,"prefill":%s,"tokens":%s}`,
			tgiReason(w.finish), w.usage.output, tgiTokens(w.scores.prompt, nil), tgiTokens(w.scores.output, jsonMap{"special": false}))
	}
	return fmt.Appendf(dst, `{"generated_text":%s%s}`, quote(w.answer), details)
}

func tgiReason(f finish) finish {
	if f == finishStop {
		return "eos_token"
	}
	return f
}

// tgiTokens lists tokens, each with the given members too.
func tgiTokens(tokens []tokenScore, more jsonMap) []byte {
	list := []jsonMap{}
	for _, t := range tokens {
		token := jsonMap{"id": t.id, "text": t.text, "logprob": t.logprob}
		maps.Copy(token, more)
		list = append(list, token)
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // cannot happen: numbers and texts
	}
	return b
}

func tgiFailure(message, kind string) []byte {
	return fmt.Appendf(nil, `{"error":%s,"error_type":"%s"}`, quote(message), kind)
}
