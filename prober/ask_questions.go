package prober

import (
	"math/rand/v2"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/check"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// askQuestions asks the built-in questions in turn. A wrong answer counts as
// such and is no failure: a small model may be wrong.
type askQuestions struct {
	questions []check.Question
	deck      *prompt.Deck
	outputs   []prompt.Length
	rng       *rand.Rand
}

func newAskQuestions(m *config.Module) *askQuestions {
	all, rng := check.Questions(), newRand()
	return &askQuestions{
		questions: all, deck: prompt.NewDeck(len(all), nil, rng),
		outputs: lengthsOf(m.OutputTokens), rng: rng,
	}
}

func (a *askQuestions) next(int, int) question {
	asked := &a.questions[a.deck.Next()]
	return question{
		texts: []string{asked.Text}, id: check.Hash(asked.Text), output: prompt.Draw(a.outputs, a.rng),
		judge: func(text, _ string) (check.Verdict, string) { return asked.Judge(text), "" },
	}
}
