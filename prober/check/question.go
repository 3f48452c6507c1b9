package check

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Question is a question whose answer is known.
type Question struct {
	// ID names the question for good.
	ID string
	// Text is what to ask. It asks for the answer alone.
	Text string
	// Answers are the ways to say the right answer; one at least.
	Answers []string
	// Key is set where the question asks for a JSON object: its one key, whose
	// value is one of Answers.
	Key string
}

// Right returns the answer that was asked for, as a model should give it.
func (q Question) Right() string {
	if q.Key == "" {
		return q.Answers[0]
	}
	value := q.Answers[0]
	if !json.Valid([]byte(value)) {
		value = strconv.Quote(value)
	}
	return fmt.Sprintf("{%q: %s}", q.Key, value)
}

// Judge says what an answer is worth. The answer is correct when it is one of
// the accepted ones in the sense of words, but for an opening such as "The
// answer is". It is in the wrong format when it is empty, or when it has an
// accepted answer in it and says more, were it only "not". What is written
// inside <think> is no part of it.
func (q Question) Judge(text string) Verdict {
	answer := answerPart(text)
	said := words(answer)
	if q.isRight(answer, said) {
		return Correct
	}
	return q.fault(text, said)
}

func (q Question) isRight(answer, said string) bool {
	if q.Key != "" {
		value, ok := onlyValue(answer, q.Key)
		return ok && q.accepts(words(value))
	}
	return q.accepts(said) || q.accepts(withoutOpening(said))
}

func (q Question) accepts(said string) bool {
	for _, a := range q.Answers {
		if said == words(a) {
			return true
		}
	}
	return false
}

// fault says what is wrong with an answer that is not correct.
func (q Question) fault(text, said string) Verdict {
	if v := misbehaviour(text, said); v != "" {
		return v
	}
	if said == "" {
		return WrongFormat
	}
	for _, a := range q.Answers {
		if within(said, words(a)) {
			return WrongFormat
		}
	}
	return Wrong
}

// onlyValue returns the value of a JSON object that has this one key.
func onlyValue(text, key string) (value string, ok bool) {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) != nil || len(object) != 1 {
		return "", false
	}
	switch v := object[key].(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// openings are the words before an answer that change nothing about it, longer
// ones before shorter ones that they begin with.
var openings = []string{
	"the final answer is ", "the correct answer is ", "the answer is ", "the answer would be ", "final answer ", "answer is ", "answer ",
	"the result is ", "result ", "it is ", "its ", "it would be ", "that is ", "thats ", "that would be ", "there are ", "there is ",
	"the number is ", "the word is ", "sure ", "certainly ", "of course ", "okay ", "ok ", "here is the answer ", "heres the answer ", "so ",
}

// withoutOpening cuts openings off: "Sure! The answer is" is two of them.
func withoutOpening(said string) string {
	for range 3 {
		for _, o := range openings {
			if rest, ok := strings.CutPrefix(said, o); ok {
				said = rest
				break
			}
		}
	}
	return said
}

// Contains judges an answer by what a prompt of the user's own expects: it is
// correct when it is what is expected, or has it in it, whole words in the sense
// of words. What is expected must not be empty; where it has no word, such as
// "+", the answer must have it in it as it is written.
func Contains(answer, expected string) Verdict {
	part := answerPart(answer)
	said, want := words(part), words(expected)
	if within(said, want) || want == "" && strings.Contains(part, strings.TrimSpace(expected)) {
		return Correct
	}
	if v := misbehaviour(answer, said); v != "" {
		return v
	}
	if strings.TrimSpace(part) == "" {
		return WrongFormat
	}
	return Wrong
}

// misbehaviour says whether an answer that is not right refuses or runs in a
// loop, "" for neither. said are the words of the answer without its thoughts.
func misbehaviour(text, said string) Verdict {
	switch {
	case refuses(said):
		return Refused
	case loops(text):
		return Repetition
	}
	return ""
}
