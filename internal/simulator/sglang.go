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

func parseSGLang(body []byte) (request, error) {
	var q struct {
		Text           string `json:"text"`
		SamplingParams struct {
			MaxNewTokens *int     `json:"max_new_tokens"`
			MinNewTokens int      `json:"min_new_tokens"`
			IgnoreEOS    bool     `json:"ignore_eos"`
			Temperature  *float64 `json:"temperature"`
		} `json:"sampling_params"`
		Stream          bool `json:"stream"`
		ReturnLogprob   bool `json:"return_logprob"`
		LogprobStartLen *int `json:"logprob_start_len"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("invalid request: " + err.Error())
	}
	p := q.SamplingParams
	a, err := native{
		prompt: q.Text, limit: p.MaxNewTokens, fallback: 128, minimum: p.MinNewTokens, ignoreEOS: p.IgnoreEOS,
		temperature: p.Temperature, sampledUnasked: true, stream: q.Stream,
	}.request()
	if err != nil || !q.ReturnLogprob {
		return a, err
	}
	if q.Stream {
		return request{}, badRequest("return_logprob is not simulated with stream")
	}
	a.logprobs = true
	if from := q.LogprobStartLen; from != nil && *from >= 0 { // those of the prompt only when asked
		a.echo, a.scoreFrom = true, *from
	}
	return a, nil
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
		r.buf = r.appendObject(r.buf[:0], &whole{answer: r.said.text, finish: e.finish, usage: r.said.usage})
		return frame(dst, "", r.buf)
	}
	return dst
}

func (r *sglangReply) appendWhole(dst []byte, w *whole) []byte { return r.appendObject(dst, w) }

func (r *sglangReply) appendObject(dst []byte, w *whole) []byte {
	reason, logprobs := "null", ""
	switch w.finish {
	case finishLength:
		reason = fmt.Sprintf(`{"type":"length","length":%d}`, w.usage.output)
	case finishStop:
		reason = `{"type":"stop","matched":2}`
	}
	if s := w.scores; s != nil {
		logprobs = fmt.Sprintf(`"input_token_logprobs":%s,"output_token_logprobs":%s,`, sglangLogprobs(s.prompt), sglangLogprobs(s.output))
	}
	return fmt.Appendf(dst, `{"text":%s,"meta_info":{"id":"%s","finish_reason":%s,"prompt_tokens":%d,%s"completion_tokens":%d,"cached_tokens":%d}}`,
		quote(w.answer), r.id, reason, w.usage.prompt, logprobs, w.usage.output, w.usage.cached)
}

// sglangLogprobs has a triple for each token: its log-probability, its id, and
// no text, which must be asked for.
func sglangLogprobs(tokens []tokenScore) []byte {
	triples := [][3]any{}
	for _, t := range tokens {
		triples = append(triples, [3]any{t.logprob, t.id, nil})
	}
	b, err := json.Marshal(triples)
	if err != nil {
		panic(err) // cannot happen: numbers
	}
	return b
}

func sglangFailure(message string) []byte {
	return fmt.Appendf(nil, `{"error":{"message":%s}}`, quote(message))
}
