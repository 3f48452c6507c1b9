package simulator

import "strings"

// vocabulary is the words of the simulated model: the numbers from zero to
// ninety-nine, one word per token.
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

// speech is the text of one answer, a word a token. The zero value counts from
// zero, again and again.
type speech struct {
	// said is the answer to a question; the words of the vocabulary come after.
	said []string
	// offset is the word of the vocabulary that it begins with, and voice what
	// decides the order of the words; 0 is to count.
	offset int
	voice  uint64
	// turn is the word, counted from 1, from which on the answer says something
	// else than it would have; 0 is none.
	turn int
}

// append appends word i, with the space that stands before it.
func (p *speech) append(dst []byte, v vocabulary, i int) []byte {
	if i > 0 {
		dst = append(dst, ' ')
	}
	if i < len(p.said) {
		return append(dst, p.said[i]...)
	}
	word := i
	if p.voice != 0 {
		word = int(mix(p.voice, uint64(i)) % uint64(len(v)))
	}
	if p.turn > 0 && i+1 >= p.turn {
		word += len(v) / 2
	}
	return append(dst, v[(p.offset+word)%len(v)]...)
}
