package api

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	// MaxScoringBody is how many bytes of a reply are worth reading for scores: the
	// wordiest server, vLLM, needs some 16 JSON values for a token.
	MaxScoringBody = 8 << 20
	// leastLogprob is the least believable log-probability; vLLM writes -9999 for that of a token that cannot be.
	leastLogprob = -10_000
	// scoringTokens is how many tokens a server makes beside a score. Some refuse to make none.
	scoringTokens = 1
)

// textScoring says how to ask for the log-probability of a given text, in one reply that is not streamed.
type textScoring struct {
	url  func(base *url.URL, model string) *url.URL // nil is that of the protocol
	body func(Params) fields
	// read finds the log-probability of each of the text's tokens in a reply without an error.
	read func(reply *fastjson.Value) ([]*fastjson.Value, error)
}

// Scored returns the protocol with which a server of p scores a text, Params.Prompt; false where p has no way.
func (p *Protocol) Scored() (*Protocol, bool) {
	how, scored := p.scoring, *p
	scored.Kind = Scoring
	if how == nil {
		return &scored, false
	}
	if how.url != nil {
		scored.URL = how.url
	}
	scored.Framing, scored.body = stream.Whole, how.body
	scored.NewDecoder = func() Decoder { return how }
	return &scored, true
}

// Decode implements Decoder. Of the text's tokens it reads the log-probabilities in nats, each
// from -10,000 to 0 and at least one, without the first token, which has none.
func (s *textScoring) Decode(_, data []byte, d *Delta) error {
	err := decodeWhole(data, d, func(reply *fastjson.Value) error {
		values, err := s.read(reply)
		if err == nil {
			d.Logprobs, err = logprobs(values)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read score of a text: %w", err)
	}
	return nil
}

// checkScored returns an error unless a server, asked to score each token of a
// text, has done so. A beginning of text may be counted and have no score.
func checkScored(scored, tokens int) error {
	if tokens == Unknown {
		return fmt.Errorf("%w: no count of the text's tokens", ErrProtocol)
	}
	if scored < 1 || scored < tokens-1 || scored > tokens {
		return fmt.Errorf("%w: scores of %d tokens for a text of %d, so the server does not score the text",
			ErrProtocol, max(scored, 0), tokens)
	}
	return nil
}

// logprobs reads the log-probabilities of a text's tokens, of which the first may have none. No other may miss: it
// would be that of a token that cannot be, as JSON has no infinity, and the text would look better than it is.
func logprobs(values []*fastjson.Value) ([]float64, error) {
	var scores []float64
	for i, v := range values {
		if i == 0 && (v == nil || v.Type() == fastjson.TypeNull) {
			continue
		}
		if v == nil || v.Type() != fastjson.TypeNumber {
			return nil, fmt.Errorf("%w: no log-probability of token %d", ErrProtocol, i+1)
		}
		f, err := v.Float64()
		if err != nil || !(f >= leastLogprob && f <= 0) { // NaN too
			return nil, fmt.Errorf("%w: log-probability %g of token %d", ErrProtocol, f, i+1)
		}
		scores = append(scores, f)
	}
	if len(scores) == 0 {
		return nil, fmt.Errorf("%w: no log-probabilities", ErrProtocol)
	}
	return scores, nil
}

func membersOf(values []*fastjson.Value, key string) []*fastjson.Value {
	return stats.Map(values, func(v *fastjson.Value) *fastjson.Value { return v.Get(key) })
}

// maxTop bounds Delta.Top.
const maxTop = 20

// topIn reads a list of the likeliest tokens, each an object with the text and the
// log-probability of a token under the given keys.
func topIn(list []*fastjson.Value, text, logprob string) []TokenLogprob {
	var top []TokenLogprob
	for _, t := range list {
		top = appendTop(top, string(t.GetStringBytes(text)), t.Get(logprob))
	}
	return top
}

// appendTop appends a token, unless its log-probability is none that can be.
func appendTop(top []TokenLogprob, token string, logprob *fastjson.Value) []TokenLogprob {
	if len(top) == maxTop || logprob == nil || logprob.Type() != fastjson.TypeNumber {
		return top
	}
	if p, err := logprob.Float64(); err == nil && p >= leastLogprob && p <= 0 { // NaN is neither
		return append(top, TokenLogprob{token, p})
	}
	return top
}

// openAITop reads logprobs of a choice in either form: that of chat, a list of
// tokens, or that of completions, an object of log-probabilities by token.
func openAITop(logprobs *fastjson.Value) []TokenLogprob {
	if content := logprobs.Get("content", "0"); content != nil {
		return topIn(content.GetArray("top_logprobs"), "token", "logprob")
	}
	tokens := logprobs.Get("top_logprobs", "0")
	if tokens == nil || tokens.Type() != fastjson.TypeObject {
		return nil
	}
	var top []TokenLogprob
	tokens.GetObject().Visit(func(token []byte, p *fastjson.Value) { top = appendTop(top, string(token), p) })
	slices.SortStableFunc(top, func(a, b TokenLogprob) int { return cmp.Compare(b.Logprob, a.Logprob) })
	return top
}
