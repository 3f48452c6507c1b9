package api

import (
	"bytes"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// anthropic is Anthropic Messages, POST /v1/messages. The request has no temperature: models
// refuse it from Claude Opus 4.7 on, and none of them was deterministic at 0.
func anthropic() Protocol {
	return Protocol{
		Name: "anthropic", Operation: OperationChat, Kind: Generation, Framing: stream.SSE,
		URL: versioned(messagesPath), Version: "2023-06-01", Models: openAIModels(),
		body: func(p Params) fields {
			system, turns := systemApart(p)
			return fields{
				{"model", p.Model},
				{"max_tokens", p.OutputTokens},
				{"system", given(system)},
				{"messages", turns},
				{"stream", true},
				{"tools", given(p.Tool.listed("input_schema"))},
				{"output_config", when(p.Schema != nil, fields{{"format", fields{{"type", "json_schema"}, {"schema", p.Schema}}}})},
			}
		},
		MaxTokens: "max_tokens", Tools: true, Structured: true,
		NewDecoder: func() Decoder { return &objects{reader: &anthropicReader{prompt: noPrompt}} },
	}
}

// anthropicReader reads the events of Messages by their type. It keeps the
// counts of the prompt, which later events repeat in part.
type anthropicReader struct {
	frame
	prompt [3]int // by promptParts
	// summarizes means that what comes as thinking may be a summary: Claude's from
	// version 4 on. Servers of other models stream the thinking itself.
	summarizes bool
}

// promptParts are the keys of the parts of the prompt that are counted apart: what neither came
// from the cache nor went into it, what did either.
var promptParts = [3]string{"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}

// noPrompt are the counts of a prompt before the first.
var noPrompt = [3]int{Unknown, Unknown, Unknown}

func (a *anthropicReader) read(event []byte, v *fastjson.Value, d *Delta) {
	switch string(eventType(v, event)) {
	case "message_start":
		a.prompt = noPrompt
		d.Model = nameIn(v.Get("message", "model"))
		a.summarizes = bytes.Contains(d.Model, []byte("claude"))
		// output_tokens is a placeholder here, 1 at Anthropic itself.
		a.readUsage(v.Get("message", "usage"), false, d)
	case "content_block_start":
		block := v.Get("content_block")
		readBlock(block, d)
		a.readCall(v.GetInt("index"), block, d)
	case "content_block_delta":
		readBlock(v.Get("delta"), d)
		a.addCall(d, v.GetInt("index"), nil, v.GetStringBytes("delta", "partial_json"))
	case "message_delta":
		d.Finish = finishReason(v.Get("delta", "stop_reason"))
		a.readUsage(v.Get("usage"), true, d)
	case "message_stop":
		d.Done = true
	}
	d.Summary = a.summarizes && len(d.Reasoning) > 0
}

// readBlock reads a content block or a delta of one. A signature of thinking is no token.
func readBlock(block *fastjson.Value, d *Delta) {
	d.Text = block.GetStringBytes("text")
	d.Reasoning = block.GetStringBytes("thinking")
	d.Tool = block.GetStringBytes("partial_json")
	if len(d.Tool) == 0 {
		d.Tool = block.GetStringBytes("name")
	}
}

// readCall reads a block that calls a function. Its input is empty at first, but for servers that stream none of it.
func (a *anthropicReader) readCall(index int, block *fastjson.Value, d *Delta) {
	if string(block.GetStringBytes("type")) != "tool_use" {
		return
	}
	var input []byte
	if v := block.Get("input"); block.GetObject("input").Len() > 0 {
		input = wholeArguments(v)
	}
	a.addCall(d, index, block.GetStringBytes("name"), input)
}

// readUsage reads the token counts, which are totals of the reply so far.
// input_tokens leaves out the cached part of the prompt.
func (a *anthropicReader) readUsage(usage *fastjson.Value, withOutput bool, d *Delta) {
	if usage == nil || usage.Type() != fastjson.TypeObject {
		return
	}
	for i, key := range promptParts {
		a.prompt[i] = known(count(usage.Get(key)), a.prompt[i])
	}
	a.usage = noUsage()
	a.usage.Prompt, a.usage.Cached = promptOf(a.prompt[0], a.prompt[1:]...), a.prompt[1]
	if withOutput {
		a.usage.Output = count(usage.Get("output_tokens"))
		a.usage.Reasoning = count(usage.Get("output_tokens_details", "thinking_tokens"))
	}
	d.Usage = &a.usage
}
