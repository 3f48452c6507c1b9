package api

import (
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	tritonModels = "/v2/models/"
	tritonStream = "/generate_stream"
)

// triton is the generate extension of NVIDIA Triton and of KServe, POST /v2/models/{model}/generate_stream. What a
// model takes and returns is up to its back end; the request holds what those of vLLM and of TensorRT-LLM understand,
// and the decoder reads what either returns. All but the prompt is in parameters: Triton turns each into an input of
// the model if it has one of that name, else into a parameter of the request. vLLM's back end fails over a parameter
// that vLLM does not know.
func triton() Protocol {
	return Protocol{
		Name: "triton", Engine: Triton, Operation: OperationCompletion, ExactLength: true, Kind: Generation, Framing: stream.SSE,
		URL: tritonURL,
		// TensorRT-LLM's last response is one like the others.
		EndOfBody: true, FinishOptional: true,
		body: func(p Params) fields {
			return fields{{"text_input", oneText(p)}, {"parameters", fields{
				{"stream", true},
				{"max_tokens", p.OutputTokens},
				{"min_tokens", given(p.exactly())},
				{"temperature", 0},
				{"exclude_input_in_output", true},
				{"return_finish_reason", true},
				{"return_num_input_tokens", true},
				{"return_num_output_tokens", true},
			}}}
		},
		MaxTokens:  "parameters.max_tokens",
		NewDecoder: func() Decoder { return &objects{reader: new(tritonReader)} },
	}
}

// tritonURL takes a base that is the server, with or without /v2, or that
// names the model: with or without a version and the method behind it.
func tritonURL(base *url.URL, model string) *url.URL {
	root := rootOf(base)
	if !strings.Contains(root, tritonModels) {
		return server{"/v2/models", "/v2"}.path(tritonModels+url.PathEscape(model)+tritonStream)(base, "")
	}
	root = strings.TrimSuffix(strings.TrimSuffix(root, tritonStream), "/generate")
	return WithPath(base, root+tritonStream)
}

// tritonReader reads the responses of either back end. A number of output tokens is that of one response.
type tritonReader struct {
	frame
	text           growingText
	tokens         int  // the sum so far
	missing        bool // a response with text had no number
	model, version onceName
}

func (t *tritonReader) read(_ []byte, object *fastjson.Value, d *Delta) {
	d.Model, d.Fingerprint = t.model.read(object, "model_name"), t.version.read(object, "model_version")
	d.Text = t.text.next(scalar(object.Get("text_output")).GetStringBytes())
	d.Finish = finishReason(scalar(object.Get("finish_reason")))
	t.readUsage(object, d)
	t.readServerTimes(object, d)
}

// scalar returns what is in a list of one, as some models have their outputs.
func scalar(v *fastjson.Value) *fastjson.Value {
	if v != nil && v.Type() == fastjson.TypeArray {
		return v.Get("0")
	}
	return v
}

// readUsage adds up the output tokens. Where the text comes whole in each response, the number may be that of the whole
// too, so there is no sum. Which it is shows in the second text: until then the sum is no usage of the reply.
func (t *tritonReader) readUsage(object *fastjson.Value, d *Delta) {
	n := count(scalar(object.Get("num_output_tokens")))
	t.missing = t.missing || n == Unknown && d.HasToken() || t.tokens+n > maxCount
	u := noUsage()
	u.Prompt = count(scalar(object.Get("num_input_tokens")))
	if n != Unknown && !t.missing {
		t.tokens += n
		if !t.text.whole {
			d.Tokens = t.tokens
		}
		if t.text.pieces || d.Finish != "" && !t.text.whole {
			u.Output = t.tokens
		}
	}
	t.setUsage(d, u)
}

// readServerTimes reads TensorRT-LLM's time stamps, in nanoseconds of a clock of its own.
func (t *tritonReader) readServerTimes(object *fastjson.Value, d *Delta) {
	stamp := func(name string) int64 { return scalar(object.Get(name)).GetInt64() }
	if object.Get("arrival_time_ns") == nil {
		return
	}
	arrival, scheduled := stamp("arrival_time_ns"), stamp("first_scheduled_time_ns")
	first, last := stamp("first_token_time_ns"), stamp("last_token_time_ns")
	t.setServer(d, ServerTimes{Queue: between(arrival, scheduled), Prefill: between(scheduled, first), Decode: between(first, last)})
}

// between returns the time between two stamps in nanoseconds; -1 unless both are there and in order.
func between(from, to int64) time.Duration {
	if from <= 0 || to < from || to-from > int64(maxServerTime) {
		return -1
	}
	return time.Duration(to - from)
}
