package prober

import (
	"context"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

const (
	// topLogprobs is how many of the likeliest first tokens are asked for; the hosted
	// services that give fewest allow five.
	topLogprobs = 5
	// scoredPrompts is how many prompts are asked where replies have
	// log-probabilities, and borderPrompts how many where they have none.
	scoredPrompts, borderPrompts = 8, 32
	// searchRounds is how often each word is asked in search of border prompts.
	searchRounds = 3
)

// borderSource asks prompts of one word for their first token, in turn. Where replies
// have no log-probabilities, it first asks all words a few times in search of border
// prompts: those whose first token differs from time to time at temperature 0, because
// two tokens are about as likely, so that the least change of the model moves them
// (Chauvin et al., Token-Efficient Change Detection in LLM APIs, arXiv 2602.11083).
// Other words fill up what there are too few of.
type borderSource struct {
	asked  int // runs so far
	scored bool
	seen   [len(trackWords)]string // the first token to each word; "" before the first
	flips  [len(trackWords)]bool   // that another one came
	set    []int                   // the words to ask; nil during the search
}

func (b *borderSource) next(int, int) question {
	i := b.index()
	b.asked++
	word := trackWords[i]
	return question{
		texts: []string{word}, id: check.Hash(word), output: 1, exact: true,
		first: func(f *result.FirstToken) { b.learn(i, f) },
	}
}

// index returns which word to ask.
func (b *borderSource) index() int {
	switch {
	case b.scored:
		return b.asked % scoredPrompts
	case b.asked < searchRounds*len(trackWords):
		return b.asked % len(trackWords)
	case b.set == nil:
		b.choose()
	}
	return b.set[b.asked%len(b.set)]
}

// learn takes the first token of the answer to word i.
func (b *borderSource) learn(i int, f *result.FirstToken) {
	b.scored = b.scored || len(f.Top) > 0
	if b.seen[i] != "" && b.seen[i] != f.Text {
		b.flips[i] = true
	}
	b.seen[i] = f.Text
}

// choose ends the search: border prompts come first.
func (b *borderSource) choose() {
	for _, flips := range [...]bool{true, false} {
		for i := range trackWords {
			if b.flips[i] == flips && len(b.set) < borderPrompts {
				b.set = append(b.set, i)
			}
		}
	}
}

// mayRefuse reports whether a failure may be that of a server that gives no
// log-probabilities: llama-cpp-python ends the reply before it has begun, others answer
// with an error.
func mayRefuse(o result.Outcome) bool {
	switch o {
	case result.HTTPError, result.StreamError, result.ProtocolError, result.Empty, result.Truncated:
		return true
	}
	return false
}

// track asks for one first token: with its log-probabilities, unless the server refuses
// requests for them. Until it has answered one, a failure is tried again without.
func (r *run) track(ctx context.Context) *result.Skip {
	q, why := r.next()
	if why != nil {
		return why
	}
	p := r.prober
	asked := r.request(q)
	if !p.noLogprobs {
		asked.topLogprobs = topLogprobs
	}
	why = r.send(ctx, asked)
	p.logprobs = p.logprobs || asked.topLogprobs > 0 && asked.result.Outcome == result.Success
	if p.logprobs || p.noLogprobs || !mayRefuse(asked.result.Outcome) {
		return why
	}
	without := r.request(q)
	why = r.send(ctx, without)
	if p.noLogprobs = without.result.Outcome == result.Success; p.noLogprobs {
		r.results = r.results[1:] // the refusal is no failure of the endpoint
	} else {
		r.results = r.results[:1]
	}
	return why
}

// trackWords are short, so that most tokenizers have a token for each, and have no
// obvious answer.
var trackWords = [...]string{
	"x", "red", "who", "ten", "up", "salt", "go", "blue",
	"why", "cat", "map", "is", "one", "sun", "note", "run",
	"la", "tea", "no", "key", "we", "old", "bit", "sea",
	"or", "hat", "how", "ice", "zero", "her", "pen", "mix",
	"day", "as", "toe", "lot", "ring", "by", "fox", "song",
	"oil", "if", "win", "road", "ha", "dry", "log", "an",
	"gold", "let", "egg", "on", "wave", "fit", "jar", "it",
	"moon", "bee", "at", "cold", "nut", "so", "page", "ok",
}
