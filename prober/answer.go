package prober

import (
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

const (
	// maxAnswer bounds what is kept of an answer's text, maxName the name of a
	// model or a system, and maxLogged an answer in the log; bytes.
	maxAnswer = 64 << 10
	maxName   = 256
	maxLogged = 200
)

// content collects what a user would see of an answer, for modules that look at
// it. What is past the bound is dropped.
type content struct {
	text     []byte
	identify bool   // the names below are asked for
	model    string // as the reply tells it first
	system   string
}

// lookedAt returns where to collect the answer to a question; nil for the many
// that nobody looks at, which must not cost more for it.
func (q *request) lookedAt() *content {
	watched := q.prober.module.Fingerprint && q.served.protocol.Kind == api.Generation
	if q.question.judge == nil && !watched {
		return nil
	}
	return &content{identify: watched}
}

// add takes what a frame adds.
func (a *content) add(d *api.Delta) {
	for _, text := range [...][]byte{d.Text, d.Refusal} {
		a.text = append(a.text, text[:min(len(text), maxAnswer-len(a.text))]...)
	}
	if !a.identify {
		return
	}
	if a.model == "" {
		a.model = string(d.Model)
	}
	if a.system == "" {
		a.system = string(d.Fingerprint)
	}
}

// answerVerdict looks at a complete answer, where the module wants that.
func (r *reply) answerVerdict() error {
	a, q := r.answer, &r.request.question
	if a == nil {
		return nil
	}
	out, text := &r.result.Answer, string(a.text)
	names := r.request.prober.endpoint.names
	out.Model, out.Fingerprint = names.Clean(a.model), names.Clean(a.system)
	if a.identify {
		out.Hash = check.Hash(text)
	}
	if q.judge == nil {
		return nil
	}
	verdict, reason := q.judge(text, r.finish)
	out.Verdict = verdict
	if verdict == check.Correct {
		return nil
	}
	if r.request.prober.module.LogAnswers {
		out.Text = r.attempt.known().Line(text, maxLogged)
	}
	if q.must {
		return fail(result.CheckFailed, "%s: %s", verdict, reason)
	}
	return nil
}
