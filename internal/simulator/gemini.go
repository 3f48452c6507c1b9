package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// geminiGenerate is POST /v1beta/models/MODEL:streamGenerateContent, and
// :generateContent. Gemini ends lines with CRLF and has no end marker.
func geminiGenerate() protocol {
	return protocol{
		path:    "/v1beta/models/{call...}",
		parse:   parseGemini,
		address: addressGemini,
		reply:   func(h replyHeader) reply { return &geminiReply{h: h} },
		failure: geminiFailure,
		frame:   sseFrame("data: ", "\r\n"),
	}
}

func parseGemini(body []byte) (request, error) {
	var q struct {
		Contents []struct {
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"contents"`
		GenerationConfig struct {
			MaxOutputTokens *int     `json:"maxOutputTokens"`
			Temperature     *float64 `json:"temperature"`
			ThinkingConfig  struct {
				ThinkingBudget *int `json:"thinkingBudget"`
			} `json:"thinkingConfig"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("Invalid JSON payload received. " + err.Error())
	}
	config := q.GenerationConfig
	budget := config.ThinkingConfig.ThinkingBudget
	c := conversation{limit: config.MaxOutputTokens, temperature: config.Temperature, noReasoning: budget != nil && *budget == 0}
	for _, content := range q.Contents {
		for _, part := range content.Parts {
			c.contents = append(c.contents, part.Text)
		}
	}
	a, err := c.request()
	a.continuousUsage = true
	return a, err
}

// addressGemini reads MODEL:METHOD.
func addressGemini(r *http.Request, a *request) error {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	a.model = model
	switch method {
	case "streamGenerateContent":
		a.stream = true
	case "generateContent":
		a.stream = false
	default:
		return refusal{http.StatusNotFound, "NotFoundError", "there is no method " + method}
	}
	return nil
}

func geminiFailure(r refusal) []byte {
	status := "INTERNAL"
	switch r.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		status = "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		status = "UNAUTHENTICATED"
	case http.StatusForbidden:
		status = "PERMISSION_DENIED"
	case http.StatusNotFound:
		status = "NOT_FOUND"
	case http.StatusTooManyRequests:
		status = "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		status = "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		status = "DEADLINE_EXCEEDED"
	}
	return fmt.Appendf(nil, `{"error":{"code":%d,"message":%s,"status":%q}}`, r.status, quote(r.message), status)
}

// geminiReply writes the chunks of one reply; the last has no text.
type geminiReply struct {
	h        replyHeader
	thoughts int
	call     toolCall
	end      ending
}

func (r *geminiReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	due := r.end.take(e)
	r.call.take(e)
	switch {
	case e.kind == Call && e.finish != "":
		return frame(dst, "", r.appendChunk(nil, `{"functionCall":{"name":`+quote(r.call.name)+`,"args":`+r.call.value()+`}}`, "", e.usage))
	case e.kind == Failure:
		return frame(dst, "", geminiFailure(refusal{status: 500, message: string(e.text)}))
	case e.kind == Reasoning:
		r.thoughts += e.tokens
		return frame(dst, "", r.appendChunk(nil, `{"text":`+quote(e.text)+`,"thought":true}`, "", e.usage))
	case e.kind == Answer:
		return frame(dst, "", r.appendChunk(nil, `{"text":`+quote(e.text)+`}`, "", e.usage))
	case due:
		var u *usage
		if r.end.counted {
			u = &r.end.usage
		}
		return frame(dst, "", r.appendChunk(nil, `{"text":""}`, r.end.finish, u))
	}
	return dst
}

// appendChunk appends a chunk of the given parts; u may be nil.
func (r *geminiReply) appendChunk(dst []byte, parts string, f finish, u *usage) []byte {
	dst = fmt.Appendf(dst, `{"candidates":[{"content":{"parts":[%s],"role":"model"}`, parts)
	switch f {
	case "":
	case finishLength:
		dst = append(dst, `,"finishReason":"MAX_TOKENS"`...)
	default:
		dst = append(dst, `,"finishReason":"STOP"`...)
	}
	dst = append(dst, `,"index":0}]`...)
	if u != nil {
		dst = r.appendUsage(dst, u)
	}
	return fmt.Appendf(dst, `,"modelVersion":%s,"responseId":"%s"}`, quote(r.h.model), r.h.id)
}

// appendUsage counts the thoughts apart from the candidates.
func (r *geminiReply) appendUsage(dst []byte, u *usage) []byte {
	thoughts := max(r.thoughts, u.reasoning)
	dst = fmt.Appendf(dst, `,"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d`, u.prompt, u.output-thoughts)
	if thoughts > 0 {
		dst = fmt.Appendf(dst, `,"thoughtsTokenCount":%d`, thoughts)
	}
	if u.cached > 0 {
		dst = fmt.Appendf(dst, `,"cachedContentTokenCount":%d`, u.cached)
	}
	return fmt.Appendf(dst, `,"totalTokenCount":%d}`, u.prompt+u.output)
}

func (r *geminiReply) appendWhole(dst []byte, w *whole) []byte {
	parts := `{"text":` + quote(w.answer) + `}`
	if len(w.reasoning) > 0 {
		parts = `{"text":` + quote(w.reasoning) + `,"thought":true},` + parts
	}
	return r.appendChunk(dst, parts, w.finish, &w.usage)
}

// geminiModels answers GET /v1beta/models.
func (s *Server) geminiModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"models": []map[string]any{{
			"name": "models/" + s.o.Model, "inputTokenLimit": s.o.ContextLength, "outputTokenLimit": s.o.ContextLength,
			"supportedGenerationMethods": []string{"generateContent"},
		}},
	})
}
