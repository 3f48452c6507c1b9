package simulator

import (
	"iter"
	"strings"
	"unicode"
)

// token identifies one token; equal prompts have equal tokens.
type token uint64

const (
	// bytesPerToken is how much of a word one token covers.
	bytesPerToken = 4
	// templateTokens is what a chat template adds, half of it on each side.
	templateTokens = 12

	templateToken  token = 1 << 40
	generatedToken token = 1 << 41
	randomToken    token = 1 << 42
)

// tokenize appends the tokens of text: words are what stands between white
// space, and each costs one token per four bytes begun.
func tokenize(dst []token, text string) []token {
	for from, to := range pieces(text) {
		t := token(to-from) << 32
		for i := range to - from {
			t |= token(text[from+i]) << (8 * i)
		}
		dst = append(dst, t)
	}
	return dst
}

// pieces goes through the bounds of the tokens of text, in bytes.
func pieces(text string) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for at := 0; ; {
			start := strings.IndexFunc(text[at:], func(r rune) bool { return !unicode.IsSpace(r) })
			if start < 0 {
				return
			}
			at += start
			end := len(text)
			if n := strings.IndexFunc(text[at:], unicode.IsSpace); n >= 0 {
				end = at + n
			}
			for at < end {
				to := min(at+bytesPerToken, end)
				if !yield(at, to) {
					return
				}
				at = to
			}
		}
	}
}

// chatTokens returns the tokens of a conversation inside its template.
func chatTokens(contents []string) []token {
	var tokens []token
	for i := range token(templateTokens / 2) {
		tokens = append(tokens, templateToken|i)
	}
	for _, c := range contents {
		tokens = tokenize(tokens, c)
	}
	for i := range token(templateTokens / 2) {
		tokens = append(tokens, templateToken|(templateTokens/2+i))
	}
	return tokens
}
