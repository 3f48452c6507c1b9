package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// MaxTarget is the longest wanted length, in tokens; more is cut to it.
const MaxTarget = 2_000_000

// MaxBytesPerToken is more bytes than a token of prose has on the average: a word
// of the prompts has 5.8 bytes with its space and at least minSlope tokens.
const MaxBytesPerToken = 9

// TemplateTokens is more than servers add: templates and preambles of tools and rerankers have a few hundred tokens.
const TemplateTokens = 1024

const (
	firstSlope = 1.2 // the tokens per word before the server has counted any
	// fullSlope is more tokens per word than usual tokenizers make of prose: a prompt by it is not longer than wanted.
	fullSlope = 1.5 * firstSlope
	// minSlope is fewer tokens per word than any tokenizer needs: those in use split at spaces, and those with
	// tokens of several words (SuperBPE) save up to a third. A count below that is not of the whole prompt.
	minSlope = 2.0 / 3
	// maxSlope is more: a token is at least one byte.
	maxSlope = 6
	// minContext is fewer tokens than any model has room for: CLIP has 77. A server that counts fewer does not
	// count the prompt, or not what it had cached of it.
	minContext = 64
	// noise is by how many tokens prompts of the same number of words differ at most.
	noise = 8
	// settleWithin is how near to the target the length settles, and unsettleBeyond how far from it the search
	// goes on, as with another tokenizer. In between lies noise.
	settleWithin, unsettleBeyond = 0.02, 0.05
	// minSpread is how many words two counts must be apart for their difference to say more than that noise.
	minSpread   = 8
	clearSpread = 64 // how many words more must bring more tokens than the noise
	// tryAgain is how long a length is not asked that the server truncates, and its counts are not believed
	// after one that cannot be: meanwhile it may have been restarted with another configuration.
	tryAgain = 15 * time.Minute
)

// Prompt is the text of one user message.
type Prompt struct {
	Text   string
	Words  int // the length of Text
	Target int // the wanted length in tokens
}

// Count is the length of one prompt, by us and by the server.
type Count struct {
	Words, Tokens int
}

// Verdict is what a server's count says of a prompt.
type Verdict int

const (
	Whole Verdict = iota // a prompt that the server took as it is, as far as its count says
	// Short is a prompt that has too few tokens to be taken for one of its target.
	// It was truncated, or is the first of its length and of an unusual tokenizer.
	Short
	// Truncated is a Short prompt with fewer tokens than any tokenizer makes of it, no more than one of fewer
	// words or, after such a prompt, less than a token for each word.
	Truncated
)

type builder struct {
	target float64
	prefix config.Prefix
	rng    *rand.Rand

	words   int     // of the next prompt
	slope   float64 // tokens per word, by the counts so far
	last    Count   // the latest count that moved the length
	settled bool    // the length is good
	counted bool    // a prompt of this length has been counted

	truncated Count     // the latest count of a truncated prompt, until a whole one
	rest      time.Time // until when no prompt is to be asked
	deaf      time.Time // until when no count is taken
}

func newBuilder(target int, prefix config.Prefix, rng *rand.Rand) *builder {
	b := &builder{target: float64(min(max(target, 0), MaxTarget)), prefix: prefix, rng: rng}
	b.guess(firstSlope)
	return b
}

// guess sets the length of the next prompt without any count.
func (b *builder) guess(slope float64) {
	b.slope, b.last, b.settled = slope, Count{}, false
	b.setWords(b.target / slope)
}

// next returns the prompt to send now, but for its target.
func (b *builder) next() Prompt {
	var nonce *rand.Rand
	if b.prefix != config.PrefixWarm {
		nonce = b.rng
	}
	return Prompt{Text: compose(b.words, nonce), Words: b.words}
}

// learn takes the server's count of a prompt, and says what it means; a count that cannot be is not taken. The next
// prompt comes nearer to the target: by proportion after the first count, by the line through the last two after that.
func (b *builder) learn(c Count, now time.Time) (v Verdict, taken bool) {
	least := minSlope*float64(c.Words) - noise
	tokens := float64(c.Tokens)
	switch {
	case c.Words <= 0 || c.Tokens <= 0 || now.Before(b.deaf):
		return Whole, false
	case tokens > maxSlope*float64(c.Words)+TemplateTokens:
		b.guess(firstSlope)
		b.deaf = now.Add(tryAgain)
		return Whole, false
	case tokens < min(minContext, least):
		return Whole, false
	}
	v = b.judge(c, least)
	b.counted = true
	if v == Truncated {
		// It may have been too long, and one as wanted fit: a shorter one is to show how many tokens words have.
		b.guess(fullSlope)
		if b.truncated != (Count{}) {
			b.rest = now.Add(tryAgain)
		}
		b.truncated = c
		return v, false
	}
	if v == Whole {
		b.truncated = Count{}
	}
	off := math.Abs(tokens-b.target) / b.target
	if b.settled && off <= unsettleBeyond {
		return v, true
	}
	b.learnSlope(c)
	b.last = c
	if b.settled = off <= settleWithin; b.settled {
		b.setWords(float64(c.Words))
	} else {
		b.extrapolate()
	}
	return v, true
}

// judge says what a count means, of which a whole prompt has at least so many. Before
// a length is known, nothing is expected of it but a token for each word.
func (b *builder) judge(c Count, least float64) Verdict {
	enough := (1-unsettleBeyond)*b.target - noise
	if !b.counted {
		enough = min(enough, float64(c.Words))
	}
	tokens := float64(c.Tokens)
	switch {
	case tokens < least:
		return Truncated
	case tokens >= enough:
		return Whole
	case b.truncated != Count{} && c.Tokens < c.Words:
		return Truncated
	case b.last != Count{} && c.Words >= b.last.Words+clearSpread && c.Tokens <= b.last.Tokens+noise:
		return Truncated
	}
	return Short
}

// startFrom makes the last count of another length the first of this one: both lie on one line.
func (b *builder) startFrom(other *builder) {
	b.last, b.slope = other.last, other.slope
	b.extrapolate()
}

// extrapolate sets the length of the next prompt by the last count and the slope.
func (b *builder) extrapolate() {
	b.setWords(float64(b.last.Words) + (b.target-float64(b.last.Tokens))/b.slope)
}

// learnSlope updates the tokens per word: the secant of the last two counts.
func (b *builder) learnSlope(now Count) {
	spread := now.Words - b.last.Words
	switch {
	case b.last == Count{}:
		b.slope = float64(now.Tokens) / float64(now.Words)
	case max(spread, -spread) >= minSpread:
		b.slope = float64(now.Tokens-b.last.Tokens) / float64(spread)
	}
	b.slope = min(max(b.slope, minSlope), maxSlope)
}

// setWords sets the length of the next prompt within the bounds of tokens per word, whatever the server counts.
func (b *builder) setWords(words float64) {
	shortest := float64(fixedWords)
	if b.prefix != config.PrefixWarm {
		shortest += nonceWords
	}
	longest := max(shortest, math.Floor(b.target/minSlope))
	shortest = max(shortest, math.Ceil((b.target-TemplateTokens)/maxSlope))
	b.words = int(min(max(math.Round(words), shortest), longest))
}

// Prompts makes the prompts of one endpoint and module, of one length or of several that are drawn by weight, without a
// tokenizer: it counts words and learns from the server's counts how many tokens they are. It is not safe for concurrent use.
type Prompts struct {
	lengths  []workload.Length
	builders map[int]*builder // of lengths, by their tokens
	prefix   config.Prefix
	rng      *rand.Rand
}

// NewPrompts returns a Prompts of at least one length, in tokens as the server counts, its chat template
// included. The shortest prompt has about 40 words. Warm prompts of one length take no rng.
func NewPrompts(lengths []workload.Length, prefix config.Prefix, rng *rand.Rand) *Prompts {
	m := &Prompts{prefix: prefix, rng: rng}
	m.Use(lengths)
	return m
}

// Next returns the prompt to send now.
func (m *Prompts) Next() Prompt { return m.next(workload.Draw(m.lengths, m.rng)) }

// At returns the prompt of the length at a share of all lengths by weight.
func (m *Prompts) At(share float64) Prompt { return m.next(workload.At(m.lengths, share)) }

// Use makes it a mix of other lengths, at least one. What was learnt of a length is
// kept, and new lengths begin with what was learnt of others.
func (m *Prompts) Use(lengths []workload.Length) {
	counted := slices.IndexFunc(m.lengths, func(l workload.Length) bool { return m.builders[l.Tokens].counted })
	builders := map[int]*builder{}
	for _, l := range lengths {
		b := m.builders[l.Tokens]
		if b == nil {
			b = newBuilder(l.Tokens, m.prefix, m.rng)
			if counted >= 0 {
				b.startFrom(m.builders[m.lengths[counted].Tokens])
			}
		}
		builders[l.Tokens] = b
	}
	m.lengths, m.builders = lengths, builders
}

// Like returns another prompt of the same length as one that Next returned, for requests with several texts.
func (m *Prompts) Like(p Prompt) Prompt { return m.next(p.Target) }

func (m *Prompts) next(target int) Prompt {
	p := m.builders[target].next()
	p.Target = target
	return p
}

// Learn takes the server's count of a prompt that Next returned, at any time, and says what it
// means. The next prompt of that length comes nearer to it, and so does the first one of each
// length without a count. Counts that cannot be are ignored, as if the prompt were whole.
func (m *Prompts) Learn(p Prompt, promptTokens int, now time.Time) Verdict {
	b := m.builders[p.Target]
	if b == nil {
		return Whole
	}
	v, taken := b.learn(Count{p.Words, promptTokens}, now)
	if !taken {
		return v
	}
	for _, other := range m.builders {
		if !other.counted {
			other.startFrom(b)
		}
	}
	return v
}

// Resting returns the latest truncated count of prompts as long as p, and whether they are not to be asked now.
func (m *Prompts) Resting(p Prompt, now time.Time) (Count, bool) {
	b := m.builders[p.Target]
	return b.truncated, now.Before(b.rest)
}
