package api

import (
	"fmt"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

func tgiServer() server { return server{"/generate_stream", "/info", "/generate", "/v1"} }

// tgi is text-generation-inference's own POST /generate_stream.
func tgi() Protocol {
	return Protocol{
		Name: "tgi", Engine: TGI, Operation: OperationCompletion, Kind: Generation, Framing: stream.SSE,
		URL: tgiServer().path("/generate_stream"), Models: tgiServer().models("/info", parseTGIInfo), ModelOptional: true, scoring: tgiScoring(),
		body: func(p Params) fields {
			// A temperature of 0 is refused; not to sample is the greedy way.
			return fields{{"inputs", oneText(p)}, {"parameters", fields{
				{"max_new_tokens", p.OutputTokens},
				{"do_sample", false},
				{"details", true},
				{"top_n_tokens", given(p.TopLogprobs)},
				{"grammar", when(p.Schema != nil, fields{{"type", "json"}, {"value", p.Schema}})},
			}}}
		},
		MaxTokens: "parameters.max_new_tokens", Structured: true,
		// The reason is in the details, which are null where the request does not
		// ask for them (request.omit), and where a server ignores that it does.
		FinishOptional: true,
		NewDecoder:     func() Decoder { return &objects{reader: new(tgiReader)} },
	}
}

// tgiReader reads the events of TGI, each of which is one token.
type tgiReader struct {
	frame
	tokens int
}

func (t *tgiReader) read(_ []byte, object *fastjson.Value, d *Delta) {
	if token := object.Get("token"); token != nil && token.Type() == fastjson.TypeObject {
		t.tokens++
		d.Tokens = t.tokens
		if !token.GetBool("special") { // an end of text is no text
			d.Text = token.GetStringBytes("text")
		}
	}
	d.Top = topIn(object.GetArray("top_tokens"), "text", "logprob")
	whole := object.Get("generated_text")
	d.Done = whole != nil && whole.Type() == fastjson.TypeString
	details := object.Get("details")
	d.Finish = finishReason(details.Get("finish_reason"))
	t.setUsage(d, usageAt(details, "input_length", "", "generated_tokens", ""))
}

// parseTGIInfo reads the reply to GET /info: TGI serves one model, and bounds
// prompt and answer together by max_total_tokens.
func parseTGIInfo(body []byte) ([]ModelInfo, error) {
	info, err := parseJSON(new(fastjson.Parser), body)
	if err != nil {
		return nil, fmt.Errorf("read info of the server: %w", err)
	}
	id := string(info.GetStringBytes("model_id"))
	if !usableName(id) {
		return nil, fmt.Errorf("read info of the server: %w: %s", ErrProtocol, bounded(body))
	}
	return []ModelInfo{{ID: id, MaxModelLen: count(info.Get("max_total_tokens"))}}, nil
}

// tgiScoring is POST /generate with the details of the prompt, which no stream has.
func tgiScoring() *textScoring {
	return &textScoring{url: tgiServer().path("/generate"), read: tgiScores, body: func(p Params) fields {
		return fields{{"inputs", p.Prompt}, {"parameters", fields{
			{"max_new_tokens", scoringTokens}, {"do_sample", false}, {"details", true}, {"decoder_input_details", true},
		}}}
	}}
}

// tgiScores reads details.prefill, which has every token of the prompt or, by default, none. Nothing in the
// reply counts the prompt.
func tgiScores(reply *fastjson.Value) ([]*fastjson.Value, error) {
	tokens := reply.GetArray("details", "prefill")
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%w: no details.prefill, which TGI has when started with --enable-prefill-logprobs", ErrProtocol)
	}
	return membersOf(tokens, "logprob"), nil
}
