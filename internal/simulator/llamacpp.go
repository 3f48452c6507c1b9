package simulator

import (
	"encoding/json"
	"fmt"
	"time"
)

// llamacppCompletion is the POST /completion of llama.cpp's server: events that
// count along, and one more that has the finish reason and the times.
func llamacppCompletion() protocol {
	return protocol{
		path:    "/completion",
		parse:   parseLlamacpp,
		reply:   func(h replyHeader) reply { return &llamacppReply{model: quote(h.model)} },
		failure: llamacppFailure,
	}
}

func parseLlamacpp(body []byte) (request, error) {
	var q struct {
		Prompt      string   `json:"prompt"`
		NPredict    *int     `json:"n_predict"`
		IgnoreEOS   bool     `json:"ignore_eos"`
		Temperature *float64 `json:"temperature"`
		Stream      bool     `json:"stream"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("invalid request: " + err.Error())
	}
	if q.NPredict != nil && *q.NPredict == -1 {
		q.NPredict = nil // no limit
	}
	a, err := native{
		prompt: q.Prompt, limit: q.NPredict, ignoreEOS: q.IgnoreEOS,
		temperature: q.Temperature, sampledUnasked: true, stream: q.Stream,
	}.request()
	a.usage = true
	return a, err
}

// llamacppReply writes the events of one reply.
type llamacppReply struct {
	model string // in JSON
	said  material
	end   ending
	buf   []byte // reused
}

func (r *llamacppReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	r.said.take(e)
	due := r.end.take(e)
	switch {
	case e.kind == Failure:
		return frame(dst, "", llamacppFailure(refusal{500, "server_error", string(e.text)}))
	case due:
		r.buf = r.appendEnd(r.buf[:0], nil, r.end.finish, &r.said.usage)
	case e.kind == Answer:
		r.buf = fmt.Appendf(r.buf[:0], `{"index":0,"content":%s,"tokens":[],"stop":false,"id_slot":-1,"tokens_predicted":%d,"tokens_evaluated":%d}`,
			quote(e.text), r.said.usage.output, r.said.usage.prompt)
	default:
		return dst
	}
	return frame(dst, "", r.buf)
}

func (r *llamacppReply) appendWhole(dst []byte, w *whole) []byte {
	return r.appendEnd(dst, w.answer, w.finish, &w.usage)
}

func (r *llamacppReply) appendEnd(dst, text []byte, f finish, u *usage) []byte {
	stop := map[finish]string{finishLength: "limit", finishStop: "eos", "": "none"}[f]
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	dst = fmt.Appendf(dst, `{"index":0,"content":%s,"tokens":[],"id_slot":0,"stop":true,"model":%s,"tokens_predicted":%d,"tokens_evaluated":%d,`,
		quote(text), r.model, u.output, u.prompt)
	dst = fmt.Appendf(dst, `"truncated":false,"stop_type":"%s","stopping_word":"","tokens_cached":%d,`, stop, u.prompt+u.output)
	return fmt.Appendf(dst, `"timings":{"cache_n":%d,"prompt_n":%d,"prompt_ms":%.3f,"predicted_n":%d,"predicted_ms":%.3f}}`,
		u.cached, u.prompt-u.cached, ms(u.times.prefill), u.output, ms(u.times.decode))
}

func llamacppFailure(r refusal) []byte {
	kind := r.kind
	if r.status == 400 {
		kind = "invalid_request_error"
	}
	return fmt.Appendf(nil, `{"error":{"code":%d,"message":%s,"type":"%s"}}`, r.status, quote(r.message), kind)
}
