package prober

import (
	"math/rand/v2"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// askPrompts asks the prompts of a file by their weights. An answer that is not
// the expected one counts as such and is no failure.
type askPrompts struct {
	prompts []config.Prompt
	deck    *prompt.Deck
	outputs []prompt.Length
	rng     *rand.Rand
}

func newAskPrompts(m *config.Module) *askPrompts {
	rng := newRand()
	return &askPrompts{
		prompts: m.Prompts, outputs: lengthsOf(m.OutputTokens), rng: rng,
		deck: prompt.NewDeck(len(m.Prompts), func(i int) float64 { return m.Prompts[i].Weight }, rng),
	}
}

func (a *askPrompts) next(int, int) question {
	p := &a.prompts[a.deck.Next()]
	q := question{output: prompt.Draw(a.outputs, a.rng)}
	var whole strings.Builder
	for _, m := range p.Messages {
		q.messages = append(q.messages, api.Message{Role: m.Role, Content: m.Content})
		whole.WriteString(m.Role + "\n" + m.Content + "\n")
	}
	q.id = check.Hash(whole.String())
	if len(p.Messages) == 1 && p.Messages[0].Role == "user" {
		q.texts, q.messages = []string{p.Messages[0].Content}, nil
	}
	if p.Expected != "" {
		q.judge = func(text, _ string) (check.Verdict, string) { return check.Contains(text, p.Expected), "" }
	}
	return q
}
