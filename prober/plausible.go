package prober

import (
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// bound makes Unknown what the server cannot have counted, given what was sent and
// asked for. Whatever it claims, budgets, costs and counters then grow by no more than
// the request can explain.
func (q *request) bound(t *result.Tokens) {
	q.told = t.Prompt
	texts := max(1, len(q.question.texts))
	// A token is at least one byte.
	most := q.bytes + texts*prompt.TemplateTokens
	if t.Prompt == 0 || t.Prompt > most {
		t.Prompt, t.Cached = api.Unknown, api.Unknown
	}
	if t.Cached > most {
		t.Cached = api.Unknown
	}
	// No server is known to go further over its cap.
	most = 2*q.question.output + 64
	if t.Output > most {
		t.Output, t.Reasoning = api.Unknown, api.Unknown
	}
	if t.Reasoning > most {
		t.Reasoning = api.Unknown
	}
}

// textBytes is the length of what is asked, without what the protocol adds.
func (q *question) textBytes() int {
	n := 0
	for _, text := range q.texts {
		n += len(text)
	}
	for _, m := range q.messages {
		n += len(m.Content)
	}
	return n
}
