package load

import (
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// NextOf returns a question of given lengths in tokens, as those of a recorded request; context is as of Next.
func (a *source) NextOf(input, output, context int) workload.Question {
	length := input
	if !a.learnt && context > 0 && input+input/2+output > context {
		length = input * 2 / 3 // as in Next
	}
	b := newBuilder(length, a.module.Prefix, a.rng)
	b.setWords(a.counts.words(b.target))
	p := b.next()
	q := workload.Question{Texts: []string{p.Text}, Length: length, Wanted: input, Output: output, Exact: true}
	q.Learn = func(tokens int) *result.Skip {
		a.learnt = true
		return a.counts.learn(Count{Words: p.Words, Tokens: tokens})
	}
	return q
}

// countLine is the line through the counts of prompts of any lengths, tokens over words: sums over the counts.
type countLine struct{ n, words1, tokens1, words2, both float64 }

// latestCounts is after how many counts those so far weigh half.
const latestCounts = 256

// words returns how many words so many tokens take: by proportion, until lengths are far enough apart for a line.
func (l *countLine) words(tokens float64) float64 {
	spread := l.n*l.words2 - l.words1*l.words1 // n²-fold variance
	switch {
	case l.n == 0:
		return tokens / firstSlope
	case spread < l.n*l.n*clearSpread*clearSpread:
		return tokens * l.words1 / l.tokens1
	}
	slope := min(max((l.n*l.both-l.words1*l.tokens1)/spread, minSlope), maxSlope)
	return (tokens - (l.tokens1-slope*l.words1)/l.n) / slope
}

// learn takes the server's count of a prompt, and returns why an answer to it is not one to what was asked. Counts
// that cannot be are ignored.
func (l *countLine) learn(c Count) *result.Skip {
	words, tokens := float64(c.Words), float64(c.Tokens)
	least := minSlope*words - noise
	switch {
	case c.Tokens <= 0 || tokens > maxSlope*words+TemplateTokens || tokens < min(minContext, least):
		return nil
	case tokens < least:
		return truncates(c)
	}
	if l.n >= latestCounts {
		*l = countLine{l.n / 2, l.words1 / 2, l.tokens1 / 2, l.words2 / 2, l.both / 2}
	}
	*l = countLine{l.n + 1, l.words1 + words, l.tokens1 + tokens, l.words2 + words*words, l.both + words*tokens}
	return nil
}
