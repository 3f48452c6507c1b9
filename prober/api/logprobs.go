package api

import (
	"slices"

	"github.com/valyala/fastjson"
)

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
	first := tokens.GetObject()
	var top []TokenLogprob
	first.Visit(func(token []byte, p *fastjson.Value) { top = appendTop(top, string(token), p) })
	slices.SortStableFunc(top, func(a, b TokenLogprob) int {
		switch {
		case a.Logprob > b.Logprob:
			return -1
		case a.Logprob < b.Logprob:
			return 1
		}
		return 0
	})
	return top
}
