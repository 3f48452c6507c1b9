package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// rejections are phrases with which servers name the parameter that they do
// not take; the first group is its name.
func rejections() []string {
	const name = "([A-Za-z_][A-Za-z0-9_.]*)"
	return []string{
		// OpenAI, Azure, vLLM's own checks; some gateways leave out the quotes.
		`[Uu]nsupported (?:parameter|value)s?: ['"]?` + name,
		`[Uu]nrecognized request arguments? supplied: ` + name,
		`[Uu]nknown (?:parameter|field|name):? ['"]` + name,
		// Python servers, in the text of a message.
		`['"]loc['"]: ?[(\[]['"]body['"], ?['"]` + name + `['"][)\]], ?['"]msg['"]: ?['"]Extra inputs`,
		name + `:?\s+Extra inputs are not permitted`,                           // Anthropic, and pydantic's own text
		"[`'\"]" + name + "[`'\"] is (?:deprecated|not supported|unsupported)", // Anthropic, Groq
		`[Pp]arameter ['"]` + name + `['"] is not a valid field`,
		`[Aa]rgument not supported on this model: ` + name,                  // xAI
		`does(?:n't| not) support (?:parameters: \[['"])?` + name + `['"=]`, // LiteLLM
		`extraneous key \[` + name + `\] is not permitted`,                  // Bedrock
	}
}

// RejectedParameter returns the parameter of the request that the server does
// not take, "" where none is known. The answer comes from a 400 or 422 alone,
// from Param or else from well-known phrasings of the message: a hint for
// people, on which nothing may depend. What every request needs (the model,
// the prompt) is never returned.
func (e *ServerError) RejectedParameter() string {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return ""
	}
	if isParameter(e.Param) {
		return dispensable(e.Param)
	}
	for _, phrase := range rejections() {
		if found := regexp.MustCompile(phrase).FindStringSubmatch(e.Message); found != nil {
			return dispensable(strings.TrimRight(found[1], "."))
		}
	}
	return ""
}

// isParameter tells whether s can be a parameter's name: some gateways put
// other things into the place of one.
func isParameter(s string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.[\]-]*$`).MatchString(s)
}

// dispensable returns name, or "" where no request can do without it.
func dispensable(name string) string {
	first := name
	if i := strings.IndexAny(name, ".["); i >= 0 {
		first = name[:i]
	}
	if slices.Contains([]string{"model", "messages", "prompt", "input", "inputs", "contents", "stream"}, first) {
		return ""
	}
	return name
}
