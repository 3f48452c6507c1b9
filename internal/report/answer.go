package report

import (
	"fmt"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// answer says what the answer or the score came to, where somebody looked.
func (p *page) answer(r *result.Result) {
	var rows []row
	add := func(label, text string) {
		if text != "" {
			rows = append(rows, row{label, text})
		}
	}
	a := &r.Answer
	add("verdict", string(a.Verdict))
	add("began with", a.Text)
	add("text hash", a.Hash)
	add("model told", a.Model)
	add("fingerprint", a.Fingerprint)
	if s := r.Logprob; s.Tokens > 0 {
		add("reference", fmt.Sprintf("mean log-probability %.4f nats over %s", s.Mean, tokens(s.Tokens)))
	}
	p.section("Answer", rows)
}
