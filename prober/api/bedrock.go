package api

import (
	"bytes"
	"cmp"
	"net/url"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	conversePath   = "/converse-stream"
	bedrockModels  = "/model/"
	exceptionFrame = "exception:" // as package stream names frames
	errorFrame     = "error:"
)

// bedrock is ConverseStream of Amazon Bedrock, POST /model/{model}/converse-stream. The request has no temperature, as
// some of the models refuse it.
func bedrock() Protocol {
	return Protocol{
		Name: "bedrock", Hosted: true, Operation: OperationChat, Kind: Generation, Framing: stream.EventStream,
		URL:       bedrockURL,
		body:      bedrockBody,
		MaxTokens: "inferenceConfig.maxTokens", Tools: true, Structured: true,
		NewDecoder: func() Decoder { return &bedrockDecoder{objects{reader: new(bedrockReader)}} },
	}
}

func bedrockBody(p Params) fields {
	content := func(text string) []fields { return []fields{{{"text", text}}} }
	system, turns := systemApart(p)
	var messages []fields
	for _, m := range turns {
		messages = append(messages, fields{{"role", m.Role}, {"content", content(m.Content)}})
	}
	tool := cmp.Or(p.Tool, new(Tool))
	spec := fields{{"name", tool.Name}, {"description", tool.Description}, {"inputSchema", fields{{"json", tool.Parameters}}}}
	definition := fields{{"name", answerSchema}, {"schema", string(p.Schema)}}
	format := fields{{"type", "json_schema"}, {"structure", fields{{"jsonSchema", definition}}}}
	return fields{
		{"system", when(system != "", content(system))},
		{"messages", messages},
		{"inferenceConfig", fields{{"maxTokens", p.OutputTokens}}},
		{"toolConfig", when(p.Tool != nil, fields{{"tools", []fields{{{"toolSpec", spec}}}}})},
		{"outputConfig", when(p.Schema != nil, fields{{"textFormat", format}})},
	}
}

// bedrockURL puts the model into the path, escaped as the AWS SDKs do: names have colons and, being ARNs, slashes.
func bedrockURL(base *url.URL, model string) *url.URL {
	root := rootOf(base)
	if strings.HasSuffix(root, conversePath) {
		return WithPath(base, root)
	}
	escaped := strings.ReplaceAll(url.QueryEscape(model), "+", "%20")
	return WithPath(base, root+bedrockModels+escaped+conversePath)
}

// bedrockDecoder decodes the events of ConverseStream, and errors that are named by their event.
type bedrockDecoder struct{ objects }

func (b *bedrockDecoder) Decode(event, data []byte, d *Delta) error {
	for _, prefix := range []string{exceptionFrame, errorFrame} {
		if kind, ok := bytes.CutPrefix(event, []byte(prefix)); ok {
			*d = Delta{Tokens: Unknown, Err: bedrockError(kind, data)}
			return nil
		}
	}
	return b.objects.Decode(event, data, d)
}

type bedrockReader struct {
	frame
	stopped, counted bool // messageStop came, metadata did
}

// read implements reader. The usage comes after the stop reason, in the last event; some gateways send it before.
func (b *bedrockReader) read(event []byte, v *fastjson.Value, d *Delta) {
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
	b.counted = b.counted || string(event) == "metadata"
	d.Done = b.stopped && b.counted
}

// readUsage reads the token counts. inputTokens leaves out what was read from the cache and written to it.
func (b *bedrockReader) readUsage(usage *fastjson.Value, d *Delta) {
	read, written := count(usage.Get("cacheReadInputTokens")), count(usage.Get("cacheWriteInputTokens"))
	b.setUsage(d, Usage{
		Prompt: promptOf(count(usage.Get("inputTokens")), read, written), Cached: read,
		Output: count(usage.Get("outputTokens")), Reasoning: Unknown,
	})
}

// bedrockError reads an exception or error inside the stream.
func bedrockError(name, data []byte) *ServerError {
	e, kind := describeError(data), kept(name)
	e.Type = cmp.Or(kind, e.Type)
	e.Message = cmp.Or(e.Message, e.Type, "error in the stream")
	if e.Status == 0 {
		e.Status = namedStatus(kind)
	}
	return e
}
