package api

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	tgiPath       = "/generate"
	tgiStreamPath = "/generate_stream"
	tgiInfoPath   = "/info"
)

// tgi is text-generation-inference's own POST /generate_stream.
func tgi() Protocol {
	return Protocol{
		Name: "tgi", Engine: TGI, Operation: OperationCompletion,
		Kind: Generation, Framing: stream.SSE, MediaTypes: []string{eventStreamType},
		URL:    func(base *url.URL, _ string) *url.URL { return underTGI(base, tgiStreamPath) },
		Header: eventStreamHeader(),
		Models: &ModelList{
			URL:   func(base *url.URL) *url.URL { return underTGI(base, tgiInfoPath) },
			Parse: parseTGIInfo,
		},
		ModelOptional: true,
		Scoring:       tgiScoring(),
		Body: func(p Params) ([]byte, error) {
			// A temperature of 0 is refused; not to sample is the greedy way.
			r := tgiRequest{oneText(p), tgiParameters{MaxNewTokens: p.OutputTokens, Details: true, TopNTokens: p.TopLogprobs}}
			if p.Schema != nil {
				r.Parameters.Grammar = &tgiGrammar{"json", p.Schema}
			}
			return encodeBody(p, r)
		},
		MaxTokens: "parameters.max_new_tokens", Structured: true,
		// The reason is in the details, which are null where the request does not
		// ask for them (request.omit), and where a server ignores that it does.
		FinishOptional: true,
		NewDecoder:     func() Decoder { return &tgiDecoder{} },
		Doc: Doc{
			Unmet: true,
			Title: "text-generation-inference", Servers: "TGI", Auth: "`http.authorization.credentials`",
			FirstToken: "the first event with a `token`", End: "`generated_text` with content",
			Usage:        "`details.generated_tokens`, `details.input_length`; besides, each event is one token",
			Length:       "a cap only",
			Conversation: docOneText,
			Logprobs:     "`top_tokens`",
			Structured:   "`parameters.grammar` of type `json`",
			Scoring:      "`/generate` with `decoder_input_details`, on a server started with `--enable-prefill-logprobs`",
		},
	}
}

func underTGI(base *url.URL, path string) *url.URL {
	return fixed(base, path, tgiStreamPath, tgiInfoPath, tgiPath, "/v1")
}

type tgiRequest struct {
	Inputs     string        `json:"inputs"`
	Parameters tgiParameters `json:"parameters"`
}

type tgiParameters struct {
	MaxNewTokens int  `json:"max_new_tokens"`
	DoSample     bool `json:"do_sample"`
	Details      bool `json:"details"`
	TopNTokens   int  `json:"top_n_tokens,omitempty"`

	Grammar *tgiGrammar `json:"grammar,omitempty"`
}

type tgiGrammar struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// tgiDecoder decodes the events of TGI, each of which is one token.
type tgiDecoder struct {
	frame
	tokens int
}

// Decode implements Decoder.
func (t *tgiDecoder) Decode(event string, data []byte, d *Delta) error {
	object, err := openFrame(&t.parser, event, data, d)
	if object == nil {
		return err
	}
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
	t.setUsage(d, Usage{
		Prompt: count(details.Get("input_length")),
		Output: count(details.Get("generated_tokens")),
		Cached: Unknown, Reasoning: Unknown,
	})
	return nil
}

// parseTGIInfo reads the reply to GET /info: TGI serves one model, and bounds
// prompt and answer together by max_total_tokens.
func parseTGIInfo(body []byte) ([]ModelInfo, error) {
	var p fastjson.Parser
	info, err := parseJSON(&p, body)
	if err != nil {
		return nil, fmt.Errorf("read info of the server: %w", err)
	}
	id := string(info.GetStringBytes("model_id"))
	if !usableName(id) {
		return nil, fmt.Errorf("read info of the server: %w: %s", ErrProtocol, bounded(body))
	}
	return []ModelInfo{{ID: id, MaxModelLen: count(info.Get("max_total_tokens"))}}, nil
}

// tgiScoring is POST /generate with the details of the prompt, which no stream
// has.
func tgiScoring() *TextScoring {
	return &TextScoring{
		URL: func(base *url.URL) *url.URL { return underTGI(base, tgiPath) },
		Body: func(_, text string) ([]byte, error) {
			return encodeJSON(tgiScoringRequest{text, tgiScoringParameters{
				tgiParameters{MaxNewTokens: scoringTokens, Details: true}, true,
			}})
		},
		Parse: scoringParser(tgiScores),
	}
}

type tgiScoringRequest struct {
	Inputs     string               `json:"inputs"`
	Parameters tgiScoringParameters `json:"parameters"`
}

type tgiScoringParameters struct {
	tgiParameters
	DecoderInputDetails bool `json:"decoder_input_details"`
}

// tgiScores reads details.prefill, which has every token of the prompt or, on a
// server that was not started to keep them, none. Nothing in the reply counts
// the prompt.
func tgiScores(reply *fastjson.Value) ([]*fastjson.Value, error) {
	tokens := reply.GetArray("details", "prefill")
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%w: no details.prefill, which TGI has when started with --enable-prefill-logprobs", ErrProtocol)
	}
	values := make([]*fastjson.Value, len(tokens))
	for i, token := range tokens {
		values[i] = token.Get("logprob")
	}
	return values, nil
}
