package api

import (
	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// chat is OpenAI Chat Completions, POST /v1/chat/completions.
func chat() Protocol {
	return Protocol{
		Name: "openai-chat",
		Kind: Generation, Framing: stream.SSE, MediaTypes: []string{eventStreamType},
		URL: versioned(chatPath), Header: eventStreamHeader(), Models: openAIModels(), Scoring: openAIScoring(),
		Body: func(p Params) ([]byte, error) {
			r := newOpenAIRequest(p)
			r.Messages = conversation(p)
			return encodeBody(p, r)
		},
		MaxTokens: "max_tokens",
		// Snowflake Cortex sends no finish_reason at all, OpenCode Zen sends null up
		// to the end for some models, and so do gateways in front of Gemini.
		FinishOptional: true,
		NewDecoder:     func() Decoder { return &openAIDecoder{material: (*openAIDecoder).chatMaterial} },
		Doc: Doc{
			Title: "OpenAI Chat Completions", Servers: "vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, TGI, Triton, LMDeploy, KServe, gateways and most hosted services",
			Auth:       "`http.authorization.credentials`; Azure `http.http_headers: {api-key: {secrets: [...]}}`",
			FirstToken: "`choices[0].delta` with content, reasoning, refusal or a tool call", End: "`[DONE]`",
			Usage: "`usage`, asked by `stream_options.include_usage`", Cached: "`prompt_tokens_details.cached_tokens`, DeepSeek's and llama.cpp's own fields",
			Reasoning: "`completion_tokens_details.reasoning_tokens`", ServerTimes: "vLLM `metrics`, llama.cpp `timings`, Groq `usage`",
			Length:       "exact on vLLM, SGLang, TensorRT-LLM and llama.cpp; a cap elsewhere",
			Conversation: docMessages,
			Model:        "`model`", Fingerprint: "`system_fingerprint`, where the server has one: OpenAI, Azure, Groq, DeepSeek, llama.cpp, TGI",
			Scoring: docEcho,
		},
	}
}

// chatMaterial reads choices[].delta. Servers name the reasoning differently,
// and one that sends both names sends the same text twice.
func (o *openAIDecoder) chatMaterial(choice *fastjson.Value, d *Delta) {
	delta := choice.Get("delta")
	if delta == nil {
		return
	}
	d.Text = delta.GetStringBytes("content")
	d.Reasoning = delta.GetStringBytes("reasoning")
	if len(d.Reasoning) == 0 {
		d.Reasoning = delta.GetStringBytes("reasoning_content")
	}
	d.Refusal = delta.GetStringBytes("refusal")
	o.tool = o.tool[:0]
	for _, call := range delta.GetArray("tool_calls") {
		o.appendCall(call.Get("function"))
	}
	o.appendCall(delta.Get("function_call"))
	d.Tool = o.tool
}

// appendCall adds the name and the arguments of a function call.
func (o *openAIDecoder) appendCall(function *fastjson.Value) {
	o.tool = append(o.tool, function.GetStringBytes("name")...)
	o.tool = append(o.tool, function.GetStringBytes("arguments")...)
}
