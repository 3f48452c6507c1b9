package api

import (
	"bytes"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// responses is OpenAI Responses, POST /v1/responses. It asks for a reply that the server does not
// keep, which it would by default; the token counts come unasked. Input is a text, or a list
// of messages without those of the system, which are the instructions.
func responses() Protocol {
	return Protocol{
		Name: "openai-responses", Operation: OperationChat, Kind: Generation, Framing: stream.SSE,
		URL: versioned(responsesPath), Models: openAIModels(),
		body: func(p Params) fields {
			asked := fields{{"input", p.Prompt}}
			if len(p.Messages) > 0 {
				system, turns := systemApart(p)
				asked = fields{{"instructions", given(system)}, {"input", turns}}
			}
			return append(append(fields{{"model", p.Model}}, asked...), fields{
				{"max_output_tokens", p.OutputTokens},
				{"temperature", 0},
				{"stream", true},
				{"store", false},
				{"tools", given(responsesTools(p.Tool))},
				{"text", when(p.Schema != nil, fields{{"format", append(fields{{"type", "json_schema"}}, namedSchema(p.Schema)...)}})},
			}...)
		},
		MaxTokens: "max_output_tokens", Tools: true, Structured: true,
		NewDecoder: func() Decoder { return &objects{reader: new(responsesReader)} },
	}
}

// responsesTools names a tool without a level between. Strict is true by default, which asks more of the schema.
func responsesTools(t *Tool) []fields {
	if t == nil {
		return nil
	}
	return []fields{append(append(fields{{"type", "function"}}, t.listed("parameters")[0]...), field{"strict", false})}
}

type responsesReader struct {
	frame
	streamed []int // the places of items of which deltas came
	any      bool  // material came
}

func (r *responsesReader) read(event []byte, v *fastjson.Value, d *Delta) {
	item, index := v.Get("item"), v.GetInt("output_index")
	switch kind := eventType(v, event); string(kind) {
	case "response.created":
		d.Model = nameIn(v.Get("response", "model"))
	case "response.output_item.added": // it is empty yet, but for the name of the tool that is called
		if isCall(item) {
			d.Tool = item.GetStringBytes("name")
			r.any = r.any || len(d.Tool) > 0
		}
		r.readCall(index, item, false, d)
	case "response.output_item.done":
		if item != nil && !slices.Contains(r.streamed, index) {
			r.readItems(index, []*fastjson.Value{item}, d)
		}
	case "response.completed", "response.incomplete":
		// vLLM also ends an incomplete answer with response.completed.
		if d.Finish = finishReason(v.Get("response", "incomplete_details", "reason")); d.Finish == "" {
			d.Finish = "stop"
			if string(kind) == "response.incomplete" {
				d.Finish = "other"
			}
		}
		r.end(v, d)
	case "response.failed":
		if d.Err = errorIn(v.Get("response")); d.Err == nil {
			d.Err = &ServerError{Message: "response failed"}
		}
		r.end(v, d)
	default:
		readDelta(kind, v, d)
		if string(kind) == "response.function_call_arguments.delta" {
			r.addCall(d, index, nil, d.Tool)
		}
		if d.HasToken() {
			r.stream(index)
		}
	}
}

// readCall reads an item that calls a function: its name, and its arguments where it comes whole.
func (r *responsesReader) readCall(index int, item *fastjson.Value, whole bool, d *Delta) {
	if string(item.GetStringBytes("type")) != "function_call" {
		return
	}
	var arguments []byte
	if whole {
		arguments = wholeArguments(item.Get("arguments"))
	}
	r.addCall(d, index, item.GetStringBytes("name"), arguments)
}

// readDelta reads an event of a part that is streamed. Every tool has events of its own for what the model writes for
// it (arguments, code, commands, a patch), and more tools come; what a tool itself returns is no string.
func readDelta(kind []byte, v *fastjson.Value, d *Delta) {
	name, ok := bytes.CutSuffix(kind, []byte(".delta"))
	if !ok {
		return
	}
	delta := v.GetStringBytes("delta")
	switch {
	case string(name) == "response.output_text":
		d.Text = delta
	case string(name) == "response.refusal":
		d.Refusal = delta
	case bytes.HasPrefix(name, []byte("response.reasoning")):
		d.Reasoning = delta
		d.Summary = bytes.HasPrefix(name, []byte("response.reasoning_summary"))
	case bytes.HasPrefix(name, []byte("response.")):
		d.Tool = delta
	}
}

// end reads what the last event has of the whole reply. llama.cpp adds its timings beside the response.
func (r *responsesReader) end(v *fastjson.Value, d *Delta) {
	d.Done = true
	d.Model = nameIn(v.Get("response", "model")) // llama.cpp has it here alone
	if !r.any {
		r.readItems(0, v.GetArray("response", "output"), d)
	}
	usage := v.Get("response", "usage")
	u := usageAt(usage, "input_tokens", "input_tokens_details.cached_tokens", "output_tokens", "output_tokens_details.reasoning_tokens")
	u.joinReasoning(count(usage.Get("total_tokens")), false)
	r.setUsage(d, u)
	r.setServer(d, llamaTimes(v.Get("timings")))
}

// maxStreamed bounds how many items are remembered as streamed: those in progress and a few before them.
const maxStreamed = 16

// stream notes that a delta of the item at a place came.
func (r *responsesReader) stream(index int) {
	r.any = true
	if !slices.Contains(r.streamed, index) {
		r.streamed = append(r.streamed[max(0, len(r.streamed)-maxStreamed+1):], index)
	}
}

// readItems reads whole items from a place on: some servers stream no deltas of a call of a tool,
// and OpenAI of some tools neither.
func (r *responsesReader) readItems(index int, items []*fastjson.Value, d *Delta) {
	for i, item := range items {
		switch string(item.GetStringBytes("type")) {
		case "message":
			d.addContent(item.Get("content"))
		case "reasoning":
			d.Summary = len(item.GetArray("summary")) > 0
			d.addReasoning(item.Get("content"), item.Get("summary"))
		default:
			if isCall(item) {
				d.addWholeCall(item)
			}
		}
		r.readCall(index+i, item, true, d)
	}
	r.any = r.any || d.HasToken()
}

// isCall reports whether an item is what the model wrote to call a tool, and not
// a message, reasoning, a list of tools or what a tool returned.
func isCall(item *fastjson.Value) bool {
	kind := item.GetStringBytes("type")
	return bytes.HasSuffix(kind, []byte("_call")) || string(kind) == "mcp_approval_request" || string(kind) == "program"
}

// addWholeCall adds what the model wrote for a tool, and the image that it made:
// which members have it depends on the tool.
func (d *Delta) addWholeCall(item *fastjson.Value) {
	for _, name := range [...]string{"name", "arguments", "input", "code", "action", "operation", "queries", "result"} {
		d.Tool = append(d.Tool, wholeArguments(item.Get(name))...)
	}
}
