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
	// Paired prompts are cold ones, of which each is asked again as it is.
	Paired Prefix = "paired"
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
	// Words is the length of Text.
	Words int
	// Target is the wanted length in tokens.
	Target int
}

// builder makes the prompts of one length.
type builder struct {
	target float64
	prefix Prefix
	rng    *rand.Rand

	words   int     // of the next prompt
	slope   float64 // tokens per word, by the counts so far
	last    count   // the latest count that moved the length
	settled bool    // the length is good
	counted bool    // a prompt of this length has been counted
}

// count is the length of one prompt, by us and by the server.
type count struct {
	words, tokens int
}

func newBuilder(target int, prefix Prefix, rng *rand.Rand) *builder {
	b := &builder{
		target: float64(min(max(target, 0), MaxTarget)),
		prefix: prefix,
		rng:    rng,
		slope:  firstSlope,
	}
	b.setWords(b.target / firstSlope)
	return b
}

// next returns the prompt to send now, but for its target.
func (b *builder) next() Prompt {
	var nonce *rand.Rand
	if b.prefix != Warm {
		nonce = b.rng
	}
	return Prompt{Text: compose(b.words, nonce), Words: b.words}
}

// learn takes the server's count of a prompt; a count that cannot be is not
// taken. The next prompt has a length that comes nearer to the target: by
// proportion after the first count, by the line through the last two after that.
func (b *builder) learn(words, promptTokens int) (taken bool) {
	if words <= 0 || promptTokens <= 0 || promptTokens > maxTokensPerWord*words {
		return false
	}
	now := count{words, promptTokens}
	off := math.Abs(float64(promptTokens)-b.target) / b.target
	b.counted = true
	if b.settled && off <= unsettleBeyond {
		return true
	}
	b.learnSlope(now)
	b.last = now
	if b.settled = off <= settleWithin; b.settled {
		b.setWords(float64(words))
	} else {
		b.extrapolate()
	}
	return true
}

// startFrom makes the last count of another length the first of this one: both
// lie on one line.
func (b *builder) startFrom(other *builder) {
	b.last, b.slope = other.last, other.slope
	b.extrapolate()
}

// extrapolate sets the length of the next prompt by the last count and the slope.
func (b *builder) extrapolate() {
	b.setWords(float64(b.last.words) + (b.target-float64(b.last.tokens))/b.slope)
}

// learnSlope updates the tokens per word: the secant of the last two counts.
func (b *builder) learnSlope(now count) {
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
func (b *builder) setWords(words float64) {
	shortest := fixedWords
	if b.prefix != Warm {
		shortest += nonceWords
	}
	b.words = min(max(int(math.Round(words)), shortest), maxWords)
}
