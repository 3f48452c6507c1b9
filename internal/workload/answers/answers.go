// Package answers is the workload of questions and prompts whose right answers are known, of calls of tools and of JSON
// by a schema: what to ask, what an answer is worth, and how often those of an endpoint have a sign of corruption.
package answers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Workload returns the workload.
func Workload() workload.Workload {
	known := result.AnswerVerdicts()
	return workload.Workload{
		Kinds: []workload.Kind{
			{Key: "prompt", New: newPromptSource, Verdicts: known, Answers: true, Tokens: func(m *config.Module, count func(string) int) int {
				return count(m.Prompt)
			}},
			{Key: "prompts_file", New: newFileSource, Verdicts: known, Answers: true, Tokens: longest},
			{Key: "questions", New: newBuiltInSource, Verdicts: known, Answers: true, Tokens: workload.Short},
			{
				Key: "tool_call", New: newToolSource, Verdicts: result.ToolCallVerdicts(), Answers: true, Calls: true, Tokens: workload.Short,
				Has: func(p api.Protocol) bool { return p.Tools }, What: "calls of tools",
			},
			{
				Key: "structured", New: newStructuredSource, Verdicts: result.StructuredVerdicts(), Answers: true, Tokens: workload.Short,
				Has: func(p api.Protocol) bool { return p.Structured }, What: "answers by a JSON schema",
			},
		},
		Estimate: func(*config.Endpoint, *config.Module) workload.Estimate { return new(Estimate) },
		Finding:  new(Finding), Metrics: metrics,
	}
}

func longest(m *config.Module, count func(text string) int) int {
	most := 0
	for _, p := range m.Prompts {
		n := workload.TemplateTokens
		for _, message := range p.Messages {
			n += count(message.Content)
		}
		most = max(most, n)
	}
	return most
}

// source asks questions with answers of some lengths.
type source struct {
	next    func() workload.Question // without a cap
	outputs []workload.Length
	rng     *rand.Rand
}

func (s *source) Next(int, int) workload.Question {
	q := s.next()
	q.Output = workload.Draw(s.outputs, s.rng)
	return q
}

// newOneSource asks the one prompt of a question.
func newOneSource(m *config.Module, q workload.Question) *source {
	q.ID, q.Scripts = workload.Hash(q.Texts[0]), ScriptsOf(q.Texts[0])
	return &source{func() workload.Question { return q }, workload.LengthsOf(m.OutputTokens), workload.NewRand()}
}

// newDeckSource asks questions of a list, each by its weight. An answer that is not
// the expected one counts as such and is no failure: a small model may be wrong.
func newDeckSource(m *config.Module, n int, weight func(i int) float64, at func(i int) workload.Question) *source {
	rng := workload.NewRand()
	deck := NewDeck(n, weight, rng)
	return &source{func() workload.Question { return at(deck.Next()) }, workload.LengthsOf(m.OutputTokens), rng}
}

// newPromptSource asks the one prompt of a module, whose answer may have to be as expected.
func newPromptSource(_ *config.Endpoint, m *config.Module) (workload.Source, error) {
	q := workload.Question{Texts: []string{m.Prompt}}
	if m.Expect != nil {
		expected, err := newExpectation(m.Expect)
		if err != nil {
			return nil, fmt.Errorf("expect: %w", err)
		}
		q.Must, q.Judge = true, expected.Judge
	}
	return newOneSource(m, q), nil
}

func newFileSource(_ *config.Endpoint, m *config.Module) (workload.Source, error) {
	if len(m.Prompts) == 0 {
		return nil, fmt.Errorf("prompts_file %q has no prompt", m.PromptsFile)
	}
	weight := func(i int) float64 { return m.Prompts[i].Weight }
	return newDeckSource(m, len(m.Prompts), weight, func(i int) workload.Question { return questionOf(&m.Prompts[i]) }), nil
}

func questionOf(p *config.Prompt) workload.Question {
	q := workload.Question{Messages: p.Messages}
	var whole strings.Builder
	for _, m := range p.Messages {
		whole.WriteString(m.Role + "\n" + m.Content + "\n")
	}
	q.ID, q.Scripts = workload.Hash(whole.String()), ScriptsOf(whole.String())
	if len(p.Messages) == 1 && p.Messages[0].Role == "user" {
		q.Texts, q.Messages = []string{p.Messages[0].Content}, nil
	}
	if p.Expected != "" {
		q.Judge = func(a workload.Answer) (result.Verdict, string) { return Contains(a.Text, p.Expected), "" }
	}
	return q
}

func newBuiltInSource(_ *config.Endpoint, m *config.Module) (workload.Source, error) {
	all := Questions()
	return newDeckSource(m, len(all), nil, func(i int) workload.Question {
		return workload.Question{
			Texts: []string{all[i].Text}, ID: workload.Hash(all[i].Text),
			Judge: func(a workload.Answer) (result.Verdict, string) { return all[i].Judge(a.Text), "" },
		}
	}), nil
}

// newToolSource asks for a call of a function. One that is not valid is no failure: a small model may be wrong.
func newToolSource(_ *config.Endpoint, m *config.Module) (workload.Source, error) {
	tool := Tool()
	judge, err := byTool(tool)
	if err != nil {
		return nil, err
	}
	return newOneSource(m, workload.Question{Texts: []string{forms().Tool.Question}, Tool: &tool, Judge: judge}), nil
}

// newStructuredSource returns a source of the question that asks for an answer in JSON, likewise.
func newStructuredSource(_ *config.Endpoint, m *config.Module) (workload.Source, error) {
	form := forms().Structured
	schema := json.RawMessage(form.Schema)
	judge, err := bySchema(schema)
	if err != nil {
		return nil, err
	}
	return newOneSource(m, workload.Question{Texts: []string{form.Question}, Schema: schema, Judge: judge}), nil
}
