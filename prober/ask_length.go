package prober

import (
	"math/rand/v2"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// askLength asks prompts made to length, each for an answer as long as its cap
// where the server can be made to.
type askLength struct {
	prompts *prompt.Mix
	prefix  prompt.Prefix
	outputs []prompt.Length
	rng     *rand.Rand
	learnt  bool // the server has told how long a prompt was
}

func newAskLength(m *config.Module) *askLength {
	a := &askLength{prefix: prompt.Prefix(m.Prefix), outputs: lengthsOf(m.OutputTokens), rng: newRand()}
	a.prompts = prompt.NewMix(lengthsOf(m.InputTokens), a.prefix, a.rng)
	return a
}

func (a *askLength) next(texts, context int) question {
	from, first := a.prompts, a.prompts.Next()
	wanted, output := first.Target, prompt.Draw(a.outputs, a.rng)
	// Before the first count a prompt may be half as long again as it should be.
	// One that does not fit is refused, and never counted.
	if !a.learnt && context > 0 && wanted+wanted/2+output > context {
		from = prompt.NewMix([]prompt.Length{{Tokens: wanted * 2 / 3}}, a.prefix, a.rng)
		first = from.Next()
	}
	q := question{texts: []string{first.Text}, length: first.Target, wanted: wanted, output: output, exact: true}
	asked := prompt.Prompt{Words: first.Words, Target: wanted}
	if c, resting := a.prompts.Resting(asked, time.Now()); resting {
		q.skip = truncates(c)
	}
	for len(q.texts) < texts {
		q.texts = append(q.texts, from.Like(first).Text)
	}
	q.learn = func(tokens int) *result.Skip {
		a.learnt = true
		c := prompt.Count{Words: first.Words, Tokens: tokens / texts}
		switch a.prompts.Learn(asked, c.Tokens, time.Now()) {
		case prompt.Truncated:
			return truncates(c)
		case prompt.Short:
			return skip(result.SkipTruncated, "the server counts %d tokens of a prompt made to have %d: either it truncates prompts, "+
				"or the next one is longer", c.Tokens, wanted)
		default:
			return nil
		}
	}
	return q
}

// truncates is why prompts of a length are not asked, of which the server made c.
func truncates(c prompt.Count) *result.Skip {
	return skip(result.SkipTruncated, "the server truncates prompts: it counts %d tokens of one of %d words; "+
		"raise its context length (num_ctx of Ollama) or lower input_tokens", c.Tokens, c.Words)
}

// lengthsOf returns the lengths to draw from.
func lengthsOf(l config.Lengths) []prompt.Length {
	if len(l.Mix) == 0 {
		return []prompt.Length{{Tokens: l.Max()}}
	}
	all := make([]prompt.Length, len(l.Mix))
	for i, w := range l.Mix {
		all[i] = prompt.Length{Tokens: w.Tokens, Weight: w.Weight}
	}
	return all
}
