package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// bedrockConverse is ConverseStream of Amazon Bedrock, POST
// /model/MODEL/converse-stream.
func bedrockConverse() protocol {
	return protocol{
		path:  "/model/{model}/converse-stream",
		parse: parseConverse,
		address: func(r *http.Request, a *request) error {
			a.model, a.stream = r.PathValue("model"), true
			return nil
		},
		reply:       func(replyHeader) reply { return new(bedrockReply) },
		failure:     func(r refusal) []byte { return []byte(`{"message":` + quote(r.message) + `}`) },
		contentType: "application/vnd.amazon.eventstream",
		frame:       awsFrame,
	}
}

func parseConverse(body []byte) (request, error) {
	var q struct {
		Messages []struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"messages"`
		InferenceConfig struct {
			MaxTokens   *int     `json:"maxTokens"`
			Temperature *float64 `json:"temperature"`
		} `json:"inferenceConfig"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return request{}, badRequest("The request body is not valid: " + err.Error())
	}
	c := conversation{limit: q.InferenceConfig.MaxTokens, temperature: q.InferenceConfig.Temperature}
	for _, m := range q.Messages {
		for _, content := range m.Content {
			c.contents = append(c.contents, content.Text)
		}
	}
	return c.request()
}

// exceptionName begins the names of frames that are exceptions.
const exceptionName = "exception:"

// awsFrame frames as application/vnd.amazon.eventstream does, by the code of
// AWS and not by that of the probes.
func awsFrame(dst []byte, name string, payload []byte) []byte {
	kind, nameHeader := "event", ":event-type"
	if exception, ok := strings.CutPrefix(name, exceptionName); ok {
		kind, nameHeader, name = "exception", ":exception-type", exception
	}
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(nameHeader, eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	b := bytes.NewBuffer(dst)
	if err := eventstream.NewEncoder().Encode(b, m); err != nil {
		panic(err) // cannot happen: names are short, and a buffer takes all
	}
	return b.Bytes()
}

// bedrockReply writes the events of one message: a block of reasoning, if any,
// then a block of text. The usage comes after the stop reason.
type bedrockReply struct {
	block contentBlock
}

func (r *bedrockReply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	switch e.kind {
	case Role:
		dst = frame(dst, "messageStart", []byte(`{"role":"assistant"}`))
	case Reasoning, Answer:
		dst = r.appendDelta(dst, e, frame)
	case Call:
		dst = r.appendCall(dst, e, frame)
	case Failure:
		return frame(dst, exceptionName+"modelStreamErrorException", []byte(`{"message":`+quote(e.text)+`}`))
	case Usage:
		return frame(dst, "metadata", []byte(`{"usage":`+bedrockUsage(e.usage)+`}`))
	}
	if e.finish != "" {
		dst = r.closeBlock(dst, frame)
		dst = frame(dst, "messageStop", []byte(`{"stopReason":`+quote(bedrockStop(e.finish))+`}`))
	}
	return dst
}

// appendDelta writes material, in a block of its kind.
func (r *bedrockReply) appendDelta(dst []byte, e *event, frame frameFunc) []byte {
	if r.block.kind != e.kind {
		dst = r.closeBlock(dst, frame)
		r.block.kind = e.kind
	}
	delta := `{"text":` + quote(e.text) + `}`
	if e.kind == Reasoning {
		delta = `{"reasoningContent":` + delta + `}`
	}
	return frame(dst, "contentBlockDelta", fmt.Appendf(nil, `{"contentBlockIndex":%d,"delta":%s}`, r.block.index, delta))
}

// appendCall writes a piece of a call.
func (r *bedrockReply) appendCall(dst []byte, e *event, frame frameFunc) []byte {
	if e.name != "" {
		dst = r.closeBlock(dst, frame)
		r.block.kind = Call
		return frame(dst, "contentBlockStart", fmt.Appendf(nil, `{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":"tooluse_1","name":%s}}}`, r.block.index, quote(e.name)))
	}
	return frame(dst, "contentBlockDelta", fmt.Appendf(nil, `{"contentBlockIndex":%d,"delta":{"toolUse":{"input":%s}}}`, r.block.index, quote(e.text)))
}

func (r *bedrockReply) closeBlock(dst []byte, frame frameFunc) []byte {
	if index, ok := r.block.close(); ok {
		dst = frame(dst, "contentBlockStop", fmt.Appendf(nil, `{"contentBlockIndex":%d}`, index))
	}
	return dst
}

// appendWhole writes what Converse replies, which does not stream.
func (r *bedrockReply) appendWhole(dst []byte, w *whole) []byte {
	return fmt.Appendf(dst, `{"output":{"message":{"role":"assistant","content":[{"text":%s}]}},"stopReason":%s,"usage":%s}`,
		quote(w.answer), quote(bedrockStop(w.finish)), bedrockUsage(&w.usage))
}

func bedrockStop(f finish) string {
	switch f {
	case finishLength:
		return "max_tokens"
	case finishStop:
		return "end_turn"
	case finishCall:
		return "tool_use"
	}
	return string(f)
}

// bedrockUsage counts the prompt without what came from the cache.
func bedrockUsage(u *usage) string {
	fresh, cached := u.prompt, ""
	if u.cached >= 0 {
		fresh -= u.cached
		cached = fmt.Sprintf(`,"cacheReadInputTokens":%d,"cacheWriteInputTokens":0`, u.cached)
	}
	return fmt.Sprintf(`{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d%s}`, fresh, u.output, u.prompt+u.output, cached)
}
