package prober

import (
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// newToolSource returns a source of the question that asks for a call of a
// function. A call that is not valid counts as such and is no failure: a small model
// may be wrong.
func newToolSource(m *config.Module) (questionSource, error) {
	tool := check.Tool()
	expected, err := check.NewToolCheck(tool)
	if err != nil {
		return nil, err
	}
	return newFormSource(m, question{texts: []string{check.ToolQuestion}, tool: &tool, judge: expected.Judge}), nil
}

// newStructuredSource returns a source of the question that asks for an answer in
// JSON, likewise.
func newStructuredSource(m *config.Module) (questionSource, error) {
	schema := check.StructuredSchema()
	expected, err := check.NewSchemaCheck(schema)
	if err != nil {
		return nil, err
	}
	return newFormSource(m, question{texts: []string{check.StructuredQuestion}, schema: schema, judge: expected.Judge}), nil
}

// newFormSource returns a source of one question.
func newFormSource(m *config.Module, q question) *promptSource {
	q.id, q.scripts = check.Hash(q.texts[0]), check.ScriptsOf(q.texts[0])
	return &promptSource{question: q, outputs: lengthsOf(m.OutputTokens), rng: newRand()}
}

// lacksForm returns why a protocol cannot be asked for a call or for JSON, where the
// module wants that; nil where it can.
func lacksForm(p *api.Protocol, m *config.Module) error {
	for _, form := range []struct {
		asked bool
		has   func(api.Protocol) bool
		key   string
		what  string
	}{
		{m.ToolCall, func(p api.Protocol) bool { return p.Tools }, "tool_call", "calls of tools"},
		{m.Structured, func(p api.Protocol) bool { return p.Structured }, "structured", "answers by a JSON schema"},
	} {
		if form.asked && !form.has(*p) {
			return fail(result.ProtocolError, "the api %s has no %s: use one of %s, or leave %s out",
				p.Name, form.what, strings.Join(api.NamesOf(form.has), ", "), form.key)
		}
	}
	return nil
}

// shown returns what an answer has, for the log: its text and its calls.
func (a *content) shown() string {
	all := string(a.text)
	for _, call := range a.calls.List() {
		all = strings.TrimSpace(all + " " + call.Name + "(" + call.Arguments + ")")
	}
	return all
}

// call returns the times of the pieces of a call, by the given clock; the zero value
// where there is none.
func (t *timeline) call(c result.Clock) (times result.Call) {
	for i := range t.events {
		if !t.events[i].arguments {
			continue
		}
		at := t.events[i].on(c) - t.requestStart
		if times.FirstArgument <= 0 {
			times.FirstArgument = at
		}
		times.Complete = at
	}
	return times
}

// hasArguments reports whether a frame adds to the arguments of a call.
func hasArguments(pieces []api.CallPiece) bool {
	return slices.ContainsFunc(pieces, func(p api.CallPiece) bool { return len(p.Arguments) > 0 })
}
