package api

import (
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// sglang is SGLang's own POST /generate: no chat template and no parser of reasoning between the engine and the reply.
func sglang() Protocol {
	at := server{"/generate", "/v1/models", "/get_model_info", "/v1"}
	return Protocol{
		Name: "sglang", Engine: SGLang, Operation: OperationCompletion, ExactLength: true, Kind: Generation, Framing: stream.SSE,
		URL: at.path("/generate"), Models: at.models("/v1/models", ParseModels), ModelOptional: true, scoring: sglangScoring(),
		body: func(p Params) fields {
			return fields{
				{"text", oneText(p)},
				{"sampling_params", fields{
					{"max_new_tokens", p.OutputTokens},
					{"min_new_tokens", given(p.exactly())},
					{"ignore_eos", given(p.ExactLength)},
					{"temperature", 0},
					{"json_schema", given(string(p.Schema))},
				}},
				{"stream", true},
				{"return_logprob", given(p.TopLogprobs > 0)},
				{"top_logprobs_num", given(p.TopLogprobs)},
				{"return_text_in_logprobs", given(p.TopLogprobs > 0)},
			}
		},
		MaxTokens: "sampling_params.max_new_tokens", Structured: true,
		NewDecoder: func() Decoder { return &objects{reader: &sglangReader{text: growingText{whole: true}}} },
	}
}

// sglangReader reads the events of SGLang, which hold the whole text so far
// unless the server was started to stream increments.
type sglangReader struct {
	frame
	text    growingText
	running runningCount
	named   bool // the version of the weights was looked for
}

func (s *sglangReader) read(_ []byte, object *fastjson.Value, d *Delta) {
	d.Text = s.text.next(object.GetStringBytes("text"))
	meta := object.Get("meta_info")
	for _, t := range meta.GetArray("output_top_logprobs", "0") { // [log-probability, id, text]
		d.Top = appendTop(d.Top, string(t.GetStringBytes("2")), t.Get("0"))
	}
	if !s.named { // servers have it in all events or, being older, in none
		d.Fingerprint = nameIn(meta.Get("weight_version"))
		s.named = meta != nil
	}
	s.setUsage(d, usageAt(meta, "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"))
	d.Tokens = s.running.next(s.usage.Output, Unknown, d)
	reason := meta.Get("finish_reason")
	if reason != nil && reason.Type() == fastjson.TypeObject {
		reason = reason.Get("type")
	}
	d.Finish = finishReason(reason)
	s.readServerTimes(meta, d)
}

// readServerTimes reads the request's times in seconds. A server that takes none leaves out when the request
// entered its first batch, and yet reports a time in the queue of 0.
func (s *sglangReader) readServerTimes(meta *fastjson.Value, d *Delta) {
	times := ServerTimes{-1, -1, -1}
	if entered := number(meta.Get("forward_entry_time")); entered > 0 {
		times.Queue = seconds(meta.Get("queue_time"))
		if finished := number(meta.Get("prefill_finished_time")); finished >= entered && finished-entered < maxServerTime.Seconds() {
			times.Prefill = time.Duration((finished - entered) * float64(time.Second))
		}
	}
	// The throughput is that of the tokens after the first.
	if rate := number(meta.Get("decode_throughput")); rate > 0 && s.usage.Output > 1 {
		if t := float64(s.usage.Output-1) / rate; t < maxServerTime.Seconds() {
			times.Decode = time.Duration(t * float64(time.Second))
		}
	}
	s.setServer(d, times)
}

// sglangScoring has POST /generate return the log-probabilities of the prompt from its first token on.
func sglangScoring() *textScoring {
	return &textScoring{read: sglangScores, body: func(p Params) fields {
		return fields{
			{"text", p.Prompt},
			{"sampling_params", fields{{"max_new_tokens", scoringTokens}, {"temperature", 0}}},
			{"return_logprob", true},
			{"logprob_start_len", 0},
			{"stream", false},
		}
	}}
}

// sglangScores reads meta_info.input_token_logprobs, in which each token is a
// list of its log-probability, its number and its text.
func sglangScores(reply *fastjson.Value) ([]*fastjson.Value, error) {
	meta := reply.Get("meta_info")
	tokens := meta.GetArray("input_token_logprobs")
	return membersOf(tokens, "0"), checkScored(len(tokens), count(meta.Get("prompt_tokens")))
}
