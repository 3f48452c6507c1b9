package api

import (
	"slices"
	"strings"

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
			FirstToken: "`choices[0].delta` with content (a text or a list of parts), reasoning by any of its names, refusal or a tool call; encrypted reasoning is none", End: "`[DONE]`",
			Usage: "`usage`, asked by `stream_options.include_usage`", Cached: "`prompt_tokens_details.cached_tokens`, own fields of DeepSeek, Together, Moonshot and llama.cpp",
			Reasoning: "`completion_tokens_details.reasoning_tokens`; added to the output where `total_tokens` shows that it is counted apart (xAI)", ServerTimes: "vLLM `metrics`, llama.cpp `timings`, Groq `usage`",
			Length:       "exact on vLLM, SGLang, TensorRT-LLM and llama.cpp; a cap elsewhere",
			Conversation: docMessages,
			Model:        "`model`", Fingerprint: "`system_fingerprint`, where the server has one: OpenAI, Azure, Groq, DeepSeek, vLLM, llama.cpp, TGI",
			Scoring: docEcho,
		},
	}
}

// chatMaterial reads choices[].delta. Its content is a text, or a list of parts.
func (o *openAIDecoder) chatMaterial(choice *fastjson.Value, d *Delta) {
	delta := choice.Get("delta")
	if delta == nil {
		return
	}
	o.parts.reset()
	if content := delta.Get("content"); content != nil && content.Type() == fastjson.TypeString {
		d.Text = content.GetStringBytes()
	} else {
		o.parts.add(content)
		d.Text, d.Reasoning = o.parts.text, o.parts.reasoning
	}
	d.Refusal = delta.GetStringBytes("refusal")
	if len(d.Reasoning) == 0 {
		o.readReasoning(delta, d)
	}
	for _, call := range delta.GetArray("tool_calls") {
		o.parts.addCall(call.Get("function"))
		o.parts.addCall(call.Get("custom"))
	}
	o.parts.addCall(delta.Get("function_call"))
	d.Tool = o.parts.tool
}

// readReasoning reads the reasoning, which servers name differently. One that
// uses several names sends the same text in each.
func (o *openAIDecoder) readReasoning(delta *fastjson.Value, d *Delta) {
	for _, name := range [...]string{"reasoning", "reasoning_content", "reasoning_text"} { // the last at GitHub Copilot
		if d.Reasoning = delta.GetStringBytes(name); len(d.Reasoning) > 0 {
			break
		}
	}
	details := delta.GetArray("reasoning_details")
	if len(d.Reasoning) == 0 { // Snowflake has no other field
		for _, detail := range details {
			o.parts.reasoning = append(o.parts.reasoning, detail.GetStringBytes("text")...)
			o.parts.reasoning = append(o.parts.reasoning, detail.GetStringBytes("summary")...)
		}
		d.Reasoning = o.parts.reasoning
	}
	d.Summary = len(d.Reasoning) > 0 && slices.ContainsFunc(details, isSummary)
}

// isSummary reports whether a detail of reasoning is a summary: it says so, or
// it comes from a provider that streams nothing else.
func isSummary(detail *fastjson.Value) bool {
	if len(detail.GetStringBytes("summary")) > 0 {
		return true
	}
	format := string(detail.GetStringBytes("format"))
	for _, provider := range [...]string{"anthropic-claude-", "google-gemini-", "openai-responses-", "xai-responses-"} {
		if strings.HasPrefix(format, provider) {
			return true
		}
	}
	return false
}
