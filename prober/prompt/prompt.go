// Package prompt makes prompts of a wanted token length without a tokenizer:
// it counts words and learns from the server's own counts how many tokens they
// are.
package prompt

import (
	"math"
	"math/rand/v2"
)

// Prefix says whether a server may know the beginning of a prompt.
type Prefix string

const (
	// Cold prompts start with random words, so that nothing cached matches.
	Cold Prefix = "cold"
	// Warm prompts start alike; once their length is found they are the same
	// to the byte.
	Warm Prefix = "warm"
)

// MaxTarget is the longest wanted length, in tokens; more is cut to it.
const MaxTarget = 2_000_000

const (
	// firstSlope is the tokens per word before the server has told.
	firstSlope = 1.2
	// minSlope and maxSlope bound what a server can make us believe.
	minSlope, maxSlope = 0.5, 8
	// maxTokensPerWord is where a count stops to be believable at all.
	maxTokensPerWord = 100
	// settleWithin is how near to the target the length settles, and
	// unsettleBeyond how far from it the search goes on: another tokenizer or
	// template. In between lies the noise of the counts.
	settleWithin, unsettleBeyond = 0.02, 0.05
	// minSpread is how many words two counts must be apart for their
	// difference to say more than that noise.
	minSpread = 8
	// maxWords bounds a prompt, at about 17 MB.
	maxWords = 3_000_000
)

// Prompt is the text of one user message.
type Prompt struct {
	Text string
	// Words is the length of Text, to be told to Learn with the server's
	// count of it.
	Words int
}

// Builder makes the prompts of one endpoint and module. It serves one probe
// at a time.
type Builder struct {
	target float64
	prefix Prefix
	rng    *rand.Rand

	words   int     // of the next prompt
	slope   float64 // tokens per word, by the counts so far
	last    count   // the latest count that moved the length
	settled bool    // the length is good
}

// count is the length of one prompt, by us and by the server.
type count struct {
	words, tokens int
}

// NewBuilder returns a Builder for prompts of target tokens, as the server
// counts them, its chat template included. A target below the shortest prompt
// (about 40 words) gives that one. Cold prompts need rng; warm ones take none.
func NewBuilder(target int, prefix Prefix, rng *rand.Rand) *Builder {
	b := &Builder{
		target: float64(min(max(target, 0), MaxTarget)),
		prefix: prefix,
		rng:    rng,
		slope:  firstSlope,
	}
	b.setWords(b.target / firstSlope)
	return b
}

// Next returns the prompt to send now.
func (b *Builder) Next() Prompt {
	var nonce *rand.Rand
	if b.prefix == Cold {
		nonce = b.rng
	}
	return Prompt{Text: compose(b.words, nonce), Words: b.words}
}

// Learn takes the server's count of a prompt. The next prompt has a length
// that comes nearer to the target: by proportion after the first count, by the
// line through the last two after that. Counts that cannot be are ignored.
func (b *Builder) Learn(words, promptTokens int) {
	if words <= 0 || promptTokens <= 0 || promptTokens > maxTokensPerWord*words {
		return
	}
	now := count{words, promptTokens}
	off := math.Abs(float64(promptTokens)-b.target) / b.target
	if b.settled && off <= unsettleBeyond {
		return
	}
	b.learnSlope(now)
	b.last = now
	next := float64(words)
	if b.settled = off <= settleWithin; !b.settled {
		next += (b.target - float64(promptTokens)) / b.slope
	}
	b.setWords(next)
}

// learnSlope updates the tokens per word: the secant of the last two counts.
func (b *Builder) learnSlope(now count) {
	spread := now.words - b.last.words
	switch {
	case b.last == count{}:
		b.slope = float64(now.tokens) / float64(now.words)
	case max(spread, -spread) >= minSpread:
		b.slope = float64(now.tokens-b.last.tokens) / float64(spread)
	}
	b.slope = min(max(b.slope, minSlope), maxSlope)
}

// setWords sets the length of the next prompt within its bounds.
func (b *Builder) setWords(words float64) {
	shortest := fixedWords
	if b.prefix == Cold {
		shortest += nonceWords
	}
	b.words = min(max(int(math.Round(words)), shortest), maxWords)
}
