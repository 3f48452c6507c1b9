// Package check says whether an answer is right: by what the configuration
// expects, or by what the answer to a question is known to be.
package check

// Verdict is what an answer came to. The set is closed: it is a label value.
type Verdict string

// The verdicts.
const (
	// Correct is an answer that is as expected.
	Correct Verdict = "correct"
	// Wrong is an answer in the right form that says something else.
	Wrong Verdict = "wrong"
	// WrongFormat is an answer in another form, length or language than
	// expected, or that ended for another reason.
	WrongFormat Verdict = "wrong_format"
	// Refused is an answer that declines to answer.
	Refused Verdict = "refused"
	// Repetition is an answer that runs in a loop.
	Repetition Verdict = "repetition"
)

// Verdicts lists the closed set.
func Verdicts() []Verdict { return []Verdict{Correct, Wrong, WrongFormat, Refused, Repetition} }
