package prober

import (
	"github.com/inference-exporter/inference_exporter/prober/check"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// askReference has the reference passage scored, which never changes.
type askReference struct{}

func (askReference) next(int, int) question {
	return question{texts: []string{prompt.ReferencePassage}, id: check.Hash(prompt.ReferencePassage)}
}
