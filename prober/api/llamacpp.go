package api

import (
	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// llamacpp is the own POST /completion of llama.cpp's server: no chat template
// and no parser of reasoning between the engine and the reply.
func llamacpp() Protocol {
	at := server{"/completion", "/v1/models", "/v1"}
	return Protocol{
		Name: "llamacpp", Engine: LlamaCPP, Operation: OperationCompletion, ExactLength: true, Kind: Generation, Framing: stream.SSE,
		URL: at.path("/completion"), Models: at.models("/v1/models", ParseModels), ModelOptional: true,
		body: func(p Params) fields {
			return fields{
				{"prompt", oneText(p)},
				{"n_predict", p.OutputTokens},
				{"ignore_eos", given(p.ExactLength)},
				{"temperature", 0},
				{"stream", true},
				{"n_probs", given(p.TopLogprobs)},
				{"json_schema", given(p.Schema)},
			}
		},
		MaxTokens: "n_predict", Structured: true,
		// llamafile, and llama.cpp before December 2024, have no stop_type.
		FinishOptional: true,
		NewDecoder:     func() Decoder { return &objects{reader: new(llamacppReader)} },
	}
}

type llamacppReader struct {
	frame
	running runningCount
}

func (l *llamacppReader) read(_ []byte, object *fastjson.Value, d *Delta) {
	d.Text = object.GetStringBytes("content")
	d.Top = topIn(object.GetArray("completion_probabilities", "0", "top_logprobs"), "token", "logprob")
	// tokens_cached is not read: it counts what the slot holds after the answer, not what the prompt found there.
	l.setUsage(d, usageAt(object, "tokens_evaluated", "timings.cache_n", "tokens_predicted", ""))
	d.Tokens = l.running.next(l.usage.Output, Unknown, d)
	if d.Done = object.GetBool("stop"); d.Done {
		d.Finish, d.Model = finishReason(object.Get("stop_type")), nameIn(object.Get("model"))
	}
	l.setServer(d, llamaTimes(object.Get("timings")))
}

func llamaTimes(timings *fastjson.Value) ServerTimes {
	return ServerTimes{Queue: -1, Prefill: milliseconds(timings.Get("prompt_ms")), Decode: milliseconds(timings.Get("predicted_ms"))}
}
