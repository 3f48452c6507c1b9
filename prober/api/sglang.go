package api

import (
	"net/url"
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const sglangPath = "/generate"

// sglang is SGLang's own POST /generate: no chat template and no parser of
// reasoning between the engine and the reply.
func sglang() Protocol {
	return Protocol{
		Name: "sglang", Engine: SGLang, Operation: OperationCompletion, ExactLength: true,
		Kind: Generation, Framing: stream.SSE, MediaTypes: []string{eventStreamType},
		URL:    func(base *url.URL, _ string) *url.URL { return underSGLang(base, sglangPath) },
		Header: eventStreamHeader(),
		Models: &ModelList{
			URL:   func(base *url.URL) *url.URL { return underSGLang(base, "/v1"+modelsPath) },
			Parse: ParseModels,
		},
		ModelOptional: true,
		Scoring:       sglangScoring(),
		Body: func(p Params) ([]byte, error) {
			r := sglangRequest{Text: oneText(p), Stream: true, SamplingParams: sglangSampling{MaxNewTokens: p.OutputTokens}}
			r.SamplingParams.JSONSchema = string(p.Schema)
			if p.TopLogprobs > 0 {
				r.ReturnLogprob, r.TopLogprobsNum, r.ReturnText = true, p.TopLogprobs, true
			}
			if p.ExactLength {
				r.SamplingParams.MinNewTokens, r.SamplingParams.IgnoreEOS = p.OutputTokens, true
			}
			return encodeBody(p, r)
		},
		MaxTokens: "sampling_params.max_new_tokens", Structured: true,
		NewDecoder: func() Decoder { return &sglangDecoder{text: growingText{whole: true}} },
		Doc: Doc{
			Title: "SGLang generate", Servers: "SGLang", Auth: "`http.authorization.credentials`",
			FirstToken: "`meta_info.completion_tokens` of 1 or more, or `text` with content", End: "`[DONE]`",
			Usage: "`meta_info`, running in every event", Cached: "`meta_info.cached_tokens`", Reasoning: "`meta_info.reasoning_tokens`",
			ServerTimes:  "`meta_info.queue_time` and others, on a server started with `--enable-metrics`",
			Length:       "exact",
			Conversation: docOneText,
			Structured:   "`sampling_params.json_schema`",
			Fingerprint:  "`meta_info.weight_version`, which names the weights where who loads them into the running server does",
			Scoring:      "`/generate` with `return_logprob`",
			Logprobs:     "`meta_info.output_top_logprobs[0]`",
		},
	}
}

func underSGLang(base *url.URL, path string) *url.URL {
	return fixed(base, path, sglangPath, "/v1"+modelsPath, "/get_model_info", "/v1")
}

type sglangRequest struct {
	Text           string         `json:"text"`
	SamplingParams sglangSampling `json:"sampling_params"`
	Stream         bool           `json:"stream"`
	ReturnLogprob  bool           `json:"return_logprob,omitempty"`
	TopLogprobsNum int            `json:"top_logprobs_num,omitempty"`
	ReturnText     bool           `json:"return_text_in_logprobs,omitempty"`
}

type sglangSampling struct {
	MaxNewTokens int     `json:"max_new_tokens"`
	MinNewTokens int     `json:"min_new_tokens,omitempty"`
	IgnoreEOS    bool    `json:"ignore_eos,omitempty"`
	Temperature  float64 `json:"temperature"`
	JSONSchema   string  `json:"json_schema,omitempty"`
}

// sglangDecoder decodes the events of SGLang, which hold the whole text so far
// unless the server was started to stream increments.
type sglangDecoder struct {
	frame
	text    growingText
	running runningCount
	named   bool // the version of the weights was looked for
}

// Decode implements Decoder.
func (s *sglangDecoder) Decode(event string, data []byte, d *Delta) error {
	object, err := openFrame(&s.parser, event, data, d)
	if object == nil {
		return err
	}
	d.Text = s.text.next(object.GetStringBytes("text"))
	meta := object.Get("meta_info")
	for _, t := range meta.GetArray("output_top_logprobs", "0") { // [log-probability, id, text]
		d.Top = appendTop(d.Top, string(t.GetStringBytes("2")), t.Get("0"))
	}
	if !s.named { // servers have it in all events or, being older, in none
		d.Fingerprint = nameIn(meta.Get("weight_version"))
		s.named = meta != nil
	}
	s.setUsage(d, Usage{
		Prompt:    count(meta.Get("prompt_tokens")),
		Cached:    count(meta.Get("cached_tokens")),
		Output:    count(meta.Get("completion_tokens")),
		Reasoning: count(meta.Get("reasoning_tokens")),
	})
	d.Tokens = s.running.next(s.usage.Output, Unknown, d)
	reason := meta.Get("finish_reason")
	if reason != nil && reason.Type() == fastjson.TypeObject {
		reason = reason.Get("type")
	}
	d.Finish = finishReason(reason)
	s.readServerTimes(meta, d)
	return nil
}

// readServerTimes reads the request's times, all in seconds. A server that
// takes none leaves out when the request entered its first batch, and yet
// reports a time in the queue of 0.
func (s *sglangDecoder) readServerTimes(meta *fastjson.Value, d *Delta) {
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

// sglangScoring is POST /generate with the log-probabilities of the prompt from
// its first token on.
func sglangScoring() *TextScoring {
	return &TextScoring{
		URL: func(base *url.URL) *url.URL { return underSGLang(base, sglangPath) },
		Body: func(_, text string) ([]byte, error) {
			return encodeJSON(sglangScoringRequest{
				Text: text, SamplingParams: sglangSampling{MaxNewTokens: scoringTokens}, ReturnLogprob: true,
			})
		},
		Parse: scoringParser(sglangScores),
	}
}

type sglangScoringRequest struct {
	Text            string         `json:"text"`
	SamplingParams  sglangSampling `json:"sampling_params"`
	ReturnLogprob   bool           `json:"return_logprob"`
	LogprobStartLen int            `json:"logprob_start_len"`
	Stream          bool           `json:"stream"`
}

// sglangScores reads meta_info.input_token_logprobs, in which each token is a
// list of its log-probability, its number and its text.
func sglangScores(reply *fastjson.Value) ([]*fastjson.Value, error) {
	meta := reply.Get("meta_info")
	tokens := meta.GetArray("input_token_logprobs")
	if err := checkScored(len(tokens), count(meta.Get("prompt_tokens"))); err != nil {
		return nil, err
	}
	values := make([]*fastjson.Value, len(tokens))
	for i, token := range tokens {
		values[i] = token.Get("0")
	}
	return values, nil
}
