package prober

import (
	"fmt"
	"math/rand/v2"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/check"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// askPrompt asks the one prompt of a module, whose answer may have to be as
// expected.
type askPrompt struct {
	question
	outputs []prompt.Length
	rng     *rand.Rand
}

func newAskPrompt(m *config.Module) (*askPrompt, error) {
	a := &askPrompt{
		question: question{texts: []string{m.Prompt}, id: check.Hash(m.Prompt)},
		outputs:  lengthsOf(m.OutputTokens), rng: newRand(),
	}
	if m.Expect == nil {
		return a, nil
	}
	expected, err := check.New(m.Expect)
	if err != nil {
		return nil, fmt.Errorf("expect: %w", err)
	}
	a.must = true
	a.judge = func(text, finish string) (check.Verdict, string) {
		return expected.Judge(check.Answer{Text: text, Finish: finish})
	}
	return a, nil
}

func (a *askPrompt) next(int, int) question {
	q := a.question
	q.output = prompt.Draw(a.outputs, a.rng)
	return q
}
