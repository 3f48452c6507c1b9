package simulator

import "strconv"

// native is what the requests of the engines' own protocols have in common,
// beyond their spelling: a prompt without a template.
type native struct {
	prompt         string
	limit          *int // nil is fallback
	fallback       int  // 0 is none
	minimum        int
	ignoreEOS      bool
	temperature    *float64
	sampledUnasked bool // without a temperature the answer is sampled
	stream         bool
}

// ask returns the request in the words of all protocols; these protocols count
// along.
func (n native) ask() (ask, error) {
	a := ask{
		text: n.prompt, prompt: tokenize(nil, n.prompt), maxOutput: n.fallback, minOutput: n.minimum, ignoreEOS: n.ignoreEOS,
		sampled: n.sampledUnasked, stream: n.stream, continuousUsage: true,
	}
	if n.limit != nil {
		a.maxOutput = *n.limit
	}
	if n.temperature != nil {
		a.sampled = *n.temperature > 0
	}
	switch {
	case len(a.prompt) == 0:
		return ask{}, badRequest("the prompt must not be empty")
	case n.limit != nil && *n.limit < 1:
		return ask{}, badRequest("the limit on the output must be at least 1, got " + strconv.Itoa(*n.limit))
	case a.minOutput < 0 || a.maxOutput > 0 && a.minOutput > a.maxOutput:
		return ask{}, badRequest("the least output must be from 0 to the limit")
	}
	return a, nil
}

// material gathers what a reply in the engines' own protocols has said so far.
type material struct {
	text   []byte
	usage  usage
	tokens int
}

// take notes what an event adds.
func (m *material) take(e *event) {
	m.text = append(m.text, e.text...)
	m.tokens += e.tokens
	if e.usage == nil {
		return
	}
	cached := m.usage.cached
	if m.usage = *e.usage; m.usage.cached < 0 {
		m.usage.cached = cached // told with the role, before the first token
	}
}
