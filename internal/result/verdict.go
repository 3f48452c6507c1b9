package result

import "cmp"

// Verdict is what an answer came to. The set is closed: it is a label value.
type Verdict string

const (
	VerdictCorrect Verdict = "correct" // an answer that is as expected
	VerdictWrong   Verdict = "wrong"   // an answer in the right form that says something else
	// VerdictWrongFormat is an answer in another form, length or language than
	// expected, or that ended for another reason.
	VerdictWrongFormat Verdict = "wrong_format"
	VerdictRefused     Verdict = "refused"    // an answer that declines to answer
	VerdictRepetition  Verdict = "repetition" // an answer that runs in a loop

	// VerdictValid is a call of the function that was asked for, or an answer in JSON, that meets the schema.
	VerdictValid             Verdict = "valid"
	VerdictBadJSON           Verdict = "bad_json"            // a call whose arguments are not JSON, or an answer that is not
	VerdictBadSchema         Verdict = "bad_schema"          // JSON that does not meet the schema
	VerdictWrongTool         Verdict = "wrong_tool"          // a call of a function by a name that was not offered
	VerdictNoCall            Verdict = "no_call"             // an answer without a call
	VerdictLeakedIntoContent Verdict = "leaked_into_content" // a call, or its markup, in the text of the answer
	// VerdictTruncated is a call whose arguments end before their JSON does, or an answer that does, whatever the
	// finish reason; or one that reached the limit of output tokens before either began.
	VerdictTruncated Verdict = "truncated"
)

// Verdicts lists the closed set.
func Verdicts() []Verdict { return append(AnswerVerdicts(), ToolCallVerdicts()...) }

// AnswerVerdicts lists the verdicts on answers to questions and to prompts with an expected answer.
func AnswerVerdicts() []Verdict {
	return []Verdict{VerdictCorrect, VerdictWrong, VerdictWrongFormat, VerdictRefused, VerdictRepetition}
}

// ToolCallVerdicts lists the verdicts on calls of functions.
func ToolCallVerdicts() []Verdict {
	return []Verdict{VerdictValid, VerdictBadJSON, VerdictBadSchema, VerdictWrongTool, VerdictNoCall, VerdictLeakedIntoContent, VerdictTruncated}
}

// StructuredVerdicts lists the verdicts on answers that are to be JSON of a schema.
func StructuredVerdicts() []Verdict {
	return []Verdict{VerdictValid, VerdictBadJSON, VerdictBadSchema, VerdictTruncated}
}

// IsRight reports whether the answer is as it should be.
func (v Verdict) IsRight() bool { return v == VerdictCorrect || v == VerdictValid }

// Sign is a sign that an answer was corrupted on its way from the model to the
// user, whatever was asked. The set is closed: it is a label value.
type Sign string

const (
	// SignScript is a letter or word in a script that neither the prompt has nor
	// code and names are written in, such as Thai in an English answer.
	SignScript Sign = "foreign_script"
	// SignRepetition is a text that runs in a loop, or that says for the most part what it has said before.
	SignRepetition Sign = "repetition"
	// SignOneToken is a text of one word or character over and over to its end, but for a few at its start, which is
	// how logits look that are no numbers: "!!!!!!" or " the the the". No model usually answers so.
	SignOneToken Sign = "repeated_token"
	// SignControl is a character that no text has: a control character, the
	// replacement of one that was lost, or one of private use.
	SignControl Sign = "control_character"
	// SignToken is a special token of a model, a part of its chat template, or a
	// piece of its vocabulary that was not decoded.
	SignToken     Sign = "special_token"
	SignReasoning Sign = "reasoning_tag" // a tag around reasoning, empty or not, in the text of the answer
	// SignNoFinish is an answer that ended without a finish reason in a protocol that has one.
	SignNoFinish Sign = "no_finish_reason"
)

// Signs lists the closed set. It is not to be changed.
func Signs() []Sign { return words().signs }

// Description returns what the answers have, as in "2 of 90 answers have special tokens".
func (s Sign) Description() string { return cmp.Or(words().texts[string(s)], string(s)) }
