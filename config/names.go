package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxWord bounds what is compared of a word, in bytes: longer than any name.
const maxWord = 128

// NearestNames returns the n of known that differ least from a word, the nearest first: those
// that contain it or that it contains come before the others.
func NearestNames(word string, known []string, n int) []string {
	word = word[:min(len(word), maxWord)]
	apart := func(known string) int {
		n := edits(word, known)
		if !contain(word, known) {
			n += maxWord
		}
		return n
	}
	sorted := slices.Clone(known)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(apart(a), apart(b)) })
	return sorted[:min(n, len(sorted))]
}

// Guess returns the one of known that a word is likely meant to be; "" where none is near
// enough: it has the word in it, or differs from it in one letter of three at most.
func Guess(word string, known []string) string {
	word = word[:min(len(word), maxWord)]
	guess, least := "", 0
	for _, name := range known {
		n := edits(word, name)
		near := n <= 1+len(word)/3 && n < len(name) || len(word) >= minContained && strings.Contains(name, word)
		if near && (guess == "" || n < least) {
			guess, least = name, n
		}
	}
	return guess
}

// Hint ends a message about an unknown word: with the name that it is likely meant to be or,
// where none is near, with those that are known, under that title.
func Hint(word, title string, known []string) string {
	if meant := Guess(word, known); meant != "" {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	const most = 25
	more := ""
	if len(known) > most {
		known, more = known[:most], ", ..."
	}
	return "; " + title + ": " + strings.Join(known, ", ") + more
}

// minContained is how many bytes of a name are taken for the name.
const minContained = 3

// contain reports whether one of two words is a part of the other.
func contain(a, b string) bool { return strings.Contains(a, b) || strings.Contains(b, a) }

// edits returns how many bytes must be inserted, removed or replaced to make b of a
// (Levenshtein distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
