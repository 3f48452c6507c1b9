package simulator

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// ollamaChat is POST /api/chat.
func ollamaChat() protocol { return ollama("/api/chat", true) }

// ollamaGenerate is POST /api/generate.
func ollamaGenerate() protocol { return ollama("/api/generate", false) }

func ollama(path string, chat bool) protocol {
	return protocol{
		path:        path,
		parse:       func(body []byte) (request, error) { return parseOllama(body, chat) },
		reply:       func(h replyHeader) reply { return newOllamaReply(h, chat) },
		failure:     func(r refusal) []byte { return ollamaFailure(r.message) },
		contentType: "application/x-ndjson",
		frame:       ndjsonFrame,
	}
}

// ndjsonFrame writes one payload a line.
func ndjsonFrame(dst []byte, _ string, payload []byte) []byte {
	return append(append(dst, payload...), '\n')
}

type ollamaRequest struct {
	Model    string `json:"model"`
	Prompt   string `json:"prompt"`
	Messages []struct {
		Content string `json:"content"`
	} `json:"messages"`
	Stream  *bool           `json:"stream"`
	Think   json.RawMessage `json:"think"`
	Options struct {
		NumPredict  *int     `json:"num_predict"`
		Temperature *float64 `json:"temperature"`
	} `json:"options"`
}

// parseOllama reads either request. Without messages or prompt, Ollama would
// load the model and answer nothing; this server refuses.
func parseOllama(body []byte, chat bool) (request, error) {
	var q ollamaRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest(err.Error())
	}
	c := conversation{
		model: q.Model, limit: q.Options.NumPredict, stream: q.Stream == nil || *q.Stream,
		temperature: q.Options.Temperature, noReasoning: string(q.Think) == "false",
	}
	if c.limit != nil && *c.limit < 0 {
		c.limit = nil // no limit
	}
	for _, m := range q.Messages {
		c.contents = append(c.contents, m.Content)
	}
	if !chat {
		if q.Prompt == "" {
			return request{}, badRequest("prompt must not be empty")
		}
		c.contents = []string{q.Prompt}
	}
	return c.request()
}

// ollamaReply writes the objects of both protocols.
type ollamaReply struct {
	chat bool
	head string // an object up to its material
	buf  []byte // reused
	call toolCall
	end  ending
}

func newOllamaReply(h replyHeader, chat bool) *ollamaReply {
	created := time.Unix(h.created, 0).UTC().Format(time.RFC3339)
	return &ollamaReply{chat: chat, head: `{"model":` + quote(h.model) + `,"created_at":"` + created + `"`}
}

func (r *ollamaReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	due := r.end.take(e)
	r.call.take(e)
	switch {
	case e.kind == Call && e.finish != "":
		r.end.finish = finishStop
		r.buf = fmt.Appendf(append(r.buf[:0], r.head...), `,"message":{"role":"assistant","content":"","tool_calls":[{"function":{"index":0,"name":%s,"arguments":%s}}]},"done":false}`,
			quote(r.call.name), r.call.value())
	case e.kind == Failure:
		return frame(dst, "", ollamaFailure(string(e.text)))
	case due:
		r.buf = r.appendMaterial(append(r.buf[:0], r.head...), nil, nil)
		r.buf = r.appendEnd(r.buf)
	case e.kind == Reasoning:
		r.buf = append(r.appendMaterial(append(r.buf[:0], r.head...), nil, e.text), `,"done":false}`...)
	case e.kind == Answer:
		r.buf = append(r.appendMaterial(append(r.buf[:0], r.head...), e.text, nil), `,"done":false}`...)
	default:
		return dst
	}
	return frame(dst, "", r.buf)
}

func (r *ollamaReply) appendWhole(dst []byte, w *whole) []byte {
	r.end = ending{finish: w.finish, usage: w.usage, counted: true}
	return r.appendEnd(r.appendMaterial(append(dst, r.head...), w.answer, w.reasoning))
}

// appendMaterial appends the members that hold text and thoughts.
func (r *ollamaReply) appendMaterial(dst, text, thoughts []byte) []byte {
	if r.chat {
		dst = appendText(append(dst, `,"message":{"role":"assistant","content":"`...), text)
	} else {
		dst = appendText(append(dst, `,"response":"`...), text)
	}
	dst = append(dst, '"')
	if len(thoughts) > 0 {
		dst = append(appendText(append(dst, `,"thinking":"`...), thoughts), '"')
	}
	if r.chat {
		dst = append(dst, '}')
	}
	return dst
}

// appendEnd appends the members of the last object. Those that are 0 are left
// out; the wait for a slot counts as loading.
func (r *ollamaReply) appendEnd(dst []byte) []byte {
	dst = append(dst, `,"done":true`...)
	if r.end.finish != "" {
		dst = append(append(append(dst, `,"done_reason":"`...), r.end.finish...), '"')
	}
	if u := r.end.usage; r.end.counted {
		t := u.times
		for _, m := range []struct {
			name  string
			value int64
		}{
			{"total_duration", int64(t.queue + t.prefill + t.decode)},
			{"load_duration", int64(t.queue)},
			{"prompt_eval_count", int64(u.prompt)},
			{"prompt_eval_duration", int64(t.prefill)},
			{"eval_count", int64(u.output)},
			{"eval_duration", int64(t.decode)},
		} {
			if m.value != 0 {
				dst = strconv.AppendInt(append(dst, `,"`+m.name+`":`...), m.value, 10)
			}
		}
	}
	return append(dst, '}')
}

func ollamaFailure(message string) []byte { return fmt.Appendf(nil, `{"error":%s}`, quote(message)) }
