package check

import (
	"slices"
	"strings"
)

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

// loops tells whether a text runs in a loop.
func loops(text string) bool {
	tail := strings.ToValidUTF8(text[max(0, len(text)-tailBytes):], "")
	spoken := strings.Split(words(tail), " ")
	// The last word may have been cut.
	spoken = lastOf(spoken[:len(spoken)-1], turns*maxPhrase)
	squeezed := lastOf([]rune(strings.Join(strings.Fields(tail), " ")), turns*maxPattern)
	return isPeriodic(spoken, maxPhrase, minWords) || isPeriodic(squeezed, maxPattern, minRunes)
}

// tailBytes is how much of the end of a text is looked at: enough for the words
// and characters of the longest loop.
const tailBytes = 16 << 10

func lastOf[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

// isPeriodic tells whether the end of s is a sequence of at most longest that
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
