package answers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// ToolCheck judges whether an answer calls a function as it should. It never
// changes and serves any number of probes at once.
type ToolCheck struct {
	name   string
	schema *jsonschema.Schema
	spoken *regexp.Regexp // a call of the function, written as text
}

// NewToolCheck returns the check of calls of a function. The error is that of a schema that is none.
func NewToolCheck(tool api.Tool) (*ToolCheck, error) {
	schema, err := compile(tool.Parameters)
	if err != nil {
		return nil, fmt.Errorf("compile the parameters of %s: %w", tool.Name, err)
	}
	name := regexp.QuoteMeta(tool.Name)
	return &ToolCheck{name: tool.Name, schema: schema, spoken: regexp.MustCompile(`"` + name + `"|\b` + name + `\b[:\d]*\s*[({[<]`)}, nil
}

func compile(text json.RawMessage) (*jsonschema.Schema, error) {
	var expected config.Expect
	if err := json.Unmarshal(text, &expected.JSONSchema); err != nil {
		return nil, err
	}
	return expected.Schema()
}

// callMarkup is what models write around a call, for a parser of the server to take
// out: special tokens and tags of the common formats.
var callMarkup = regexp.MustCompile(`<[|/｜]{0,2}(?:\w+:)?(?:tool[_▁]?calls?|function|invoke|arg_key|parameter=|action_start|plugin|python_tag|｜?DSML)|\[TOOL_CALLS?\]|\[ARGS\]|<\|channel\|>`)

// Judge says what an answer is worth and, where it is not Valid, why: shortly and without a word of the answer.
func (t *ToolCheck) Judge(a workload.Answer) (verdict result.Verdict, reason string) {
	if callMarkup.MatchString(a.Text) {
		return result.VerdictLeakedIntoContent, "the text has the markup of a call"
	}
	if len(a.Calls) == 0 {
		return t.judgeText(a)
	}
	for _, call := range a.Calls {
		if verdict, reason = t.judgeCall(call); verdict != result.VerdictValid {
			return verdict, reason
		}
	}
	return result.VerdictValid, ""
}

func (t *ToolCheck) judgeText(a workload.Answer) (result.Verdict, string) {
	switch {
	case t.spoken.MatchString(a.Text):
		return result.VerdictLeakedIntoContent, "the call is in the text"
	case callMarkup.MatchString(a.Reasoning):
		return result.VerdictLeakedIntoContent, "the call is in the reasoning"
	case a.Finish == finishLength:
		return result.VerdictTruncated, "the answer reached the limit of output tokens before its call"
	}
	return result.VerdictNoCall, "the answer calls no function"
}

func (t *ToolCheck) judgeCall(c workload.Call) (result.Verdict, string) {
	if c.Name != t.name {
		return result.VerdictWrongTool, "the name of the function is none that was offered"
	}
	return judgeJSON(t.schema, c.Arguments, "the text of the arguments")
}

// finishLength is the finish reason of an answer that reached its limit.
const finishLength = "length"

// bySchema returns what says whether an answer is the JSON of a schema and, where it is not Valid,
// why: shortly and without a word of the answer. The error is that of a schema that is none.
func bySchema(text json.RawMessage) (func(workload.Answer) (result.Verdict, string), error) {
	schema, err := compile(text)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of answers: %w", err)
	}
	return func(a workload.Answer) (result.Verdict, string) {
		if strings.TrimSpace(a.Text) == "" && a.Finish == finishLength {
			return result.VerdictTruncated, "the answer reached the limit of output tokens before its JSON"
		}
		return judgeJSON(schema, a.Text, "the answer")
	}, nil
}

// judgeJSON judges a text that should be JSON of a schema; what names it.
func judgeJSON(schema *jsonschema.Schema, text, what string) (result.Verdict, string) {
	// Numbers as float64: see schemaFault.
	decoder := json.NewDecoder(strings.NewReader(text))
	var value any
	err := decoder.Decode(&value)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return result.VerdictTruncated, what + " ends before its JSON does"
	}
	if _, after := decoder.Token(); err != nil || !errors.Is(after, io.EOF) {
		return result.VerdictBadJSON, what + " is " + notJSON(text)
	}
	if err := schema.Validate(value); err != nil {
		return result.VerdictBadSchema, what + " does not meet the JSON schema" + unmet(err)
	}
	return result.VerdictValid, ""
}

func notJSON(text string) string {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return "empty"
	case strings.HasPrefix(text, "```"):
		return "in a code block"
	}
	return "not JSON"
}
