package simulator

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// openaiChat is POST /v1/chat/completions as vLLM speaks it: a role chunk with
// the first output, the finish reason on the chunk of the last token.
func openaiChat() protocol {
	return protocol{
		path:    "/v1/chat/completions",
		parse:   parseChat,
		reply:   func(h replyHeader) reply { return newOpenAIReply(h, true) },
		failure: openaiFailure,
	}
}

// openaiCompletions is the legacy POST /v1/completions: no template, no role
// chunk, no reasoning.
func openaiCompletions() protocol {
	return protocol{
		path:    "/v1/completions",
		parse:   parseCompletions,
		reply:   func(h replyHeader) reply { return newOpenAIReply(h, false) },
		failure: openaiFailure,
	}
}

type openaiRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Content openaiContent `json:"content"`
	} `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Echo                bool            `json:"echo"`
	Logprobs            json.RawMessage `json:"logprobs"`
	TopLogprobs         int             `json:"top_logprobs"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	Temperature        *float64 `json:"temperature"`
	ReasoningEffort    string   `json:"reasoning_effort"`
	ChatTemplateKwargs struct {
		EnableThinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"`
}

// openaiContent is a message's text, given as a string or as a list of parts.
type openaiContent string

// UnmarshalJSON reads either form.
func (c *openaiContent) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = openaiContent(text)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return errors.New("content is neither a string nor a list of parts")
	}
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
		all.WriteByte(' ')
	}
	*c = openaiContent(all.String())
	return nil
}

func badRequest(message string) refusal {
	return refusal{status: http.StatusBadRequest, kind: "BadRequestError", message: message}
}

func parseChat(body []byte) (request, error) {
	q, a, err := parseOpenAI(body)
	if err != nil {
		return request{}, err
	}
	if len(q.Messages) == 0 {
		return request{}, badRequest("messages must not be empty")
	}
	contents := make([]string, len(q.Messages))
	for i, m := range q.Messages {
		contents[i] = string(m.Content)
	}
	a.text, a.prompt = contents[len(contents)-1], chatTokens(contents)
	if string(q.Logprobs) == "true" {
		a.top = q.TopLogprobs
	}
	thinking := q.ChatTemplateKwargs.EnableThinking
	a.reasoning = q.ReasoningEffort != "none" && (thinking == nil || *thinking)
	return a, nil
}

func parseCompletions(body []byte) (request, error) {
	q, a, err := parseOpenAI(body)
	if err != nil {
		return request{}, err
	}
	var prompt string
	if err := json.Unmarshal(q.Prompt, &prompt); err != nil {
		return request{}, badRequest("prompt must be a string")
	}
	if a.prompt = tokenize(nil, prompt); len(a.prompt) == 0 {
		return request{}, badRequest("prompt must not be empty")
	}
	if a.maxOutput == 0 {
		a.maxOutput = max(16, a.minOutput) // the protocol's default
	}
	a.text, a.echo = prompt, q.Echo
	a.logprobs = len(q.Logprobs) > 0 && string(q.Logprobs) != "null"
	switch {
	case q.Stream && a.echo:
		return request{}, badRequest("echo is not simulated with stream")
	case a.echo && !a.logprobs:
		return request{}, badRequest("echo is only simulated with logprobs")
	}
	if q.Stream && a.logprobs {
		_ = json.Unmarshal(q.Logprobs, &a.top) // else none
	}
	return a, nil
}

func parseOpenAI(body []byte) (openaiRequest, request, error) {
	var q openaiRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return q, request{}, badRequest("body is not a valid request: " + err.Error())
	}
	a := request{
		model: q.Model, minOutput: q.MinTokens, ignoreEOS: q.IgnoreEOS, stream: q.Stream,
		sampled: q.Temperature == nil || *q.Temperature > 0,
	}
	limit := q.MaxCompletionTokens // wins where both are given
	if limit == nil {
		limit = q.MaxTokens
	}
	if limit != nil {
		if a.maxOutput = *limit; a.maxOutput < 1 {
			return q, request{}, badRequest("max_tokens must be at least 1, got " + strconv.Itoa(*limit))
		}
		if a.minOutput > a.maxOutput {
			return q, request{}, badRequest("min_tokens must not be greater than max_tokens")
		}
	}
	if o := q.StreamOptions; o != nil {
		if !q.Stream {
			return q, request{}, badRequest("stream_options need stream to be true")
		}
		a.usage = o.IncludeUsage
		a.continuousUsage = o.IncludeUsage && o.ContinuousUsageStats
	}
	return q, a, nil
}

func openaiFailure(r refusal) []byte {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	body, err := json.Marshal(map[string]detail{"error": {Message: r.message, Type: r.kind, Code: r.status}})
	if err != nil {
		panic(err) // cannot happen: strings and an int
	}
	return body
}

// openaiReply writes the chunks of both OpenAI protocols. What is the same in
// every chunk of a reply is made once.
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
	model, err := json.Marshal(h.model)
	if err != nil {
		panic(err) // cannot happen: a string
	}
	head := func(object string) []byte {
		b := append([]byte(`{"id":"`), id+h.id+`","object":"`+object+`","created":`...)
		b = strconv.AppendInt(b, h.created, 10)
		b = append(b, `,"model":`...)
		b = append(b, model...)
		if h.fingerprint != "" {
			b = append(b, `,"system_fingerprint":"`+h.fingerprint+`"`...)
		}
		return append(b, `,"choices":[`...)
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
		dst = append(dst, `"delta":{"tool_calls":[{"id":"call_1","type":"function","index":0,"function":{"name":`+quote(e.name)+`,"arguments":""}}]}`...)
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

// topOf is the member logprobs of a chunk: of chat a list, of completions an object
// by token.
func (r *openaiReply) topOf(e *event) []byte {
	if len(e.top) == 0 {
		return []byte("null")
	}
	byToken := jsonMap{}
	var list []jsonMap
	for _, t := range e.top {
		byToken[t.text] = *t.logprob
		list = append(list, jsonMap{"token": t.text, "logprob": *t.logprob, "bytes": nil})
	}
	var logprobs jsonMap
	first := *e.top[0].logprob
	if r.chat {
		logprobs = jsonMap{"content": []jsonMap{{"token": e.top[0].text, "logprob": first, "bytes": nil, "top_logprobs": list}}}
	} else {
		logprobs = jsonMap{"text_offset": []int{0}, "token_logprobs": []float64{first}, "tokens": []string{e.top[0].text}, "top_logprobs": []jsonMap{byToken}}
	}
	b, err := json.Marshal(logprobs)
	if err != nil {
		panic(err) // cannot happen: numbers and texts
	}
	return b
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
func openaiLogprobs(s *scores) []byte {
	if s == nil {
		return []byte("null")
	}
	var l struct {
		TextOffset    []int                `json:"text_offset"`
		TokenLogprobs []*float64           `json:"token_logprobs"`
		Tokens        []string             `json:"tokens"`
		TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	}
	for _, t := range slices.Concat(s.prompt, s.output) {
		l.TextOffset = append(l.TextOffset, t.offset)
		l.TokenLogprobs = append(l.TokenLogprobs, t.logprob)
		l.Tokens = append(l.Tokens, t.text)
		var top map[string]float64
		if t.logprob != nil {
			top = map[string]float64{t.text: *t.logprob}
		}
		l.TopLogprobs = append(l.TopLogprobs, top)
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // cannot happen: numbers and texts
	}
	return b
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
	dst = strconv.AppendInt(append(dst, `,"usage":{"prompt_tokens":`...), int64(u.prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(u.prompt)+int64(u.output), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(u.output), 10)
	if u.cached >= 0 {
		dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), int64(u.cached), 10)
		dst = append(dst, '}')
	}
	if u.reasoning >= 0 {
		dst = strconv.AppendInt(append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...), int64(u.reasoning), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
