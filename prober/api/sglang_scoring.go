package api

import (
	"net/url"

	"github.com/valyala/fastjson"
)

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
