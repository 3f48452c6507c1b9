package api

import (
	"net/url"
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

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
