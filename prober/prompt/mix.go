package prompt

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Length is a length in tokens, and how often it is drawn relative to others.
type Length struct {
	Tokens int
	// Weight is positive and finite; it means nothing where there is one length.
	Weight float64
}

// Draw returns the tokens of one of the lengths, at random by weight. There is
// one at least; one alone takes no rng.
func Draw(lengths []Length, rng *rand.Rand) int {
	if len(lengths) == 1 {
		return lengths[0].Tokens
	}
	return At(lengths, rng.Float64())
}

// At returns the tokens of the length at a share of all lengths by weight, from 0 to 1.
func At(lengths []Length, share float64) int {
	last := len(lengths) - 1
	total := 0.0
	for _, l := range lengths {
		total += l.Weight
	}
	at := share * total
	for _, l := range lengths[:last] {
		if at -= l.Weight; at < 0 {
			return l.Tokens
		}
	}
	return lengths[last].Tokens
}

// Mix makes the prompts of one endpoint and module: of one length, or of several
// that are drawn by weight. It is not safe for concurrent use.
type Mix struct {
	lengths  []Length
	builders []*builder // of lengths
	prefix   Prefix
	rng      *rand.Rand
}

// NewMix returns a Mix of at least one length, counted as the server counts, its
// chat template included. A length below the shortest prompt (about 40 words)
// gives that one. Warm prompts of one length take no rng.
func NewMix(lengths []Length, prefix Prefix, rng *rand.Rand) *Mix {
	m := &Mix{lengths: lengths, prefix: prefix, rng: rng, builders: make([]*builder, len(lengths))}
	for i, l := range lengths {
		m.builders[i] = newBuilder(l.Tokens, prefix, rng)
	}
	return m
}

// Next returns the prompt to send now.
func (m *Mix) Next() Prompt { return m.next(Draw(m.lengths, m.rng)) }

// At returns the prompt of the length at a share of all lengths by weight.
func (m *Mix) At(share float64) Prompt { return m.next(At(m.lengths, share)) }

// Use makes it a mix of other lengths, at least one. What was learnt of a length is
// kept, and new lengths begin with what was learnt of others.
func (m *Mix) Use(lengths []Length) {
	counted := slices.IndexFunc(m.builders, func(b *builder) bool { return b.counted })
	builders := make([]*builder, len(lengths))
	for i, l := range lengths {
		b := m.builder(l.Tokens)
		if b == nil {
			b = newBuilder(l.Tokens, m.prefix, m.rng)
			if counted >= 0 {
				b.startFrom(m.builders[counted])
			}
		}
		builders[i] = b
	}
	m.lengths, m.builders = lengths, builders
}

// Like returns another prompt of the same length as one that Next returned, for
// requests with several texts.
func (m *Mix) Like(p Prompt) Prompt { return m.next(p.Target) }

func (m *Mix) next(target int) Prompt {
	p := m.builder(target).next()
	p.Target = target
	return p
}

// Learn takes the server's count of a prompt that Next returned, at any time, and
// says what it means. The next prompt of that length comes nearer to it, and so does
// the first one of each length that has not been counted yet. Counts that cannot be
// are ignored, as if the prompt were whole.
func (m *Mix) Learn(p Prompt, promptTokens int, now time.Time) Verdict {
	b := m.builder(p.Target)
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

// Resting returns the count of a prompt as long as p that the server truncated, if
// that is so recent that p is not to be asked now.
func (m *Mix) Resting(p Prompt, now time.Time) (Count, bool) {
	b := m.builder(p.Target)
	return b.truncated, now.Before(b.rest)
}

// builder returns that of a length, nil for none of the mix.
func (m *Mix) builder(target int) *builder {
	for i, l := range m.lengths {
		if l.Tokens == target {
			return m.builders[i]
		}
	}
	return nil
}
