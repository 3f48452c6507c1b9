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
		Name: "openai-chat", Operation: OperationChat, Kind: Generation, Framing: stream.SSE,
		URL: versioned(chatPath), Models: openAIModels(), scoring: openAIScoring(),
		body: func(p Params) fields {
			return append(openAIBody(p, field{"messages", conversation(p)}), fields{
				{"logprobs", given(p.TopLogprobs > 0)},
				{"top_logprobs", given(p.TopLogprobs)},
				{"tools", given(openAITools(p.Tool))},
				{"response_format", when(p.Schema != nil, fields{{"type", "json_schema"}, {"json_schema", namedSchema(p.Schema)}})},
			}...)
		},
		MaxTokens: "max_tokens", Tools: true, Structured: true,
		// Snowflake Cortex sends no finish_reason at all, OpenCode Zen sends null up
		// to the end for some models, and so do gateways in front of Gemini.
		FinishOptional: true,
		NewDecoder:     func() Decoder { return &objects{reader: new(openAIReader)} },
	}
}

// completions is the legacy OpenAI Completions, POST /v1/completions: no chat
// template and no parser of reasoning between the engine and the reply.
func completions() Protocol {
	return Protocol{
		Name: "openai-completions", Operation: OperationCompletion, Kind: Generation, Framing: stream.SSE,
		URL: versioned(completionsPath), Models: openAIModels(), scoring: openAIScoring(),
		body: func(p Params) fields {
			return append(openAIBody(p, field{"prompt", given(oneText(p))}), field{"logprobs", given(p.TopLogprobs)})
		},
		MaxTokens:  "max_tokens",
		NewDecoder: func() Decoder { return &objects{reader: &openAIReader{completions: true}} },
	}
}

// openAIBody is what the bodies of both protocols share. Temperature 0 asks for the same answer every time. The token
// counts are always asked for, as defaults differ by server, and no parameter that the original service does not know:
// some servers refuse a request for one unknown key.
func openAIBody(p Params, asked field) fields {
	return fields{
		{"model", p.Model},
		asked,
		{"max_tokens", p.OutputTokens},
		{"min_tokens", given(p.exactly())},
		{"ignore_eos", given(p.ExactLength)},
		{"temperature", 0},
		{"stream", true},
		{"stream_options", fields{{"include_usage", true}, {"continuous_usage_stats", given(p.ContinuousUsage)}}},
	}
}

// openAIScoring is POST /v1/completions with echo: the reply has the prompt
// before the answer, and the log-probabilities of both.
func openAIScoring() *textScoring {
	return &textScoring{url: versioned(completionsPath), read: openAIScores, body: func(p Params) fields {
		return fields{
			{"model", p.Model},
			{"prompt", p.Prompt},
			{"max_tokens", scoringTokens},
			{"temperature", 0},
			{"echo", true},
			{"logprobs", 1},
			{"stream", false},
		}
	}}
}

// openAIScores separates the prompt from the answer by the counts in usage: text_offset is -1 at SGLang, and
// elsewhere counts the beginning of text too. A server that ignores echo has those of the answer alone.
func openAIScores(reply *fastjson.Value) ([]*fastjson.Value, error) {
	all := firstChoice(reply).GetArray("logprobs", "token_logprobs")
	prompt, answer := count(reply.Get("usage", "prompt_tokens")), count(reply.Get("usage", "completion_tokens"))
	scored := len(all) - max(answer, 0)
	if err := checkScored(scored, prompt); err != nil {
		return nil, err
	}
	return all[:scored], nil
}

// readDelta reads choices[].delta of a chat. Its content is a text, or a list of parts.
func (o *openAIReader) readDelta(delta *fastjson.Value, d *Delta) {
	if content := delta.Get("content"); content != nil && content.Type() == fastjson.TypeString {
		d.Text = content.GetStringBytes()
		if delta.GetObject().Len() == 1 { // as in most chunks
			return
		}
	} else {
		d.addContent(content)
	}
	d.Refusal = delta.GetStringBytes("refusal")
	if len(d.Reasoning) == 0 {
		readReasoning(delta, d)
	}
	for i, call := range delta.GetArray("tool_calls") {
		d.addTool(call.Get("custom"), "name", "input")
		if index := call.Get("index"); index != nil { // left out by some that send calls whole
			i = index.GetInt()
		}
		o.addFunction(d, i, call.Get("function"))
	}
	o.addFunction(d, 0, delta.Get("function_call"))
}

func (o *openAIReader) addFunction(d *Delta, index int, function *fastjson.Value) {
	d.addTool(function, "name", "arguments")
	if function != nil {
		o.addCall(d, index, function.GetStringBytes("name"), wholeArguments(function.Get("arguments")))
	}
}

// readReasoning reads the reasoning, which servers name differently. One that
// uses several names sends the same text in each.
func readReasoning(delta *fastjson.Value, d *Delta) {
	for _, name := range [...]string{"reasoning", "reasoning_content", "reasoning_text"} { // the last at GitHub Copilot
		if d.Reasoning = delta.GetStringBytes(name); len(d.Reasoning) > 0 {
			break
		}
	}
	details := delta.GetArray("reasoning_details")
	if len(d.Reasoning) == 0 { // Snowflake has no other field
		for _, detail := range details {
			d.Reasoning = append(d.Reasoning, detail.GetStringBytes("text")...)
			d.Reasoning = append(d.Reasoning, detail.GetStringBytes("summary")...)
		}
	}
	d.Summary = len(d.Reasoning) > 0 && slices.ContainsFunc(details, isSummary)
}

// isSummary reports whether a detail of reasoning is a summary: it says so, or
// it comes from a provider that streams nothing else.
func isSummary(detail *fastjson.Value) bool {
	if len(detail.GetStringBytes("summary")) > 0 || string(detail.GetStringBytes("type")) == "reasoning.summary" {
		return true
	}
	format := string(detail.GetStringBytes("format"))
	providers := []string{"anthropic-claude-", "google-gemini-", "openai-responses-", "azure-openai-responses-", "xai-responses-"}
	return slices.ContainsFunc(providers, func(provider string) bool { return strings.HasPrefix(format, provider) })
}

// openAIReader reads the chunks of both OpenAI protocols, which differ in where a choice keeps its material. Every
// field may be missing or null: one server or another leaves out each of them.
type openAIReader struct {
	frame
	completions bool
	running     runningCount
	model       onceName // at Azure in the second chunk
	fingerprint onceName // at vLLM in the last
}

func (o *openAIReader) read(_ []byte, chunk *fastjson.Value, d *Delta) {
	d.Model = o.model.read(chunk, "model")
	d.Fingerprint = o.fingerprint.read(chunk, "system_fingerprint")
	usage := first(fastjson.TypeObject, chunk.Get("usage"), chunk.Get("x_groq", "usage"))
	timings, metrics := chunk.Get("timings"), chunk.Get("metrics")
	o.readUsage(usage, timings, d)
	o.readServerTimes(metrics, timings, usage, d)
	if choice := firstChoice(chunk); choice != nil {
		if o.completions {
			d.Text = choice.GetStringBytes("text")
		} else if delta := choice.Get("delta"); delta != nil {
			o.readDelta(delta, d)
		}
		d.Top = openAITop(choice.Get("logprobs"))
		d.Finish = finishReason(choice.Get("finish_reason"))
		d.Tokens = o.running.next(o.usage.Output, o.usage.Reasoning, d)
	}
}

// firstChoice returns the choice with index 0; nil is none. A probe asks for
// one choice only, and others would mix their tokens with its own.
func firstChoice(chunk *fastjson.Value) *fastjson.Value {
	for _, c := range chunk.GetArray("choices") {
		if c.Type() == fastjson.TypeObject && c.GetInt("index") == 0 {
			return c
		}
	}
	return nil
}

// readUsage reads the token counts: usage in the chunk, in x_groq at Groq.
// llama.cpp has them in timings, also where no usage was asked for.
func (o *openAIReader) readUsage(usage, timings *fastjson.Value, d *Delta) {
	o.usage = noUsage()
	if usage == nil && timings == nil {
		return
	}
	cached := count(timings.Get("cache_n")) // which llama.cpp's prompt_n leaves out
	fresh := count(timings.Get("prompt_n"))
	if cached == Unknown {
		fresh = Unknown
	}
	u := Usage{
		Prompt: known(count(usage.Get("prompt_tokens")), promptOf(fresh, cached)),
		// At others than OpenAI: DeepSeek; Together and Moonshot; Databricks, whose prompt_tokens have them.
		Cached: known(countAt(usage, "prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"), cached),
		Output: known(count(usage.Get("completion_tokens")), count(timings.Get("predicted_n"))),
		// The second at SGLang.
		Reasoning: countAt(usage, "completion_tokens_details.reasoning_tokens", "reasoning_tokens"),
	}
	u.joinReasoning(count(usage.Get("total_tokens")), false)
	o.setUsage(d, u)
}

// readServerTimes reads a server's own times: vLLM in metrics (milliseconds; the first token counted from when the
// request left the queue), llama.cpp in timings (milliseconds), Groq in usage (seconds).
func (o *openAIReader) readServerTimes(metrics, timings, usage *fastjson.Value, d *Delta) {
	if metrics == nil && timings == nil && usage == nil {
		return
	}
	llama := llamaTimes(timings)
	o.setServer(d, ServerTimes{
		Queue:   known(milliseconds(metrics.Get("queue_time_ms")), seconds(usage.Get("queue_time"))),
		Prefill: known(milliseconds(metrics.Get("time_to_first_token_ms")), llama.Prefill, seconds(usage.Get("prompt_time"))),
		Decode:  known(milliseconds(metrics.Get("generation_time_ms")), llama.Decode, seconds(usage.Get("completion_time"))),
	})
}
