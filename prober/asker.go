package prober

import (
	"fmt"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// asker makes the questions of a module, one after the other.
type asker interface {
	// next returns the next question, of so many texts where an endpoint embeds
	// or ranks and of one elsewhere. context is how many tokens the model has
	// room for, 0 where that is not known.
	next(texts, context int) question
}

// question is what one request asks.
type question struct {
	// texts are what to ask: the one prompt, the texts to embed or to rank, or
	// the one text to score; none where there are messages.
	texts []string
	// messages are a conversation to go on with.
	messages []api.Message
	// length is how many tokens each text was made to, and wanted how many it is
	// to have; 0 where it was not made to length.
	length, wanted int
	// output caps the answer in tokens; exact asks for one of that length, where
	// the server can.
	output int
	exact  bool
	// id identifies the prompt in Answer; "" where it is made to length.
	id string
	// judge says what an answer is worth, and why it is not right; nil where
	// nothing is expected.
	judge func(text, finish string) (check.Verdict, string)
	// must makes a failure of an answer that is not right.
	must bool
	// skip is why not to ask now; nil where it can be asked.
	skip *result.Skip
	// learn takes the server's count of all texts, and returns why an answer to
	// them is not one to what was to be asked; nil where nothing is learnt.
	learn func(tokens int) *result.Skip
}

// newAsker returns what makes a module's questions.
func newAsker(m *config.Module) (asker, error) {
	switch {
	case m.ReferenceLogprob:
		return askReference{}, nil
	case m.Questions:
		return newAskQuestions(m), nil
	case m.PromptsFile != "":
		if len(m.Prompts) == 0 {
			return nil, fmt.Errorf("prompts_file %q has no prompt", m.PromptsFile)
		}
		return newAskPrompts(m), nil
	case m.Prompt != "":
		return newAskPrompt(m)
	}
	return newAskLength(m), nil
}
