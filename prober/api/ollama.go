package api

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	ollamaChatPath     = "/api/chat"
	ollamaGeneratePath = "/api/generate"
	ollamaTagsPath     = "/api/tags"
)

// ollamaChat is Ollama's own POST /api/chat.
func ollamaChat() Protocol {
	p := ollama(ollamaChatPath)
	p.Name, p.Operation = "ollama", OperationChat
	p.Body = func(p Params) ([]byte, error) {
		r := newOllamaRequest(p)
		r.Messages, r.Tools = conversation(p), openAITools(p.Tool)
		return encodeBody(p, r)
	}
	p.NewDecoder = func() Decoder { return &ollamaDecoder{material: (*ollamaDecoder).chatMaterial} }
	p.Doc.Title = "Ollama chat"
	p.Doc.FirstToken = "`message` with content, thinking or a tool call"
	p.Tools, p.Doc.Tools = true, "`tools`; `message.tool_calls`, each whole"
	return p
}

// ollamaGenerate is Ollama's own POST /api/generate: one prompt, which the
// server puts into the model's template.
func ollamaGenerate() Protocol {
	p := ollama(ollamaGeneratePath)
	p.Name, p.Operation = "ollama-generate", OperationCompletion
	p.Body = func(p Params) ([]byte, error) {
		r := newOllamaRequest(p)
		system, turns := systemApart(p)
		r.System, r.Prompt = system, joined(turns)
		return encodeBody(p, r)
	}
	p.NewDecoder = func() Decoder { return &ollamaDecoder{material: (*ollamaDecoder).generateMaterial} }
	p.Doc.Title = "Ollama generate"
	p.Doc.Conversation = docOneText + "; what the system says in `system`"
	p.Doc.FirstToken = "`response` or `thinking` with content"
	return p
}

// ollama is what both protocols share.
func ollama(path string) Protocol {
	return Protocol{
		Engine: Ollama,
		Kind:   Generation, Framing: stream.NDJSON, MediaTypes: []string{ndjsonType},
		URL:    func(base *url.URL, _ string) *url.URL { return underOllama(base, path) },
		Header: acceptHeader(ndjsonType), MaxTokens: "options.num_predict", Structured: true,
		// Ollama before May 2024 sends no done_reason, and neither do emulations that
		// follow the examples of its documentation.
		FinishOptional: true,
		Models: &ModelList{
			URL:   func(base *url.URL) *url.URL { return underOllama(base, ollamaTagsPath) },
			Parse: parseOllamaModels,
		},
		Doc: Doc{
			Servers: "Ollama", Auth: "`http.authorization.credentials`; none on a server of one's own",
			End:          "`done: true`",
			Usage:        "`prompt_eval_count`, `eval_count`; not of a reply with thoughts and a `format`, of which they count a part",
			ServerTimes:  "`prompt_eval_duration`, `eval_duration`",
			Length:       "a cap only",
			Conversation: docMessages,
			Model:        "`model`",
			Logprobs:     "`logprobs[0].top_logprobs`, from version 0.12.11",
			Structured:   "`format`",
		},
	}
}

// underOllama takes a base that ends in one of Ollama's paths, in its /api, or
// in the /v1 of its other protocols.
func underOllama(base *url.URL, path string) *url.URL {
	return fixed(base, path, ollamaChatPath, ollamaGeneratePath, ollamaTagsPath, "/api/embed", "/api", "/v1")
}

// ollamaRequest is the body of both protocols: chat has Messages, generate has
// System and Prompt.
type ollamaRequest struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages,omitempty"`
	System   string        `json:"system,omitempty"`
	Prompt   string        `json:"prompt,omitempty"`
	Stream   bool          `json:"stream"`
	Options  ollamaOptions `json:"options"`
	// Ollama before 0.12.11 ignores these.
	Logprobs    bool `json:"logprobs,omitempty"`
	TopLogprobs int  `json:"top_logprobs,omitempty"`

	Tools  []openAITool    `json:"tools,omitempty"`
	Format json.RawMessage `json:"format,omitempty"`
}

type ollamaOptions struct {
	NumPredict  int     `json:"num_predict"`
	Temperature float64 `json:"temperature"`
}

func newOllamaRequest(p Params) ollamaRequest {
	return ollamaRequest{
		Model: p.Model, Stream: true, Options: ollamaOptions{NumPredict: p.OutputTokens},
		Logprobs: p.TopLogprobs > 0, TopLogprobs: p.TopLogprobs, Format: p.Schema,
	}
}

// ollamaDecoder decodes the objects of both protocols, which differ in where
// they keep their material.
type ollamaDecoder struct {
	material func(*ollamaDecoder, *fastjson.Value, *Delta)

	frame
	tool  []byte // what Delta.Tool points to
	model onceName

	called int // functions so far

	frames  int  // with material
	thought bool // one of them had reasoning
}

// Decode implements Decoder.
func (o *ollamaDecoder) Decode(event string, data []byte, d *Delta) error {
	object, err := openFrame(&o.parser, event, data, d)
	if object == nil {
		return err
	}
	d.Model = o.model.read(object, "model")
	o.material(o, object, d)
	d.Top = topIn(object.GetArray("logprobs", "0", "top_logprobs"), "token", "logprob")
	d.Done = object.GetBool("done")
	d.Finish = finishReason(object.Get("done_reason"))
	if d.HasToken() {
		o.frames++
		o.thought = o.thought || len(d.Reasoning) > 0
	}
	o.readUsage(object, d)
	return nil
}

func (o *ollamaDecoder) chatMaterial(object *fastjson.Value, d *Delta) {
	message := object.Get("message")
	d.Text = message.GetStringBytes("content")
	d.Reasoning = message.GetStringBytes("thinking")
	o.tool = o.tool[:0]
	for _, call := range message.GetArray("tool_calls") {
		o.tool = append(o.tool, call.GetStringBytes("function", "name")...)
		if arguments := call.Get("function", "arguments"); arguments != nil { // an object
			o.tool = arguments.MarshalTo(o.tool)
		}
		o.addCall(d, o.called, call.GetStringBytes("function", "name"), wholeArguments(call.Get("function", "arguments")))
		o.called++
	}
	d.Tool = o.tool
}

func (o *ollamaDecoder) generateMaterial(object *fastjson.Value, d *Delta) {
	d.Text = object.GetStringBytes("response")
	d.Reasoning = object.GetStringBytes("thinking")
}

// readUsage reads the counts and times of the last object. Ollama leaves out
// what is 0; since 0 tokens in 0 time say nothing, that stays absent. With a format,
// a model that thinks is asked twice: first without it, until it has thought, then with
// its thoughts in the prompt. The counts are of the second time, and so fewer than the
// objects: they are of no use.
func (o *ollamaDecoder) readUsage(object *fastjson.Value, d *Delta) {
	if n := count(object.Get("eval_count")); o.thought && n > 0 && n < o.frames {
		return
	}
	o.setUsage(d, Usage{
		Prompt: count(object.Get("prompt_eval_count")),
		Output: count(object.Get("eval_count")),
		Cached: Unknown, Reasoning: Unknown,
	})
	// What passes before the prompt is evaluated is load_duration: most of it
	// is the loading of a model that was not in memory, so it is no queue.
	o.setServer(d, ServerTimes{
		Queue:   -1,
		Prefill: duration(object.Get("prompt_eval_duration"), time.Nanosecond),
		Decode:  duration(object.Get("eval_duration"), time.Nanosecond),
	})
}

// parseOllamaModels reads the reply to GET /api/tags: what is installed, which
// includes models that cannot generate.
func parseOllamaModels(body []byte) ([]ModelInfo, error) {
	return parseModelList(body, "models", func(m *fastjson.Value) ModelInfo {
		return ModelInfo{ID: string(m.GetStringBytes("name")), MaxModelLen: Unknown}
	})
}

const ollamaEmbedPath = "/api/embed"

// ollamaEmbed is Ollama's native POST /api/embed.
func ollamaEmbed() Protocol {
	type request struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	return Protocol{
		Name: "ollama-embed", Engine: Ollama, Operation: OperationEmbeddings,
		Kind: Embedding, Framing: stream.Whole, MediaTypes: []string{jsonType},
		URL:    func(base *url.URL, _ string) *url.URL { return underOllama(base, ollamaEmbedPath) },
		Header: acceptHeader(jsonType),
		Models: &ModelList{
			URL:   func(base *url.URL) *url.URL { return underOllama(base, ollamaTagsPath) },
			Parse: parseOllamaModels,
		},
		Body: func(p Params) ([]byte, error) {
			return encodeInputs(p, request{Model: p.Model, Input: p.Inputs})
		},
		NewDecoder: func() Decoder { return new(embeddingDecoder) },
		Doc: Doc{
			Title: "Ollama embed", Servers: "Ollama",
			Auth: "`http.authorization.credentials` at the hosted service",
			End:  "the end of the body", Usage: "`prompt_eval_count`", ServerTimes: "`total_duration` without `load_duration`",
		},
	}
}

// ollamaEmbedTimes reads Ollama's own timing of an embedding, in nanoseconds.
// All but the loading of the model is Prefill. A duration of 0 is left out by
// the server.
func ollamaEmbedTimes(reply *fastjson.Value) ServerTimes {
	s := ServerTimes{Queue: -1, Prefill: -1, Decode: -1}
	total, load := duration(reply.Get("total_duration"), time.Nanosecond), max(0, duration(reply.Get("load_duration"), time.Nanosecond))
	if total >= load {
		s.Prefill = total - load
	}
	return s
}
