package load

import (
	"math/rand/v2"
	"strings"
)

// The fixed parts of a prompt make any model write on until it is cut. The
// order is at both ends, because the filler between them is long.
const (
	head = "Count upwards from one in English words and never stop. The passage below means nothing; skip it."
	tail = "Now count: one, two, three, and so on in words, without any remark and without an end."

	fixedWords = 34 // of head and tail
	nonceWords = 8
)

const (
	// meanBytes is a little more than the mean length of a word of the filler
	// with its space, so that a prompt is built in one allocation.
	meanBytes = 5.8
	// spareBytes covers what a short prompt may be longer than the mean.
	spareBytes = 256
)

// compose writes a prompt of exactly so many words, nonce included; a nil rng
// leaves out the nonce.
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

// writeNonce writes random words: some 60 bits, half of them in the first
// sixteen characters.
func writeNonce(text *strings.Builder, rng *rand.Rand) {
	for i := range nonceWords {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(openers[rng.IntN(len(openers))])
	}
	text.WriteString(". ")
}

// writeFiller writes the first n words of an endless text that is always the
// same, so that a longer prompt extends a shorter one.
func writeFiller(text *strings.Builder, n int) {
	state := uint64(1)
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
			word := pick(wordsOf(sentence[i]))
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

// sentences are the patterns of the filler; wordsOf explains the letters.
var sentences = []string{
	"danvpdan",
	"dnvrpdn,cdnvpdn",
	"pdan,dnvdn",
	"danvdn,cdnvr",
	"dnpdnvdan",
	"rdnvpdn",
	"dnvdn,dnvdan,cdnvr",
}

// wordsOf returns the words for a letter of a sentence. All are
// common and short, so that most tokenizers have one token for each.
func wordsOf(letter byte) []string {
	switch letter {
	case 'd':
		return determiners
	case 'a':
		return adjectives
	case 'n':
		return nouns
	case 'v':
		return verbs
	case 'p':
		return prepositions
	case 'c':
		return conjunctions
	default: // r
		return adverbs
	}
}

var (
	determiners  = strings.Fields(`the the the one this that each every another some her his their our`)
	prepositions = strings.Fields(`in on near under over behind before after beside across from into with without along around`)
	conjunctions = strings.Fields(`and and but so while because then when`)
	adverbs      = strings.Fields(`again slowly soon later often early quickly gently there here today once twice almost never always`)

	adjectives = strings.Fields(`
		old new small large quiet bright dark warm cold green blue red white black early late
		long short high low open empty full heavy light soft hard clean dry wet young wide
		narrow simple plain fresh sweet strong rich poor`)

	nouns = strings.Fields(`
		river house garden table window street market letter morning evening teacher doctor child
		farmer bridge forest mountain valley road train station ship harbor island field village city
		school church kitchen door wall roof stone tree flower leaf bird horse dog cat fish winter
		summer spring storm cloud rain snow wind sun moon star song story book paper picture clock
		lamp chair bed cup plate bread apple milk coat shoe hat box bag key coin`)

	verbs = strings.Fields(`
		saw found took held moved passed left kept followed crossed carried opened closed watched
		painted built sold bought lost heard knew liked met needed reached turned washed filled
		covered touched helped asked called showed`)

	// openers start a cold prompt. All have three letters, so that sixteen
	// characters hold four of them.
	openers = strings.Fields(`
		act add age ago aid aim air all and ant any arc are ark arm art ash ask ate
		awe axe bad bag ban bar bat bay bed bee beg bet bid big bin bit bow box boy bud
		bug bun bus but buy bye cab can cap car cat cow cry cup cut dad dam day den
		did dig dim dip dog dot dry due dug ear eat egg ego elf end era eve eye fan
		far fat fed fee few fig fin fit fix fly fog for fox fun fur gap gas get god
		got gum guy gym had ham has hat hay hen her hid him hip his hit hop hot how
		hub hug hut ice ill ink inn its jam jar jaw jet job jog joy key kid kin kit lab
		lap law lay led leg let lid lie lip log lot low mad man map mat may men met mix
		mob mom mud mug net new nod nor not now nut oak odd off oil old one orb our out
		owl own pad pan par pat paw pay pea pen pet pie pig pin pit pop pot pub put ran
		rat raw ray red rib rid rim rip rob rod row rub rug run sad sat saw say sea see
		set she shy sit six ski sky son sum sun tap tax tea ten the tie tin tip toe
		ton too top toy try tub two use van was way web wet who why win wit yes you`)
)
