package api

import "github.com/valyala/fastjson"

// openAIDecoder decodes the chunks of both OpenAI protocols, which differ in
// where a choice keeps its material. Every field may be missing or null: one
// server or another leaves out each of them.
type openAIDecoder struct {
	material func(*openAIDecoder, *fastjson.Value, *Delta)

	parser        fastjson.Parser
	usage         Usage       // what Delta.Usage points to
	server        ServerTimes // what Delta.Server points to
	parts         parts       // what the channels of Delta may point to
	running       runningCount
	named         bool // the model's name was read
	fingerprinted bool // the fingerprint was read
}

// Decode implements Decoder.
func (o *openAIDecoder) Decode(event string, data []byte, d *Delta) error {
	chunk, err := openFrame(&o.parser, event, data, d)
	if chunk == nil {
		return err
	}
	o.readNames(chunk, d)
	o.readUsage(chunk, d)
	o.readServerTimes(chunk, d)
	if choice := firstChoice(chunk); choice != nil {
		o.material(o, choice, d)
		d.Finish = finishReason(choice.Get("finish_reason"))
		d.Tokens = o.running.next(o.usage.Output, o.usage.Reasoning, d)
	}
	return nil
}

// readNames reads the first chunk that names the model, which at Azure is the
// second, and the first that has a fingerprint, which at vLLM is the last.
func (o *openAIDecoder) readNames(chunk *fastjson.Value, d *Delta) {
	if !o.named {
		d.Model = nameIn(chunk.Get("model"))
		o.named = d.Model != nil
	}
	if !o.fingerprinted {
		d.Fingerprint = nameIn(chunk.Get("system_fingerprint"))
		o.fingerprinted = d.Fingerprint != nil
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
// llama.cpp tells them in timings, also where no usage was asked for.
func (o *openAIDecoder) readUsage(chunk *fastjson.Value, d *Delta) {
	o.usage = noUsage()
	usage, timings := usageOf(chunk), chunk.Get("timings")
	if usage == nil && timings == nil {
		return
	}
	o.usage = Usage{
		Prompt: known(count(usage.Get("prompt_tokens")), promptOf(timings)),
		Cached: known(
			count(usage.Get("prompt_tokens_details", "cached_tokens")),
			count(usage.Get("prompt_cache_hit_tokens")), // DeepSeek
			count(usage.Get("cached_tokens")),           // Together, Moonshot
			count(timings.Get("cache_n")),
		),
		Output: known(count(usage.Get("completion_tokens")), count(timings.Get("predicted_n"))),
		Reasoning: known(
			count(usage.Get("completion_tokens_details", "reasoning_tokens")),
			count(usage.Get("reasoning_tokens")), // SGLang
		),
	}
	o.usage.joinReasoning(count(usage.Get("total_tokens")), false)
	if o.usage != noUsage() {
		d.Usage = &o.usage
	}
}

// promptOf returns the length of the prompt by llama.cpp's timings, whose
// prompt_n leaves out the cached tokens.
func promptOf(timings *fastjson.Value) int {
	fresh, cached := count(timings.Get("prompt_n")), count(timings.Get("cache_n"))
	if fresh == Unknown || cached == Unknown || fresh+cached > maxCount {
		return Unknown
	}
	return fresh + cached
}

// usageOf returns the object with the token counts; nil is none.
func usageOf(chunk *fastjson.Value) *fastjson.Value {
	if u := chunk.Get("usage"); u != nil && u.Type() == fastjson.TypeObject {
		return u
	}
	return chunk.Get("x_groq", "usage")
}

// readServerTimes reads what a server tells of its own time: vLLM in metrics
// (milliseconds; the first token counted from when the request left the
// queue), llama.cpp in timings (milliseconds), Groq in usage (seconds).
func (o *openAIDecoder) readServerTimes(chunk *fastjson.Value, d *Delta) {
	metrics, timings, usage := chunk.Get("metrics"), chunk.Get("timings"), usageOf(chunk)
	if metrics == nil && timings == nil && usage == nil {
		return
	}
	o.server = ServerTimes{
		Queue: known(
			milliseconds(metrics.Get("queue_time_ms")),
			seconds(usage.Get("queue_time")),
		),
		Prefill: known(
			milliseconds(metrics.Get("time_to_first_token_ms")),
			milliseconds(timings.Get("prompt_ms")),
			seconds(usage.Get("prompt_time")),
		),
		Decode: known(
			milliseconds(metrics.Get("generation_time_ms")),
			milliseconds(timings.Get("predicted_ms")),
			seconds(usage.Get("completion_time")),
		),
	}
	if o.server != (ServerTimes{-1, -1, -1}) {
		d.Server = &o.server
	}
}
