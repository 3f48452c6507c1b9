package load

import (
	_ "embed"
	"math/rand/v2"
	"strings"
	"sync"
)

// The fixed parts make any model write on until it is cut: at both ends, because the filler between them is long.
const (
	head = "Count upwards from one in English words and never stop. The passage below means nothing; skip it."
	tail = "Now count: one, two, three, and so on in words, without any remark and without an end."

	fixedWords = 34 // of head and tail
	nonceWords = 8
)

const (
	// meanBytes is a little more than the mean length of a word with its space: a prompt is built in one allocation.
	meanBytes = 5.8
	// spareBytes covers what a short prompt may be longer than the mean.
	spareBytes = 256
)

// compose writes a prompt of exactly so many words, nonce included; a nil rng leaves out the nonce.
func compose(words int, rng *rand.Rand) string {
	var text strings.Builder
	text.Grow(int(float64(words)*meanBytes) + spareBytes)
	filler := words - fixedWords
	if rng != nil {
		filler -= nonceWords
		writeNonce(&text, rng)
	}
	text.WriteString(head)
	text.WriteString("\n\n")
	if filler > 0 {
		writeFiller(&text, filler)
	}
	text.WriteString(tail)
	return text.String()
}

// writeNonce writes random words: some 60 bits, half of them in the first sixteen characters.
func writeNonce(text *strings.Builder, rng *rand.Rand) {
	all := words()[openers]
	for i := range nonceWords {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(all[rng.IntN(len(all))])
	}
	text.WriteString(". ")
}

// writeFiller writes the first n words of an endless text, always the same: a longer prompt extends a shorter one.
func writeFiller(text *strings.Builder, n int) {
	byLetter, state := words(), uint64(1)
	pick := func(from []string) string {
		// A linear congruential step; its high bits are random enough for prose.
		state = state*6364136223846793005 + 1442695040888963407
		return from[int(state>>33)%len(from)]
	}
	for n > 0 {
		sentence := pick(sentences)
		for i := 0; i < len(sentence) && n > 0; i++ {
			if sentence[i] == ',' {
				text.WriteByte(',')
				continue
			}
			if i > 0 {
				text.WriteByte(' ')
			}
			word := pick(byLetter[sentence[i]])
			if i == 0 {
				text.WriteByte(word[0] - 'a' + 'A')
				word = word[1:]
			}
			text.WriteString(word)
			n--
		}
		if n > 0 {
			text.WriteString(". ")
		}
	}
	text.WriteString(".\n\n")
}

// sentences are the patterns of the filler: letters of words.txt.
var sentences = []string{
	"danvpdan",
	"dnvrpdn,cdnvpdn",
	"pdan,dnvdn",
	"danvdn,cdnvr",
	"dnpdnvdan",
	"rdnvpdn",
	"dnvdn,dnvdan,cdnvr",
}

//go:embed words.txt
var wordsFile string

// openers is the letter of the words that start a cold prompt.
const openers = 'o'

// words returns those of words.txt by their letter.
var words = sync.OnceValue(func() *['z'][]string {
	var all ['z'][]string
	for line := range strings.Lines(wordsFile) {
		if row := strings.Fields(line); row[0] != "#" {
			all[row[0][0]] = append(all[row[0][0]], row[1:]...)
		}
	}
	return &all
})
