package api

import (
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// ollamaChat is Ollama's own POST /api/chat.
func ollamaChat() Protocol {
	p := ollama("/api/chat")
	p.Name, p.Operation, p.Tools = "ollama", OperationChat, true
	p.body = func(p Params) fields {
		return ollamaBody(p, fields{{"messages", conversation(p)}}, openAITools(p.Tool))
	}
	return p
}

// ollamaGenerate is Ollama's own POST /api/generate: one prompt, which the server puts into the model's template.
func ollamaGenerate() Protocol {
	p := ollama("/api/generate")
	p.Name, p.Operation = "ollama-generate", OperationCompletion
	p.NewDecoder = func() Decoder { return &objects{reader: &ollamaReader{generates: true}} }
	p.body = func(p Params) fields {
		system, turns := systemApart(p)
		return ollamaBody(p, fields{{"system", given(system)}, {"prompt", given(joined(turns))}}, nil)
	}
	return p
}

// ollamaServer is a server whose URL may be that of its other protocols, too.
func ollamaServer() server {
	return server{"/api/chat", "/api/generate", "/api/tags", "/api/embed", "/api", "/v1"}
}

// ollama is what both protocols share.
func ollama(path string) Protocol {
	return Protocol{
		Engine: Ollama, Kind: Generation, Framing: stream.NDJSON,
		URL: ollamaServer().path(path), Models: ollamaServer().models("/api/tags", parseOllamaModels),
		MaxTokens: "options.num_predict", Structured: true,
		// Ollama before May 2024 sends no done_reason, and neither do emulations that
		// follow the examples of its documentation.
		FinishOptional: true,
		NewDecoder:     func() Decoder { return &objects{reader: new(ollamaReader)} },
	}
}

// ollamaBody is the body of both protocols. Ollama before 0.12.11 ignores what it says of log-probabilities.
func ollamaBody(p Params, asked fields, tools []fields) fields {
	return append(append(fields{{"model", p.Model}}, asked...), fields{
		{"stream", true},
		{"options", fields{{"num_predict", p.OutputTokens}, {"temperature", 0}}},
		{"logprobs", given(p.TopLogprobs > 0)},
		{"top_logprobs", given(p.TopLogprobs)},
		{"tools", given(tools)},
		{"format", given(p.Schema)},
	}...)
}

// ollamaReader reads the objects of both protocols, which differ in where they keep their material.
type ollamaReader struct {
	frame
	generates bool
	model     onceName
	called    int  // functions so far
	frames    int  // with material
	thought   bool // one of them had reasoning
}

func (o *ollamaReader) read(_ []byte, object *fastjson.Value, d *Delta) {
	d.Model = o.model.read(object, "model")
	o.readMaterial(object, d)
	d.Top = topIn(object.GetArray("logprobs", "0", "top_logprobs"), "token", "logprob")
	d.Done = object.GetBool("done")
	d.Finish = finishReason(object.Get("done_reason"))
	if d.HasToken() {
		o.frames++
		o.thought = o.thought || len(d.Reasoning) > 0
	}
	o.readCounts(object, d)
}

// readMaterial reads the message of a chat, or what is generated without one.
func (o *ollamaReader) readMaterial(object *fastjson.Value, d *Delta) {
	if o.generates {
		d.Text, d.Reasoning = object.GetStringBytes("response"), object.GetStringBytes("thinking")
		return
	}
	message := object.Get("message")
	d.Text, d.Reasoning = message.GetStringBytes("content"), message.GetStringBytes("thinking")
	for _, call := range message.GetArray("tool_calls") {
		name, arguments := call.GetStringBytes("function", "name"), wholeArguments(call.Get("function", "arguments"))
		d.Tool = append(append(d.Tool, name...), arguments...)
		o.addCall(d, o.called, name, arguments)
		o.called++
	}
}

// readCounts reads the counts and times of the last object, where what is 0 is left out and stays absent. With
// a format, a model that thinks is asked twice: until it has thought, then with its thoughts in the prompt.
// Counts of the second time, fewer than the objects, are of no use.
func (o *ollamaReader) readCounts(object *fastjson.Value, d *Delta) {
	if n := count(object.Get("eval_count")); o.thought && n > 0 && n < o.frames {
		return
	}
	o.setUsage(d, usageAt(object, "prompt_eval_count", "", "eval_count", ""))
	// What passes before the prompt is evaluated is load_duration: most of it
	// is the loading of a model that was not in memory, so it is no queue.
	o.setServer(d, ServerTimes{
		Queue:   -1,
		Prefill: duration(object.Get("prompt_eval_duration"), time.Nanosecond),
		Decode:  duration(object.Get("eval_duration"), time.Nanosecond),
	})
}

// parseOllamaModels reads the reply to GET /api/tags: what is installed, which includes models that cannot generate.
func parseOllamaModels(body []byte) ([]ModelInfo, error) {
	return parseModelList(body, "models", func(m *fastjson.Value) ModelInfo {
		return ModelInfo{ID: string(m.GetStringBytes("name")), MaxModelLen: Unknown}
	})
}

// ollamaEmbedTimes reads Ollama's own timing of an embedding: all but the loading of the model is Prefill. A
// duration of 0 is left out by the server.
func ollamaEmbedTimes(reply *fastjson.Value) ServerTimes {
	s := ServerTimes{Queue: -1, Prefill: -1, Decode: -1}
	total, load := duration(reply.Get("total_duration"), time.Nanosecond), max(0, duration(reply.Get("load_duration"), time.Nanosecond))
	if total >= load {
		s.Prefill = total - load
	}
	return s
}
