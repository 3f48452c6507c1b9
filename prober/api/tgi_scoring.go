package api

import (
	"fmt"
	"net/url"

	"github.com/valyala/fastjson"
)

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
