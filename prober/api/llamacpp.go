package api

import (
	"encoding/json"
	"net/url"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const llamacppPath = "/completion"

// llamacpp is the own POST /completion of llama.cpp's server: no chat template
// and no parser of reasoning between the engine and the reply.
func llamacpp() Protocol {
	return Protocol{
		Name: "llamacpp", Engine: LlamaCPP, Operation: OperationCompletion, ExactLength: true,
		Kind: Generation, Framing: stream.SSE, MediaTypes: []string{eventStreamType},
		URL:    func(base *url.URL, _ string) *url.URL { return underLlamacpp(base, llamacppPath) },
		Header: eventStreamHeader(),
		Models: &ModelList{
			URL:   func(base *url.URL) *url.URL { return underLlamacpp(base, "/v1"+modelsPath) },
			Parse: ParseModels,
		},
		ModelOptional: true,
		Body: func(p Params) ([]byte, error) {
			return encodeBody(p, llamacppRequest{
				Prompt: oneText(p), NPredict: p.OutputTokens, IgnoreEOS: p.ExactLength, Stream: true, NProbs: p.TopLogprobs,
				JSONSchema: p.Schema,
			})
		},
		MaxTokens: "n_predict", Structured: true,
		// llamafile, and llama.cpp before December 2024, have no stop_type.
		FinishOptional: true,
		NewDecoder:     func() Decoder { return &llamacppDecoder{} },
		Doc: Doc{
			Title: "llama.cpp completion", Servers: "llama.cpp", Auth: "`http.authorization.credentials`",
			FirstToken: "`content` with content", End: "`stop: true`",
			Usage: "`tokens_predicted`, running in every event, and `tokens_evaluated`", Cached: "`timings.cache_n`",
			ServerTimes:  "`timings`",
			Length:       "exact",
			Conversation: docOneText,
			Model:        "`model` in the last event",
			Logprobs:     "`completion_probabilities[0].top_logprobs`",
			Structured:   "`json_schema`",
		},
	}
}

func underLlamacpp(base *url.URL, path string) *url.URL {
	return fixed(base, path, llamacppPath, "/v1"+modelsPath, "/v1")
}

type llamacppRequest struct {
	Prompt      string  `json:"prompt"`
	NPredict    int     `json:"n_predict"`
	IgnoreEOS   bool    `json:"ignore_eos,omitempty"`
	Temperature float64 `json:"temperature"`
	Stream      bool    `json:"stream"`
	NProbs      int     `json:"n_probs,omitempty"`

	JSONSchema json.RawMessage `json:"json_schema,omitempty"`
}

// llamacppDecoder decodes the events of llama.cpp.
type llamacppDecoder struct {
	frame
	running runningCount
}

// Decode implements Decoder.
func (l *llamacppDecoder) Decode(event string, data []byte, d *Delta) error {
	object, err := openFrame(&l.parser, event, data, d)
	if object == nil {
		return err
	}
	d.Text = object.GetStringBytes("content")
	d.Top = topIn(object.GetArray("completion_probabilities", "0", "top_logprobs"), "token", "logprob")
	// tokens_cached is not read: it counts what the slot holds after the
	// answer, not what the prompt found there.
	l.setUsage(d, Usage{
		Prompt: count(object.Get("tokens_evaluated")),
		Cached: count(object.Get("timings", "cache_n")),
		Output: count(object.Get("tokens_predicted")), Reasoning: Unknown,
	})
	d.Tokens = l.running.next(l.usage.Output, Unknown, d)
	if d.Done = object.GetBool("stop"); d.Done {
		l.end(object, d)
	}
	l.readServerTimes(object.Get("timings"), d)
	return nil
}

// end reads what the last event alone has.
func (l *llamacppDecoder) end(object *fastjson.Value, d *Delta) {
	d.Finish = finishReason(object.Get("stop_type"))
	d.Model = nameIn(object.Get("model"))
}

func (l *llamacppDecoder) readServerTimes(timings *fastjson.Value, d *Delta) {
	l.setServer(d, ServerTimes{
		Queue:   -1,
		Prefill: milliseconds(timings.Get("prompt_ms")),
		Decode:  milliseconds(timings.Get("predicted_ms")),
	})
}
