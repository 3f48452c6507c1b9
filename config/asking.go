package config

import "unicode/utf8"

// maxPromptBytes bounds the text of a prompt.
const maxPromptBytes = 1 << 20

// asks lists the keys by which a module has other prompts than those made to
// length; more than one is a mistake.
func (m *Module) asks() []string {
	var keys []string
	for _, a := range []struct {
		key string
		set bool
	}{
		{"prompt", m.Prompt != ""},
		{"prompts_file", m.PromptsFile != ""},
		{"questions", m.Questions},
		{"reference_logprob", m.ReferenceLogprob},
	} {
		if a.set {
			keys = append(keys, a.key)
		}
	}
	return keys
}

// AsksToLength tells whether the module makes its prompts to length, as it does
// unless it has others.
func (m *Module) AsksToLength() bool { return len(m.asks()) == 0 }

// ChecksAnswers tells whether the module knows what its answers should be.
func (m *Module) ChecksAnswers() bool {
	expected := m.Expect != nil || m.Questions
	for _, prompt := range m.Prompts {
		expected = expected || prompt.Expected != ""
	}
	return expected
}

// validateAsking checks what is asked, and that what is written beside it has a
// meaning there.
func (m *Module) validateAsking(r *report, p path) {
	if prompt := p.key("prompt"); r.written(prompt) {
		if problem := textProblem(m.Prompt); problem != "" {
			r.errorf(prompt, "%s", problem)
		}
	}
	if r.written(p.key("prompts_file")) && m.PromptsFile == "" {
		r.errorf(p.key("prompts_file"), "an empty file name")
	}
	asks := m.asks()
	if len(asks) == 0 {
		return
	}
	for _, other := range asks[1:] {
		r.errorf(p.key(other), "excludes %s", asks[0])
	}
	for _, key := range []string{"input_tokens", "batch_size"} {
		if r.written(p.key(key)) {
			r.errorf(p.key(key), "means nothing beside %s", asks[0])
		}
	}
	if m.Prefix != PrefixWarm {
		r.errorf(p.key("prefix"), "want warm beside %s, or leave the key out: the same text is asked again", asks[0])
	}
	if m.ReferenceLogprob {
		m.validateReference(r, p)
	}
}

// validateReference refuses what supposes an answer.
func (m *Module) validateReference(r *report, p path) {
	if at := p.key("output_tokens"); r.written(at) {
		r.errorf(at, "means nothing beside reference_logprob, which asks for no answer")
	}
	if len(m.Concurrency) > 0 {
		r.errorf(p.key("concurrency"), "excludes reference_logprob")
	}
}

// textProblem says what is wrong with the text of a prompt; "" is nothing.
func textProblem(text string) string {
	switch {
	case text == "":
		return "an empty text"
	case len(text) > maxPromptBytes:
		return "more than 1 MiB"
	case !utf8.ValidString(text):
		return "not valid UTF-8"
	}
	return ""
}

// validateAnswers checks what is done with the answers.
func (m *Module) validateAnswers(r *report, p path) {
	if m.Expect != nil {
		if m.Prompt == "" && !r.failed[p.key("prompt")] {
			r.errorf(p.key("expect"), "needs prompt; prompts_file and questions have answers of their own")
		}
		m.Expect.validate(r, p.key("expect"))
	}
	if m.LogAnswers && m.Expect == nil && m.PromptsFile == "" && !m.Questions {
		r.errorf(p.key("log_answers"), "needs expect, prompts_file or questions: no other answer is checked")
	}
	switch fingerprint := p.key("fingerprint"); {
	case !m.Fingerprint:
	case m.ReferenceLogprob:
		r.errorf(fingerprint, "means nothing beside reference_logprob, which is watched without it")
	case m.Prompt == "" && !m.Questions && !r.failed[p.key("prompt")]:
		r.errorf(fingerprint, "needs prompt or questions: other answers differ each time")
	case len(m.OutputTokens.Ladder) > 1 || len(m.OutputTokens.Mix) > 1:
		r.errorf(fingerprint, "needs a single output_tokens: an answer that is cut elsewhere is another answer")
	}
}

// validateLengths refuses several lengths where what is estimated would be about
// none of them.
func (m *Module) validateLengths(r *report, p path) {
	const hint = "several lengths beside %s; give each a module of its own"
	several := func(l Lengths) bool { return len(l.Ladder) > 1 || len(l.Mix) > 1 }
	if several(m.InputTokens) && m.Prefix == PrefixPaired {
		r.errorf(p.key("input_tokens"), hint, "prefix: paired")
	}
	if len(m.Concurrency) == 0 {
		return
	}
	if several(m.InputTokens) {
		r.errorf(p.key("input_tokens"), hint, "concurrency")
	}
	if several(m.OutputTokens) {
		r.errorf(p.key("output_tokens"), hint, "concurrency")
	}
}

func (m *Module) validateConcurrency(r *report, p path) {
	at := p.key("concurrency")
	switch n := len(m.Concurrency); {
	case n == 0 && r.written(at):
		r.errorf(at, "an empty list; leave the key out for one request")
	case n > maxLevels:
		r.errorf(at, "%d levels, more than %d", n, maxLevels)
	case n > 0 && m.Prefix == PrefixPaired:
		r.errorf(at, "excludes prefix: paired")
	case n > 0 && m.Connection == ConnectionReuse:
		r.errorf(at, "excludes connection: reuse")
	}
	for i, level := range m.Concurrency {
		if r.failed[at.index(i)] {
			return
		}
		validateRange(r, at.index(i), level, 1, maxConcurrency)
		if i > 0 && level <= m.Concurrency[i-1] {
			r.errorf(at.index(i), "want rising numbers, got %d after %d", level, m.Concurrency[i-1])
		}
		if n := level * len(m.Prompt); level <= maxConcurrency && n > maxBurstBytes {
			r.errorf(at.index(i), "%d bytes of prompts at once, more than %d", n, maxBurstBytes)
		}
		if n := level * m.InputTokens.Max(); level <= maxConcurrency && n > maxBurstTokens {
			r.errorf(at.index(i), "%d prompt tokens at once, more than %d", n, maxBurstTokens)
		}
	}
}
