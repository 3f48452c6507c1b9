package api

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	awsStreamType  = "application/vnd.amazon.eventstream"
	conversePath   = "/converse-stream"
	bedrockModels  = "/model/"
	exceptionFrame = "exception:" // as stream.EventStreamReader names frames
	errorFrame     = "error:"
)

// bedrock is ConverseStream of Amazon Bedrock, POST
// /model/{model}/converse-stream. The request has no temperature, as some of
// the models refuse it.
func bedrock() Protocol {
	type content struct {
		Text string `json:"text"`
	}
	type message struct {
		Role    string    `json:"role"`
		Content []content `json:"content"`
	}
	type inferenceConfig struct {
		MaxTokens int `json:"maxTokens"`
	}
	type request struct {
		System          []content       `json:"system,omitempty"`
		Messages        []message       `json:"messages"`
		InferenceConfig inferenceConfig `json:"inferenceConfig"`
		ToolConfig      any             `json:"toolConfig,omitempty"`
		OutputConfig    any             `json:"outputConfig,omitempty"`
	}
	return Protocol{
		Name: "bedrock", Hosted: true, Operation: OperationChat,
		Kind: Generation, Framing: stream.EventStream, MediaTypes: []string{awsStreamType},
		URL:    bedrockURL,
		Header: acceptHeader(awsStreamType),
		Body: func(p Params) ([]byte, error) {
			r := request{InferenceConfig: inferenceConfig{MaxTokens: p.OutputTokens}}
			system, turns := systemApart(p)
			if system != "" {
				r.System = []content{{system}}
			}
			for _, m := range turns {
				r.Messages = append(r.Messages, message{m.Role, []content{{m.Content}}})
			}
			if p.Tool != nil {
				r.ToolConfig = bedrockTools(p.Tool)
			}
			if p.Schema != nil {
				r.OutputConfig = bedrockFormat(p.Schema)
			}
			return encodeBody(p, r)
		},
		MaxTokens: "inferenceConfig.maxTokens", Tools: true, Structured: true,
		NewDecoder: func() Decoder { return new(bedrockDecoder) },
		Doc: Doc{
			Unmet: true,
			Title: "Amazon Bedrock ConverseStream", Servers: "Amazon Bedrock",
			Auth:       "`sigv4`, or a Bedrock API key in `http.authorization.credentials`",
			FirstToken: "`contentBlockDelta` with text, reasoning text or tool input", End: "`metadata` and `messageStop`",
			Usage: "`metadata.usage`", Cached: "`usage.cacheReadInputTokens`",
			Length:       "a cap",
			Conversation: "`messages`, what the system says in `system`",
			Tools:        "`toolConfig`; `toolUse` of a block", Structured: "`outputConfig.textFormat` of type `json_schema`",
		},
	}
}

// bedrockTools returns toolConfig of a request.
func bedrockTools(t *Tool) any {
	type schema struct {
		JSON json.RawMessage `json:"json"`
	}
	type spec struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		InputSchema schema `json:"inputSchema"`
	}
	type tool struct {
		ToolSpec spec `json:"toolSpec"`
	}
	type config struct {
		Tools []tool `json:"tools"`
	}
	return config{[]tool{{spec{t.Name, t.Description, schema{t.Parameters}}}}}
}

// bedrockFormat returns outputConfig of a request, where the schema is a text.
func bedrockFormat(schema json.RawMessage) any {
	type definition struct {
		Name   string `json:"name"`
		Schema string `json:"schema"`
	}
	type structure struct {
		JSONSchema definition `json:"jsonSchema"`
	}
	type format struct {
		Type      string    `json:"type"`
		Structure structure `json:"structure"`
	}
	type config struct {
		TextFormat format `json:"textFormat"`
	}
	return config{format{"json_schema", structure{definition{answerSchema, string(schema)}}}}
}

// bedrockURL puts the model into the path, escaped as the AWS SDKs do: names
// have colons and, being ARNs, slashes.
func bedrockURL(base *url.URL, model string) *url.URL {
	root := rootOf(base)
	if strings.HasSuffix(root, conversePath) {
		return withPath(base, root)
	}
	escaped := strings.ReplaceAll(url.QueryEscape(model), "+", "%20")
	return withPath(base, root+bedrockModels+escaped+conversePath)
}

// bedrockDecoder decodes the events of ConverseStream.
type bedrockDecoder struct {
	frame
	stopped, counted bool // messageStop came, metadata did
}

// Decode implements Decoder. The usage comes after the stop reason, in the
// last event; some gateways send it before.
func (b *bedrockDecoder) Decode(event string, data []byte, d *Delta) error {
	for _, prefix := range []string{exceptionFrame, errorFrame} {
		if kind, ok := strings.CutPrefix(event, prefix); ok {
			*d = Delta{Tokens: Unknown, Err: bedrockError(kind, data)}
			return nil
		}
	}
	v, err := openFrame(&b.parser, "", data, d)
	if v == nil {
		return err
	}
	delta := v.Get("delta")
	d.Text = delta.GetStringBytes("text")
	d.Reasoning = delta.GetStringBytes("reasoningContent", "text")
	d.Summary = len(d.Reasoning) > 0 // of Claude; the stream does not name the model
	d.Tool = delta.GetStringBytes("toolUse", "input")
	name := v.GetStringBytes("start", "toolUse", "name")
	b.addCall(d, v.GetInt("contentBlockIndex"), name, d.Tool)
	if len(name) > 0 {
		d.Tool = name
	}
	d.Finish = finishReason(v.Get("stopReason"))
	b.readUsage(v.Get("usage"), d)
	b.stopped = b.stopped || d.Finish != ""
	b.counted = b.counted || event == "metadata"
	d.Done = b.stopped && b.counted
	return nil
}

// readUsage reads the token counts. inputTokens leaves out what was read from
// the cache and written to it.
func (b *bedrockDecoder) readUsage(usage *fastjson.Value, d *Delta) {
	u := noUsage()
	u.Output = count(usage.Get("outputTokens"))
	u.Cached = count(usage.Get("cacheReadInputTokens"))
	if fresh := count(usage.Get("inputTokens")); fresh != Unknown {
		prompt := fresh + max(0, u.Cached) + max(0, count(usage.Get("cacheWriteInputTokens")))
		if prompt <= maxCount {
			u.Prompt = prompt
		}
	}
	b.setUsage(d, u)
}

// bedrockError reads an exception or error inside the stream.
func bedrockError(kind string, data []byte) *ServerError {
	e := describeError(data)
	if kind = boundedTo([]byte(kind), maxKept); kind != "" {
		e.Type = kind
	}
	if e.Message == "" {
		e.Message = cmp.Or(e.Type, "error in the stream")
	}
	if e.Status == 0 {
		e.Status = namedStatus(kind)
	}
	return e
}
