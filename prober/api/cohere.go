package api

import (
	"encoding/json"
	"net/url"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	cohereChatPath   = "/v2/chat"
	cohereModelsPath = "/v1/models"
)

// cohere is Cohere's chat, version 2, POST /v2/chat.
func cohere() Protocol {
	return Protocol{
		Name: "cohere", Hosted: true, Operation: OperationChat,
		Kind: Generation, Framing: stream.SSE, MediaTypes: []string{eventStreamType},
		URL:    func(base *url.URL, _ string) *url.URL { return cohereURL(base, cohereChatPath) },
		Header: eventStreamHeader(),
		Models: &ModelList{
			URL:   func(base *url.URL) *url.URL { return cohereURL(base, cohereModelsPath) },
			Parse: parseCohereModels,
		},
		Body: func(p Params) ([]byte, error) {
			return encodeBody(p, cohereRequest{
				Model: p.Model, Messages: conversation(p), MaxTokens: p.OutputTokens, Stream: true,
				Tools: openAITools(p.Tool), ResponseFormat: cohereFormatOf(p.Schema),
			})
		},
		MaxTokens: "max_tokens", Tools: true, Structured: true,
		NewDecoder: func() Decoder { return &cohereDecoder{} },
		Doc: Doc{
			Title: "Cohere Chat v2", Servers: "Cohere, vLLM (behind `/cohere`)",
			Auth:       "`http.authorization.credentials`",
			FirstToken: "`content-delta` with text or thinking, or a delta of a tool's plan or call", End: "`message-end`",
			Usage: "`message-end`, `usage.tokens`", Cached: "`usage.cached_tokens`", Reasoning: "`usage.tokens.reasoning_tokens`",
			Length:       "a cap",
			Conversation: docMessages,
			Tools:        "`tools`; `tool-call-start` and `tool-call-delta`", Structured: "`response_format` of type `json_object` with `json_schema`",
		},
	}
}

// cohereURL returns the URL of a path at Cohere, whose versions differ by
// path.
func cohereURL(base *url.URL, path string) *url.URL {
	return fixed(base, path, cohereChatPath, cohereModelsPath, "/v2", "/v1")
}

type cohereRequest struct {
	Model       string        `json:"model"`
	Messages    []chatMessage `json:"messages"`
	MaxTokens   int           `json:"max_tokens"`
	Temperature float64       `json:"temperature"`
	Stream      bool          `json:"stream"`

	Tools          []openAITool  `json:"tools,omitempty"`
	ResponseFormat *cohereFormat `json:"response_format,omitempty"`
}

type cohereFormat struct {
	Type       string          `json:"type"`
	JSONSchema json.RawMessage `json:"json_schema"`
}

// cohereFormatOf returns the response_format that asks for a schema; nil without.
func cohereFormatOf(schema json.RawMessage) *cohereFormat {
	if schema == nil {
		return nil
	}
	return &cohereFormat{"json_object", schema}
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

// cohereDecoder decodes the events of Cohere by their type.
type cohereDecoder struct {
	frame
	tool []byte
}

// Decode implements Decoder.
func (c *cohereDecoder) Decode(event string, data []byte, d *Delta) error {
	v, err := openFrame(&c.parser, event, data, d)
	if v == nil {
		return err
	}
	delta := v.Get("delta")
	switch string(eventType(v, event)) {
	case "content-start", "content-delta":
		content := delta.Get("message", "content")
		d.Text, d.Reasoning = content.GetStringBytes("text"), content.GetStringBytes("thinking")
	case "tool-plan-delta":
		d.Tool = delta.GetStringBytes("message", "tool_plan")
	case "tool-call-start", "tool-call-delta":
		function := delta.Get("message", "tool_calls", "function")
		c.tool = append(c.tool[:0], function.GetStringBytes("name")...)
		c.tool = append(c.tool, function.GetStringBytes("arguments")...)
		d.Tool = c.tool
		c.addCall(d, v.GetInt("index"), function.GetStringBytes("name"), function.GetStringBytes("arguments"))
	case "message-end":
		c.end(delta, d)
	}
	return nil
}

// end reads what the last event has of the whole reply. The billed units
// beside the tokens leave out what costs nothing.
func (c *cohereDecoder) end(delta *fastjson.Value, d *Delta) {
	d.Done = true
	d.Finish = finishReason(delta.Get("finish_reason"))
	if e := delta.Get("error"); isSet(e) {
		d.Err = readError(e, delta)
	} else if d.Finish == "error" && d.Err == nil {
		d.Err = &ServerError{Message: "finish reason ERROR"}
	}
	usage := delta.Get("usage")
	c.setUsage(d, Usage{
		Prompt:    count(usage.Get("tokens", "input_tokens")),
		Cached:    count(usage.Get("cached_tokens")),
		Output:    count(usage.Get("tokens", "output_tokens")),
		Reasoning: count(usage.Get("tokens", "reasoning_tokens")),
	})
}

// cohereEmbed is Cohere's POST /v2/embed.
func cohereEmbed() Protocol {
	type request struct {
		Model          string   `json:"model"`
		InputType      string   `json:"input_type"`
		Texts          []string `json:"texts"`
		EmbeddingTypes []string `json:"embedding_types"`
	}
	return Protocol{
		Name: "cohere-embed", Hosted: true, Operation: OperationEmbeddings,
		Kind: Embedding, Framing: stream.Whole, MediaTypes: []string{jsonType},
		URL: func(base *url.URL, _ string) *url.URL { return cohereURL(base, "/v2/embed") }, Header: acceptHeader(jsonType),
		Body: func(p Params) ([]byte, error) {
			return encodeInputs(p, request{Model: p.Model, InputType: "search_document", Texts: p.Inputs, EmbeddingTypes: []string{"float"}})
		},
		NewDecoder: func() Decoder { return new(embeddingDecoder) },
		Doc: Doc{
			Title: "Cohere Embed v2", Servers: "Cohere",
			Auth: "`http.authorization.credentials`",
			End:  "the end of the body", Usage: "`meta.tokens.input_tokens`, else `meta.billed_units.input_tokens`",
		},
	}
}
