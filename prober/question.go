package prober

import (
	"cmp"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// maxAnswer bounds what is kept of an answer's text, maxName the name of a
	// model or a system, and maxLogged an answer in the log; bytes.
	maxAnswer = 64 << 10
	maxName   = 256
	maxLogged = 200
	// usualToken and usualAnswer are the bytes of a token and of an answer that
	// memory is set aside for when a reply begins.
	usualToken, usualAnswer = 12, 2 << 10
)

// content collects what a user would see of an answer. What is past the bound is dropped.
type content struct {
	text      []byte
	calls     workload.Calls
	reasoning []byte // before any text
	inspect   bool   // the answer is looked at for signs of corruption
	calling   bool   // a call is asked for
	identify  bool   // the names below are asked for
	first     bool   // of the answer the first token is watched
	model     string // the first that the reply names
	system    string
	top       []api.TokenLogprob // the likeliest first tokens
}

// newContent returns a content for the answer to a question; nil where nothing looks at it. The many answers of
// a burst are not inspected.
func (q *request) newContent() *content {
	if q.served.protocol.Kind != api.Generation || q.many {
		return nil
	}
	m := q.prober.module
	first := q.question.First != nil
	c := &content{identify: m.Fingerprint || first, first: first, inspect: q.slot == nil && !first, calling: q.question.Tool != nil}
	if q.question.Judge == nil && !c.identify && !c.inspect && !m.KeepAnswer {
		return nil
	}
	c.text = make([]byte, 0, min(q.question.Output*usualToken, usualAnswer))
	return c
}

func (a *content) add(d *api.Delta) {
	a.text = appendBounded(appendBounded(a.text, d.Text), d.Refusal)
	if (a.inspect || a.calling) && len(a.text) == 0 {
		a.reasoning = appendBounded(a.reasoning, d.Reasoning)
	}
	if a.first { // it may be one of reasoning or of a tool call
		a.text = appendBounded(appendBounded(a.text, d.Reasoning), d.Tool)
		if a.top == nil {
			a.top = d.Top
		}
	}
	if a.calling {
		a.calls.Add(d.Calls)
	}
	if a.identify {
		a.model, a.system = cmp.Or(a.model, string(d.Model)), cmp.Or(a.system, string(d.Fingerprint))
	}
}

func appendBounded(all, text []byte) []byte {
	return append(all, text[:min(len(text), maxAnswer-len(all))]...)
}

// inspect looks for signs that the answer or, where it has not begun, the reasoning was corrupted.
func (r *reply) inspect() {
	a := r.answer
	if a == nil || !a.inspect {
		return
	}
	r.result.Inspected = true
	text := cmp.Or(string(a.text), string(a.reasoning))
	found := answers.Inspect(workload.Answer{Text: text, Finish: r.finish}, r.question.Scripts)
	if r.result.NoFinish {
		found = append(found, result.SignNoFinish)
	}
	r.result.Integrity = found
}

// answerVerdict looks at a complete answer, where the module wants that.
func (r *reply) answerVerdict() error {
	a, q := r.answer, &r.question
	if a == nil {
		return nil
	}
	out, text := &r.result.Answer, string(a.text)
	names := r.prober.endpoint.names
	out.Model, out.Fingerprint = names.Clean(a.model), names.Clean(a.system)
	switch {
	case a.first:
		r.result.First = &result.FirstToken{Text: text[:min(len(text), maxName)], Top: a.top}
		q.First(r.result.First)
	case a.identify:
		out.Hash = workload.Hash(text)
	}
	if r.prober.module.KeepAnswer {
		out.Text = r.attempt.known().Block(a.shown(), maxAnswer)
	}
	if q.Judge == nil {
		return nil
	}
	verdict, reason := q.Judge(workload.Answer{Text: text, Finish: r.finish, Calls: a.calls.List(), Reasoning: string(a.reasoning)})
	out.Verdict = verdict
	if verdict.IsRight() {
		return nil
	}
	if r.prober.module.LogAnswers {
		out.Text = r.attempt.known().Line(a.shown(), maxLogged)
	}
	if q.Must {
		return fail(result.CheckFailed, "%s: %s", verdict, reason)
	}
	out.Reason = reason
	return nil
}

// shownText returns what a user sees of an answer; "" where nothing looked at it.
func (a *content) shownText() string {
	if a == nil {
		return ""
	}
	return string(a.text)
}

// shown returns what an answer has, for the log: its text and its calls.
func (a *content) shown() string {
	all := string(a.text)
	for _, call := range a.calls.List() {
		all = strings.TrimSpace(all + " " + call.Name + "(" + call.Arguments + ")")
	}
	return all
}

// call returns the times of the pieces of a call, by the given clock; the zero value where there is none.
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

func hasArguments(pieces []api.CallPiece) bool {
	return slices.ContainsFunc(pieces, func(p api.CallPiece) bool { return len(p.Arguments) > 0 })
}
