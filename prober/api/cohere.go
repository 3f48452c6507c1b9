package api

import (
	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// cohereServer has versions that differ by path.
func cohereServer() server { return server{"/v2/chat", "/v1/models", "/v2", "/v1"} }

// cohere is Cohere's chat, version 2, POST /v2/chat.
func cohere() Protocol {
	return Protocol{
		Name: "cohere", Hosted: true, Operation: OperationChat, Kind: Generation, Framing: stream.SSE,
		URL: cohereServer().path("/v2/chat"), Models: cohereServer().models("/v1/models", parseCohereModels),
		body: func(p Params) fields {
			return fields{
				{"model", p.Model},
				{"messages", conversation(p)},
				{"max_tokens", p.OutputTokens},
				{"temperature", 0},
				{"stream", true},
				{"tools", given(openAITools(p.Tool))},
				{"response_format", when(p.Schema != nil, fields{{"type", "json_object"}, {"json_schema", p.Schema}})},
			}
		},
		MaxTokens: "max_tokens", Tools: true, Structured: true,
		NewDecoder: func() Decoder { return &objects{reader: new(cohereReader)} },
	}
}

// parseCohereModels reads the reply to GET /v1/models: those that chat. A
// server that speaks OpenAI's protocols too lists its models as they say.
func parseCohereModels(body []byte) ([]ModelInfo, error) {
	if models, err := ParseModels(body); err == nil {
		return models, nil
	}
	return parseModelList(body, "models", func(m *fastjson.Value) ModelInfo {
		if !hasText(m.GetArray("endpoints"), "chat") {
			return ModelInfo{}
		}
		return ModelInfo{ID: string(m.GetStringBytes("name")), MaxModelLen: count(m.Get("context_length"))}
	})
}

type cohereReader struct{ frame }

func (c *cohereReader) read(event []byte, v *fastjson.Value, d *Delta) {
	delta := v.Get("delta")
	switch string(eventType(v, event)) {
	case "content-start", "content-delta":
		content := delta.Get("message", "content")
		d.Text, d.Reasoning = content.GetStringBytes("text"), content.GetStringBytes("thinking")
	case "tool-plan-delta":
		d.Tool = delta.GetStringBytes("message", "tool_plan")
	case "tool-call-start", "tool-call-delta":
		function := delta.Get("message", "tool_calls", "function")
		name, arguments := function.GetStringBytes("name"), function.GetStringBytes("arguments")
		d.Tool = append(append(d.Tool, name...), arguments...)
		c.addCall(d, v.GetInt("index"), name, arguments)
	case "message-end":
		c.end(delta, d)
	}
}

// end reads what the last event has of the whole reply. The billed units
// beside the tokens leave out what costs nothing.
func (c *cohereReader) end(delta *fastjson.Value, d *Delta) {
	d.Done = true
	d.Finish = finishReason(delta.Get("finish_reason"))
	if e := delta.Get("error"); isSet(e) {
		d.Err = readError(e, delta)
	} else if d.Finish == "error" && d.Err == nil {
		d.Err = &ServerError{Message: "finish reason ERROR"}
	}
	c.setUsage(d, usageAt(delta.Get("usage"), "tokens.input_tokens", "cached_tokens", "tokens.output_tokens", "tokens.reasoning_tokens"))
}
