package api

import (
	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// completions is the legacy OpenAI Completions, POST /v1/completions: no chat
// template and no parser of reasoning between the engine and the reply.
func completions() Protocol {
	return Protocol{
		Name: "openai-completions",
		Kind: Generation, Framing: stream.SSE, MediaTypes: []string{eventStreamType},
		URL: versioned(completionsPath), Header: eventStreamHeader(), Models: openAIModels(), Scoring: openAIScoring(),
		Body: func(p Params) ([]byte, error) {
			r := newOpenAIRequest(p)
			r.Prompt = oneText(p)
			return encodeBody(p, r)
		},
		MaxTokens:  "max_tokens",
		NewDecoder: func() Decoder { return &openAIDecoder{material: (*openAIDecoder).completionMaterial} },
		Doc: Doc{
			Title: "OpenAI Completions (legacy)", Servers: "vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, Triton",
			Auth:       "`http.authorization.credentials`",
			FirstToken: "`choices[0].text` with content", End: "`[DONE]`",
			Usage: "`usage`, asked by `stream_options.include_usage`", Cached: "as openai-chat",
			ServerTimes:  "as openai-chat",
			Length:       "exact on vLLM, SGLang, TensorRT-LLM and llama.cpp; a cap elsewhere",
			Conversation: docOneText,
			Model:        "`model`", Fingerprint: "as openai-chat", Scoring: docEcho,
		},
	}
}

// completionMaterial reads choices[].text.
func (o *openAIDecoder) completionMaterial(choice *fastjson.Value, d *Delta) {
	d.Text = choice.GetStringBytes("text")
}
