package prober

import (
	"strings"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

const (
	// maxAnswer bounds what is kept of an answer's text, maxIdentity of what a
	// reply tells of its model, and maxLogged of an answer for the log; bytes.
	maxAnswer   = 64 << 10
	maxIdentity = 128
	maxLogged   = 200
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
		a.model = beginning(string(d.Model), maxIdentity)
	}
	if a.system == "" {
		a.system = beginning(string(d.Fingerprint), maxIdentity)
	}
}

// answerVerdict looks at a complete answer, where the module wants that.
func (r *reply) answerVerdict() error {
	a, q := r.answer, &r.request.question
	if a == nil {
		return nil
	}
	out, text := &r.result.Answer, string(a.text)
	out.Model, out.Fingerprint = a.model, a.system
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
		out.Text = beginning(text, maxLogged)
	}
	if q.must {
		return fail(CheckFailed, "%s: %s", verdict, reason)
	}
	return nil
}

// beginning returns the first bytes of a text, whole characters of it.
func beginning(s string, most int) string {
	if len(s) > most {
		s = s[:most]
		for len(s) > 0 {
			r, size := utf8.DecodeLastRuneInString(s)
			if r != utf8.RuneError || size != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
