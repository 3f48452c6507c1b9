package config

import (
	"cmp"
	"slices"
	"strings"
)

// nearest lists the three of known that differ least from a word, the nearest first:
// those that contain it or that it contains come before the others.
func nearest(word string, known []string) string {
	word = word[:min(len(word), maxNameBytes)]
	sorted := slices.Clone(known)
	apart := func(known string) int {
		n := edits(word, known)
		if !strings.Contains(known, word) && !strings.Contains(word, known) {
			n += maxNameBytes
		}
		return n
	}
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(apart(a), apart(b)) })
	return strings.Join(sorted[:min(3, len(sorted))], ", ")
}

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
