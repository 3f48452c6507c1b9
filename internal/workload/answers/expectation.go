package answers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// languageBytes is how much of the beginning of an answer its language is detected from.
const languageBytes = 4096

// Expectation is what an answer must be. It never changes and serves any number of probes at once.
type Expectation struct {
	*config.Expect
	matches *regexp.Regexp
	schema  *jsonschema.Schema
}

// newExpectation returns the expectation that the configuration writes down. The error is
// that of a regular expression or a schema that is none.
func newExpectation(c *config.Expect) (*Expectation, error) {
	e := &Expectation{Expect: c}
	var err error
	if c.Matches != "" {
		if e.matches, err = regexp.Compile(c.Matches); err != nil {
			return nil, fmt.Errorf("compile the expected pattern: %w", err)
		}
	}
	if c.JSONSchema != nil {
		if e.schema, err = c.Schema(); err != nil {
			return nil, fmt.Errorf("compile the expected schema: %w", err)
		}
	}
	return e, nil
}

// Judge says what an answer is worth and, where it is not correct, why, without a word of the answer. The form
// comes first: what was cut short is in the wrong format, whatever it says.
func (e *Expectation) Judge(a workload.Answer) (verdict result.Verdict, reason string) {
	verdict, reason = e.compare(a)
	if verdict == result.VerdictCorrect {
		return result.VerdictCorrect, ""
	}
	switch notRight(a.Text, words(answerPart(a.Text)), verdict == result.VerdictWrongFormat) {
	case result.VerdictRefused:
		return result.VerdictRefused, "the answer declines to answer"
	case result.VerdictRepetition:
		return result.VerdictRepetition, "the answer repeats one phrase again and again"
	}
	return verdict, reason
}

func (e *Expectation) compare(a workload.Answer) (verdict result.Verdict, reason string) {
	for _, form := range []func(workload.Answer) string{e.finishFault, e.lengthFault, e.languageFault, e.schemaFault} {
		if reason := form(a); reason != "" {
			return result.VerdictWrongFormat, reason
		}
	}
	switch {
	case e.Equals != "" && strings.TrimSpace(a.Text) != strings.TrimSpace(e.Equals):
		return result.VerdictWrong, "the answer is not what is expected"
	case e.matches != nil && !e.matches.MatchString(a.Text):
		return result.VerdictWrong, "the answer does not match the expected pattern"
	}
	return result.VerdictCorrect, ""
}

func (e *Expectation) finishFault(a workload.Answer) string {
	if len(e.FinishReason) == 0 || slices.Contains(e.FinishReason, a.Finish) {
		return ""
	}
	return fmt.Sprintf("the finish reason is %.20q, want %s", a.Finish, strings.Join(e.FinishReason, " or "))
}

func (e *Expectation) lengthFault(a workload.Answer) string {
	switch n := utf8.RuneCountInString(a.Text); {
	case n < e.MinLength:
		return fmt.Sprintf("the answer has %d characters, want at least %d", n, e.MinLength)
	case e.MaxLength > 0 && n > e.MaxLength:
		return fmt.Sprintf("the answer has %d characters, want at most %d", n, e.MaxLength)
	}
	return ""
}

func (e *Expectation) languageFault(a workload.Answer) string {
	if e.Language == "" {
		return ""
	}
	switch found := config.LanguageOf(a.Text[:min(len(a.Text), languageBytes)]); found {
	case "":
		return "the language of the answer is not recognised, want " + e.Language
	case e.Language:
		return ""
	default:
		return fmt.Sprintf("the language of the answer is %s, want %s", found, e.Language)
	}
}

func (e *Expectation) schemaFault(a workload.Answer) string {
	if e.schema == nil {
		return ""
	}
	// As float64 and not as text: the schema's arithmetic is exact, and a number
	// such as 1e999999 would take it for ever.
	var value any
	if json.Unmarshal([]byte(a.Text), &value) != nil {
		if strings.HasPrefix(strings.TrimSpace(a.Text), "```") {
			return "the answer is in a code block, want JSON alone"
		}
		return "the answer is not JSON"
	}
	err := e.schema.Validate(value)
	if err == nil {
		return ""
	}
	return "the answer does not meet the JSON schema" + unmet(err)
}

// unmet says what of a schema is not met, in the words of the schema.
func unmet(err error) string {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return ""
	}
	return fmt.Sprintf(": %.100q is not met", firstUnmet(invalid))
}

// firstUnmet is the first place in the schema that is not met, in the order of
// their names: that of the causes is another one each time.
func firstUnmet(err *jsonschema.ValidationError) string {
	if len(err.Causes) == 0 {
		_, place, _ := strings.Cut(err.SchemaURL, "#")
		return strings.Join(append([]string{place}, err.ErrorKind.KeywordPath()...), "/")
	}
	first := firstUnmet(err.Causes[0])
	for _, cause := range err.Causes[1:] {
		first = min(first, firstUnmet(cause))
	}
	return first
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

// byTool returns what says whether an answer calls a function as it should and, where it is not Valid, why: shortly and
// without a word of the answer. The error is that of parameters that are no schema.
func byTool(tool api.Tool) (func(workload.Answer) (result.Verdict, string), error) {
	schema, err := compile(tool.Parameters)
	if err != nil {
		return nil, fmt.Errorf("compile the parameters of %s: %w", tool.Name, err)
	}
	name := regexp.QuoteMeta(tool.Name)
	spoken := regexp.MustCompile(`"` + name + `"|\b` + name + `\b[:\d]*\s*[({[<]`) // a call, written as text
	return func(a workload.Answer) (verdict result.Verdict, reason string) {
		switch {
		case callMarkup.MatchString(a.Text):
			return result.VerdictLeakedIntoContent, "the text has the markup of a call"
		case len(a.Calls) > 0:
			return judgeCalls(a.Calls, tool.Name, schema)
		case spoken.MatchString(a.Text):
			return result.VerdictLeakedIntoContent, "the call is in the text"
		case callMarkup.MatchString(a.Reasoning):
			return result.VerdictLeakedIntoContent, "the call is in the reasoning"
		case a.Finish == finishLength:
			return result.VerdictTruncated, "the answer reached the limit of output tokens before its call"
		}
		return result.VerdictNoCall, "the answer calls no function"
	}, nil
}

func judgeCalls(all []workload.Call, name string, schema *jsonschema.Schema) (verdict result.Verdict, reason string) {
	for _, call := range all {
		if call.Name != name {
			return result.VerdictWrongTool, "the name of the function is none that was offered"
		}
		if verdict, reason = judgeJSON(schema, call.Arguments, "the text of the arguments"); verdict != result.VerdictValid {
			break
		}
	}
	return verdict, reason
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

// refusalWithin is in how many words from its beginning an answer declines, if it does.
const refusalWithin = 16

// refuses reports whether an answer, given as its words, declines to answer. The
// phrases are common ones: to be asked only of an answer that is not right.
func refuses(said string) bool {
	start := said
	if all := strings.SplitN(said, " ", refusalWithin+1); len(all) > refusalWithin {
		start = strings.TrimSuffix(said, all[refusalWithin])
	}
	return slices.ContainsFunc(phrases().Refusals, func(phrase string) bool { return within(start, phrase) })
}

// A text runs in a loop when its end is one phrase at least turns times in a row. The bounds for words, and for
// characters where a script has no spaces, keep "ha ha ha" and a rule of dashes out.
const (
	turns      = 4
	minWords   = 12
	maxPhrase  = 150
	minRunes   = 100
	maxPattern = 300
)

func loops(text string) bool {
	tail := ending(text)
	return runsInLoop(spoken(words(tail)), tail)
}

func ending(text string) string {
	return strings.ToValidUTF8(text[max(0, len(text)-tailBytes):], "")
}

// spoken returns the words of what words returns, without the last, which may have been cut.
func spoken(said string) []string {
	all := strings.Split(said, " ")
	return all[:len(all)-1]
}

// squeezed returns the characters of a text, white space squeezed.
func squeezed(text string) []rune {
	text = strings.TrimSpace(text)
	runes := make([]rune, 0, len(text))
	for _, r := range text {
		switch {
		case !unicode.IsSpace(r):
			runes = append(runes, r)
		case runes[len(runes)-1] != ' ':
			runes = append(runes, ' ')
		}
	}
	return runes
}

// runsInLoop reports whether a text that ends with these words runs in a loop, given its ending.
func runsInLoop(spoken []string, tail string) bool {
	return isPeriodic(lastOf(spoken, turns*maxPhrase), maxPhrase, minWords) ||
		isPeriodic(lastOf(squeezed(tail), turns*maxPattern), maxPattern, minRunes)
}

// tailBytes is how much of the end of a text is looked at: enough for the words and characters of the longest loop.
const tailBytes = 16 << 10

func lastOf[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

// isPeriodic reports whether the end of s is a sequence of at most longest that
// comes turns times or more, and is at least least long in all.
func isPeriodic[T comparable](s []T, longest, least int) bool {
	for period := 1; period <= longest; period++ {
		want := max(turns*period, least)
		if want > len(s) {
			return false
		}
		end := s[len(s)-want:]
		if slices.Equal(end[period:], end[:want-period]) {
			return true
		}
	}
	return false
}
