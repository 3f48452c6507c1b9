package simulator

import "strings"

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
	for word := range strings.FieldsSeq(text) {
		for len(word) > 0 {
			piece := word[:min(bytesPerToken, len(word))]
			t := token(len(piece)) << 32
			for i := range len(piece) {
				t |= token(piece[i]) << (8 * i)
			}
			dst = append(dst, t)
			word = word[len(piece):]
		}
	}
	return dst
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

// vocabulary is what the simulated model says: the numbers from zero to
// ninety-nine in words, one word per token, again and again.
type vocabulary []string

func newVocabulary() vocabulary {
	small := strings.Fields(`zero one two three four five six seven eight nine ten eleven twelve
		thirteen fourteen fifteen sixteen seventeen eighteen nineteen`)
	tens := strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety")
	v := vocabulary(small)
	for _, ten := range tens {
		v = append(v, ten)
		for _, one := range small[1:10] {
			v = append(v, ten+"-"+one)
		}
	}
	return v
}

// text returns token i of a text that starts at word offset, with the space
// that stands before it.
func (v vocabulary) text(dst []byte, offset, i int) []byte {
	if i > 0 {
		dst = append(dst, ' ')
	}
	return append(dst, v[(offset+i)%len(v)]...)
}
