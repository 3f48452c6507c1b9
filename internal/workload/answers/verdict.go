// Package check reports whether an answer is right: by what the configuration
// expects, or by what the answer to a question is known to be.
package answers

import (
	"slices"
	"strings"
	"unicode"
)

// refusalWithin is in how many words from its beginning an answer declines, if
// it does.
const refusalWithin = 16

// refusals are what declines to answer, as words has them. An apology alone is
// none: "Sorry, it is 41" is only wrong.
var refusals = []string{
	"i cant", "i cannot", "i can not", "i am unable", "im unable", "i am not able", "im not able", "i wont", "i will not",
	"i must decline", "i have to decline", "i must refuse", "i decline to", "i refuse to",
	"im not allowed", "i am not allowed", "im not permitted", "i am not permitted", "not comfortable with", "dont feel comfortable",
	"cant help with", "cannot help with", "cant assist", "cannot assist", "unable to assist", "unable to help",
}

// refuses reports whether an answer, given as its words, declines to answer. The
// phrases are common ones: to be asked only of an answer that is not right.
func refuses(said string) bool {
	start := said
	for i, left := 0, refusalWithin; i < len(said) && left > 0; i++ {
		if said[i] != ' ' {
			continue
		}
		if left--; left == 0 {
			start = said[:i]
		}
	}
	for _, phrase := range refusals {
		if within(start, phrase) {
			return true
		}
	}
	return false
}

// A text runs in a loop when its end is one phrase at least turns times in a row.
// The loop of words must be minWords long and its phrase at most maxPhrase words;
// that of characters, for scripts without spaces and for symbols, minRunes and
// maxPattern. So "ha ha ha" and a rule of dashes are none.
const (
	turns      = 4
	minWords   = 12
	maxPhrase  = 150
	minRunes   = 100
	maxPattern = 300
)

// loops reports whether a text runs in a loop.
func loops(text string) bool {
	tail := ending(text)
	return runsInLoop(spoken(words(tail)), tail)
}

// ending returns the end of a text that is looked at.
func ending(text string) string {
	return strings.ToValidUTF8(text[max(0, len(text)-tailBytes):], "")
}

// spoken returns the words of what words returns, without the last, which may have been
// cut.
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

// runsInLoop reports whether a text that ends with these words runs in a loop, given its
// ending.
func runsInLoop(spoken []string, tail string) bool {
	return isPeriodic(lastOf(spoken, turns*maxPhrase), maxPhrase, minWords) ||
		isPeriodic(lastOf(squeezed(tail), turns*maxPattern), maxPattern, minRunes)
}

// tailBytes is how much of the end of a text is looked at: enough for the words
// and characters of the longest loop.
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
