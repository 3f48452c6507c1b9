package simulator

import (
	"math"
	"unicode/utf8"
)

// scores are the log-probabilities of a reply that is not streamed.
type scores struct {
	text   string // the prompt, where it is wanted
	prompt []tokenScore
	output []tokenScore
}

// tokenScore is one token with its log-probability in nats.
type tokenScore struct {
	id      int
	text    string
	offset  int      // characters before it, in the prompt and the output
	logprob *float64 // nil is none: nothing stands before the first token
}

// What the log-probability of a token is made of: at most highest, below it
// by a number drawn for the token, exponential with mean spread. The mean over a
// long text is highest - spread.
const (
	highest = -0.5
	spread  = 1.8
	// outputLogprob is that of each token of the model's own.
	outputLogprob = -0.25
	// vocabularySize bounds the ids of tokens.
	vocabularySize = 128_000
)

// score returns the log-probabilities that the request wants, of an output of
// the given length; nil where it wants none.
func (x *exchange) score(tokens int) *scores {
	a := &x.ask
	if !a.logprobs {
		return nil
	}
	var s scores
	offset := 0
	if a.echo {
		s.text = a.text
		s.prompt = scoreText(a.text, x.weights, x.s.scoreNoise())
		s.prompt = s.prompt[min(a.scoreFrom, len(s.prompt)):]
		if len(s.prompt) > 0 {
			s.prompt[0].logprob = nil
		}
		offset = utf8.RuneCountInString(a.text)
		x.rec.update(func(r *Record) { r.Logprob = meanLogprob(s.prompt) })
	}
	for i := range tokens {
		t := string(x.appendToken(nil, i))
		p := outputLogprob
		s.output = append(s.output, tokenScore{id: tokenID(hashText(t)), text: t, offset: offset, logprob: &p})
		offset += utf8.RuneCountInString(t)
	}
	return &s
}

// scoreNoise draws what is added to each token of one request.
func (s *Server) scoreNoise() float64 {
	if s.o.LogprobNoise <= 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.LogprobNoise * s.rng.NormFloat64()
}

// scoreText returns the tokens of text, with a log-probability that depends on
// the weights' version and all tokens up to it, and on noise. The white space in
// front of a token is part of it.
func scoreText(text string, w *weights, noise float64) []tokenScore {
	var all []tokenScore
	h := hashText("logprob", w.version)
	end, offset, next := 0, 0, 0
	for _, to := range pieces(text) {
		t := tokenScore{text: text[end:to], offset: offset}
		id := hashText(t.text)
		h = mix(h, id)
		u := (float64(h>>11) + 0.5) / (1 << 53) // between 0 and 1, neither included
		p := min(0, highest+spread*math.Log(u)+w.shift+noise)
		t.id, t.logprob = tokenID(id), &p
		all = append(all, t)
		for ; next < to; next++ {
			if utf8.RuneStart(text[next]) {
				offset++
			}
		}
		end = to
	}
	return all
}

func tokenID(hash uint64) int { return int(hash % vocabularySize) }

// meanLogprob is the mean of those that there are; 0 is none.
func meanLogprob(tokens []tokenScore) float64 {
	sum, n := 0.0, 0
	for _, t := range tokens {
		if t.logprob != nil {
			sum += *t.logprob
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
