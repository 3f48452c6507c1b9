package simulator

import (
	"fmt"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// form is what a request wants the answer to be: a call of a function, or JSON.
type form struct {
	tool   string // the name of the function; "" is JSON
	sample string // JSON that meets the schema
}

// formOf returns what a request wants the answer to be; nil is text.
func (q *reading) formOf(v *fastjson.Value) *form {
	tool := at(v, q.Tool)
	if schema := at(tool, q.Parameters); schema != nil {
		return &form{string(tool.GetStringBytes("name")), jsonOf(sampleOf(schema))}
	}
	for _, path := range q.Schema {
		schema := at(v, path)
		if schema != nil && schema.Type() == fastjson.TypeString { // a schema as a text
			schema, _ = fastjson.ParseBytes(schema.GetStringBytes())
		}
		if schema.GetObject("properties") != nil {
			return &form{"", jsonOf(sampleOf(schema))}
		}
	}
	return nil
}

// sampleOf returns a value that meets a schema of objects, strings and numbers.
func sampleOf(schema *fastjson.Value) any {
	if values := schema.GetArray("enum"); len(values) > 0 {
		return string(values[0].GetStringBytes())
	}
	switch string(schema.GetStringBytes("type")) {
	case "object":
		object := map[string]any{}
		schema.GetObject("properties").Visit(func(name []byte, member *fastjson.Value) { object[string(name)] = sampleOf(member) })
		return object
	case "integer", "number":
		return 1815
	}
	return "Paris"
}

// composeForm decides on a call or an answer in JSON: the name of the function,
// "" for text, what follows it, and what it is worth.
func (x *exchange) composeForm() (name, text string, verdict result.Verdict) {
	f := x.request.form
	verdict = x.request.spoilt
	if verdict == "" {
		verdict = x.s.drawVerdict(f)
	}
	name, text = f.tool, f.sample
	switch {
	case verdict == result.VerdictTruncated:
		text = text[:len(text)/2]
	case verdict == result.VerdictBadSchema:
		text = `{"location":"Paris"}`
	case verdict == result.VerdictBadJSON:
		text = strings.TrimPrefix(text, `{"`) // as parsers did that lost the first token
	case f.tool == "":
		verdict = result.VerdictValid // text can be nothing else
	case verdict == result.VerdictWrongTool:
		name = "functions." + name + ":0"
	case verdict == result.VerdictNoCall:
		name, text = "", "It is sunny there."
	case verdict == result.VerdictLeakedIntoContent:
		name, text = "", fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", name, text)
	}
	return name, text, verdict
}

// drawVerdict draws what the next call or answer in JSON is worth.
func (s *Server) drawVerdict(f *form) result.Verdict {
	if s.o.BadCalls <= 0 {
		return result.VerdictValid
	}
	bad := result.ToolCallVerdicts()[1:] // all but Valid
	if f.tool == "" {
		bad = result.StructuredVerdicts()[1:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rng.Float64() >= s.o.BadCalls {
		return result.VerdictValid
	}
	return bad[s.rng.IntN(len(bad))]
}

// pieceLength is how many bytes of a call or of JSON a token is.
const pieceLength = 4

// piecesOf cuts a text into tokens.
func piecesOf(text string) []string {
	var pieces []string
	for ; len(text) > pieceLength; text = text[pieceLength:] {
		pieces = append(pieces, text[:pieceLength])
	}
	return append(pieces, text)
}

// sayForm puts a call or JSON in the place of the answer, and returns its length and
// how it ends.
func (x *exchange) sayForm() (int, finish) {
	name, text, verdict := x.composeForm()
	x.text.fixed, x.text.tight, x.call, x.verdict = piecesOf(text), true, name, verdict
	if name != "" {
		x.text.fixed = append([]string{""}, x.text.fixed...) // the name
	}
	n, reason := x.reasoning+len(x.text.fixed), finishStop
	if limit := x.request.maxOutput; limit > 0 && limit < n {
		n, reason = limit, finishLength
		x.verdict = result.VerdictTruncated
	}
	return n, reason
}
