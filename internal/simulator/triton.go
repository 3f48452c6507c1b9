package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// tritonStream is Triton's POST /v2/models/{model}/generate_stream in front of
// vLLM, with all the outputs that a request may ask for.
func tritonStream() protocol {
	return protocol{
		path:  "/v2/models/{model}/generate_stream",
		parse: parseTriton,
		address: func(r *http.Request, a *request) error {
			a.model = r.PathValue("model")
			return nil
		},
		reply:   func(h replyHeader) reply { return &tritonReply{model: quote(h.model)} },
		failure: func(r refusal) []byte { return tritonFailure(r.message) },
	}
}

func parseTriton(body []byte) (request, error) {
	var q struct {
		TextInput  string `json:"text_input"`
		Parameters struct {
			MaxTokens   *int     `json:"max_tokens"`
			MinTokens   int      `json:"min_tokens"`
			IgnoreEOS   bool     `json:"ignore_eos"`
			Temperature *float64 `json:"temperature"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("failed to parse the request JSON buffer: " + err.Error())
	}
	p := q.Parameters
	return native{
		prompt: q.TextInput, limit: p.MaxTokens, fallback: 16, minimum: p.MinTokens, ignoreEOS: p.IgnoreEOS,
		temperature: p.Temperature, sampledUnasked: true, stream: true,
	}.request()
}

// tritonReply writes the responses of one reply.
type tritonReply struct {
	model string // in JSON
	said  material
	buf   []byte // reused
}

func (r *tritonReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	r.said.take(e)
	switch e.kind {
	case Failure:
		return frame(dst, "", tritonFailure(string(e.text)))
	case Answer, Finish:
		r.buf = r.appendResponse(r.buf[:0], e.text, e.finish, r.said.usage.prompt, e.tokens)
		return frame(dst, "", r.buf)
	}
	return dst
}

func (r *tritonReply) appendWhole(dst []byte, w *whole) []byte {
	return r.appendResponse(dst, w.answer, w.finish, w.usage.prompt, w.usage.output)
}

// appendResponse appends one response; its tokens are its own, and no reason
// to finish is Python's None.
func (r *tritonReply) appendResponse(dst, text []byte, f finish, prompt, tokens int) []byte {
	if f == "" {
		f = "None"
	}
	return fmt.Appendf(dst, `{"finish_reason":"%s","model_name":%s,"model_version":"1","num_input_tokens":%d,"num_output_tokens":%d,"text_output":%s}`,
		f, r.model, prompt, tokens, quote(text))
}

func tritonFailure(message string) []byte { return fmt.Appendf(nil, `{"error":%s}`, quote(message)) }
