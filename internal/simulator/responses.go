package simulator

import (
	"encoding/json"
	"fmt"
)

// openaiResponses is POST /v1/responses.
func openaiResponses() protocol {
	return protocol{
		path:    "/v1/responses",
		parse:   parseResponses,
		reply:   func(h replyHeader) reply { return &responsesReply{h: h} },
		failure: openaiFailure,
	}
}

// responsesInput is the prompt, given as a string or as a list of messages.
type responsesInput []string

// UnmarshalJSON reads either form.
func (c *responsesInput) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = []string{text}
		return nil
	}
	var messages []struct {
		Content openaiContent `json:"content"`
	}
	if err := json.Unmarshal(data, &messages); err != nil {
		return fmt.Errorf("input is neither a string nor a list of messages: %w", err)
	}
	for _, m := range messages {
		*c = append(*c, string(m.Content))
	}
	return nil
}

func parseResponses(body []byte) (request, error) {
	var q struct {
		Model           string         `json:"model"`
		Input           responsesInput `json:"input"`
		MaxOutputTokens *int           `json:"max_output_tokens"`
		Temperature     *float64       `json:"temperature"`
		Stream          bool           `json:"stream"`
		Reasoning       struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("body is not a valid request: " + err.Error())
	}
	return conversation{
		model: q.Model, contents: q.Input, limit: q.MaxOutputTokens, stream: q.Stream,
		temperature: q.Temperature, noReasoning: q.Reasoning.Effort == "none",
	}.request()
}

// responsesReply writes the events of one response.
type responsesReply struct {
	h        replyHeader
	sequence int
	item     bool // the message is announced
	call     toolCall
	end      ending
}

func (r *responsesReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	due := r.end.take(e)
	r.call.take(e)
	add := func(name, members string) {
		dst = appendTyped(dst, frame, name, fmt.Sprintf(`%s,"sequence_number":%d`, members, r.sequence))
		r.sequence++
	}
	switch {
	case e.kind == Role:
		add("response.created", `,"response":`+r.response("in_progress", ""))
		add("response.in_progress", `,"response":`+r.response("in_progress", ""))
	case e.kind == Reasoning:
		add("response.reasoning_text.delta", r.place(0)+`,"delta":`+quote(e.text))
	case e.kind == Answer:
		if !r.item {
			r.item = true
			add("response.output_item.added", `,"output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}`)
			add("response.content_part.added", r.place(1)+`,"part":{"type":"output_text","text":"","annotations":[]}`)
		}
		add("response.output_text.delta", r.place(1)+`,"delta":`+quote(e.text))
	case e.kind == Call && e.name != "":
		add("response.output_item.added", `,"output_index":1,"item":`+r.callItem("in_progress", ""))
	case e.kind == Call:
		add("response.function_call_arguments.delta", `,"item_id":"fc_1","output_index":1,"delta":`+quote(e.text))
	case e.kind == Failure:
		add("error", `,"code":"server_error","message":`+quote(e.text)+`,"param":null`)
	case due:
		name := "completed"
		if r.end.finish == finishLength {
			name = "incomplete"
		}
		add("response."+name, `,"response":`+r.response(name, ""))
	}
	if e.kind == Call && e.finish != "" {
		whole := string(r.call.arguments)
		add("response.function_call_arguments.done", `,"item_id":"fc_1","output_index":1,"arguments":`+quote(whole))
		add("response.output_item.done", `,"output_index":1,"item":`+r.callItem("completed", whole))
	}
	return dst
}

// callItem is the item that a call is.
func (r *responsesReply) callItem(status, arguments string) string {
	return fmt.Sprintf(`{"id":"fc_1","type":"function_call","call_id":"call_1","status":%q,"name":%s,"arguments":%s}`, status, quote(r.call.name), quote(arguments))
}

func (r *responsesReply) place(output int) string {
	return fmt.Sprintf(`,"item_id":"msg_%d","output_index":%d,"content_index":0`, output, output)
}

// response is the object that the first and the last event hold.
func (r *responsesReply) response(status, output string) string {
	details, counts := "null", "null"
	if status == "incomplete" {
		details = `{"reason":"max_output_tokens"}`
	}
	if u := r.end.usage; r.end.counted {
		cached := ""
		if u.cached >= 0 {
			cached = fmt.Sprintf(`"input_tokens_details":{"cached_tokens":%d},`, u.cached)
		}
		counts = fmt.Sprintf(`{"input_tokens":%d,%s"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
			u.prompt, cached, u.output, max(u.reasoning, 0), u.prompt+u.output)
	}
	return fmt.Sprintf(`{"id":"resp_%s","object":"response","created_at":%d,"status":%q,"error":null,"incomplete_details":%s,"model":%s,"output":[%s],"store":false,"usage":%s}`,
		r.h.id, r.h.created, status, details, quote(r.h.model), output, counts)
}

func (r *responsesReply) appendWhole(dst []byte, w *whole) []byte {
	r.end = ending{usage: w.usage, counted: true}
	status := "completed"
	if w.finish == finishLength {
		status = "incomplete"
	}
	output := `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"text":` + quote(w.answer) + `}]}`
	if len(w.reasoning) > 0 {
		output = `{"id":"rs_0","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":` + quote(w.reasoning) + `}]},` + output
	}
	return append(dst, r.response(status, output)...)
}
