package lengths

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Prompts makes the prompts of one endpoint and module: of one length, or of several
// that are drawn by weight. It is not safe for concurrent use.
type Prompts struct {
	lengths  []workload.Length
	builders []*builder // of lengths
	prefix   Prefix
	rng      *rand.Rand
}

// NewPrompts returns a Prompts of at least one length, counted as the server counts, its
// chat template included. A length below the shortest prompt (about 40 words)
// gives that one. Warm prompts of one length take no rng.
func NewPrompts(lengths []workload.Length, prefix Prefix, rng *rand.Rand) *Prompts {
	m := &Prompts{lengths: lengths, prefix: prefix, rng: rng, builders: make([]*builder, len(lengths))}
	for i, l := range lengths {
		m.builders[i] = newBuilder(l.Tokens, prefix, rng)
	}
	return m
}

// Next returns the prompt to send now.
func (m *Prompts) Next() Prompt { return m.next(workload.Draw(m.lengths, m.rng)) }

// At returns the prompt of the length at a share of all lengths by weight.
func (m *Prompts) At(share float64) Prompt { return m.next(workload.At(m.lengths, share)) }

// Use makes it a mix of other lengths, at least one. What was learnt of a length is
// kept, and new lengths begin with what was learnt of others.
func (m *Prompts) Use(lengths []workload.Length) {
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
func (m *Prompts) Like(p Prompt) Prompt { return m.next(p.Target) }

func (m *Prompts) next(target int) Prompt {
	p := m.builder(target).next()
	p.Target = target
	return p
}

// Learn takes the server's count of a prompt that Next returned, at any time, and
// says what it means. The next prompt of that length comes nearer to it, and so does
// the first one of each length that has not been counted yet. Counts that cannot be
// are ignored, as if the prompt were whole.
func (m *Prompts) Learn(p Prompt, promptTokens int, now time.Time) Verdict {
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
func (m *Prompts) Resting(p Prompt, now time.Time) (Count, bool) {
	b := m.builder(p.Target)
	return b.truncated, now.Before(b.rest)
}

// builder returns that of a length, nil for none of the mix.
func (m *Prompts) builder(target int) *builder {
	for i, l := range m.lengths {
		if l.Tokens == target {
			return m.builders[i]
		}
	}
	return nil
}
